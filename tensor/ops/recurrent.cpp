// Shape rules of the recurrent layers.
#include "recurrent.h"

#include "../core/checked_size.h"
#include "../core/registry.h"
#include "../text/text.h"
#include "require.h"

namespace mezzo::op {

namespace {

void require_shape(std::string_view op, const char* what, const Tensor& x, const Shape& shape) {
  if (x.defined() && !(x.shape() == shape))
    fail<ShapeError>(op,
                     {.what = str(what, " does not fit"), .got = str(x), .expected = str(shape)});
}

void require_lengths(std::string_view op, const std::vector<std::int64_t>& lengths,
                     const Shape& x) {
  if (lengths.empty()) return;
  if (static_cast<std::int64_t>(lengths.size()) != x[1])
    fail<ValueError>(op, {.what = "the number of lengths must equal the number of sequences",
                          .got = str(lengths.size()),
                          .expected = str(x[1])});
  for (const std::int64_t length : lengths)
    if (length < 0 || length > x[0])
      fail<ValueError>(
          op,
          {.what = "a length is out of range", .got = str(length), .expected = str("0..", x[0])});
}

}  // namespace

void require_weights(std::string_view op, CellKind kind, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& w_hr) {
  if (!w_ih.defined() || !w_hh.defined())
    fail<ValueError>(op, {.what = "a weight is undefined", .expected = "weight_ih and weight_hh"});
  if (w_hr.defined() && kind != CellKind::lstm)
    fail<ValueError>(op, {.what = "weight_hr is supported by lstm only", .got = str(w_hr)});
}

OutSpecs RecurrentLayer::infer(Inputs in, const Attrs& attrs) {
  const std::string_view op = attrs.name;
  const Tensor &x = in[0], &w_ih = in[3], &w_hh = in[4], &w_hr = in[7];
  require_weights(op, attrs.kind, w_ih, w_hh, w_hr);
  const std::int64_t gates = gates_of(attrs.kind);
  if (x.dim() != 3 || w_ih.dim() != 2 || w_ih.shape()[0] % gates != 0 ||
      w_ih.shape()[1] != x.shape()[2])
    fail<ShapeError>(
        op, {.what = "input features do not fit weight_ih",
             .got = str("input ", x, " and weight_ih ", w_ih),
             .expected = str("[T, N, in] and [", gates == 1 ? std::string() : str(gates, " "),
                             "hidden, in]")});
  const std::int64_t hidden = w_ih.shape()[0] / gates, steps = x.shape()[0], batch = x.shape()[1];
  if (w_hr.defined() && w_hr.dim() != 2)
    fail<ShapeError>(
        op, {.what = "weight_hr must be a matrix", .got = str(w_hr), .expected = "[proj, hidden]"});
  const std::int64_t size = w_hr.defined() ? w_hr.shape()[0] : hidden;
  require_shape(op, "weight_hh", w_hh, {gates * hidden, size});
  require_shape(op, "bias_ih", in[5], {gates * hidden});
  require_shape(op, "bias_hh", in[6], {gates * hidden});
  require_shape(op, "weight_hr", w_hr, {size, hidden});
  require_shape(op, "the initial h", in[1], {batch, size});
  require_shape(op, "the initial c", in[2], {batch, hidden});
  require_lengths(op, attrs.lengths, x.shape());
  const DType dtype = require_one_floating_dtype(op, in);
  const bool lstm = attrs.kind == CellKind::lstm;
  std::int64_t rows = attrs.lengths.empty() ? checked_product({steps, batch}, op) : 0;
  for (const std::int64_t length : attrs.lengths) rows += length;
  // The gates; an LSTM also keeps c, and a GRU the part of n that is multiplied by r.
  const std::int64_t kept =
      attrs.keep ? checked_product({rows, hidden, gates == 1 ? 1 : gates + 1}, op) : 0;
  return {{{steps, batch, size}, dtype},
          {{batch, size}, dtype},
          {lstm ? Shape{batch, hidden} : Shape{0}, dtype},
          {{kept}, compute_dtype(dtype)}};
}

OutSpecs RecurrentLayerBackward::infer(Inputs in, const Attrs& attrs) {
  const DType dtype = in[0].dtype();
  const auto wanted = [&](std::size_t i, const Tensor& x) {
    return OutSpec{attrs.wanted[i] ? x.shape() : Shape{0}, dtype};
  };
  std::int64_t weights = 0;
  for (const ParameterPlace& place : parameter_places(in, attrs.wanted)) weights += place.numel();
  return {wanted(0, in[0]), wanted(1, in[1]), wanted(2, in[2]), {{weights}, dtype}};
}

std::array<ParameterPlace, 5> parameter_places(Inputs in, const std::array<bool, 8>& wanted) {
  const Shape bias{in[3].shape()[0]};
  std::array<ParameterPlace, 5> places;
  places[0].shape = in[3].shape();
  places[1].shape = in[4].shape();
  places[2].shape = places[3].shape = bias;
  places[4].shape = in[5].defined() ? in[5].shape() : Shape{0};
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!wanted[3 + i]) places[i].shape = {0};
    places[i].offset = offset;
    offset += places[i].numel();
  }
  return places;
}

std::span<OpInfo* const> recurrent_ops() { return infos_of(RecurrentOps{}); }

}  // namespace mezzo::op
