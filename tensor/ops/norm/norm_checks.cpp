#include "norm_checks.h"

#include "../../text/text.h"

namespace mezzo::op {

namespace {

void check_counter(const Tensor& counter, std::string_view op) {
  if (!counter.defined()) return;
  if (counter.dtype() != DType::i64)
    fail<DtypeError>(
        op, {.what = "the batch counter must be i64", .got = str(counter), .expected = "i64"});
  if (counter.dim() != 0)
    fail<ShapeError>(op, {.what = "the batch counter must be a single number",
                          .got = str(counter),
                          .expected = "shape []"});
}

}  // namespace

void check_floating_input(const Tensor& x, std::string_view op) {
  if (!is_floating(x.dtype()))
    fail<DtypeError>(
        op, {.what = "the input must be floating", .got = str(x), .expected = "a floating dtype"});
}

void check_has_channels(const Tensor& x, std::string_view op) {
  if (x.dim() < 2)
    fail<ShapeError>(op, {.what = "the input has no channel dimension",
                          .got = str(x),
                          .expected = "[N,C] or [N,C,...]"});
}

void check_values(const Tensor& x, const Tensor& values, const Shape& shape, const char* what,
                  std::string_view op) {
  if (!values.defined()) return;
  if (!is_floating(values.dtype()))
    fail<DtypeError>(op, {.what = str(what, " must be floating"),
                          .got = str(values),
                          .expected = "a floating dtype"});
  if (!(values.shape() == shape))
    fail<ShapeError>(op, {.what = str(what, " does not fit the input"),
                          .got = str("input ", x, " and ", what, " ", values),
                          .expected = str("shape ", shape)});
}

void check_batch_norm_operands(Inputs in, std::string_view op) {
  const Tensor& x = in[0];
  check_floating_input(x, op);
  check_has_channels(x, op);
  const Shape channels{x.shape()[1]};
  const char* const names[] = {"weight", "bias", "running mean", "running variance"};
  for (std::size_t i = 0; i < 4; ++i) check_values(x, in[i + 1], channels, names[i], op);
  if (in.size() > 5) check_counter(in[5], op);
}

void check_at_least_zero(double value, const char* name, const char* op) {
  if (!(value >= 0))
    fail<ValueError>(
        op, {.what = str(name, " is out of range"), .got = str(value), .expected = "0 or more"});
}

void check_running(const Tensor& running, const char* op) {
  if (!running.defined() || running.dim() != 1 || running.shape()[0] < 2 ||
      running.strides()[0] != 0)
    return;
  fail<ValueError>(op, {.what = "running statistics share one place in memory",
                        .got = str(running, " with strides ", running.strides()),
                        .hint = "use x.clone() first"});
}

}  // namespace mezzo::op
