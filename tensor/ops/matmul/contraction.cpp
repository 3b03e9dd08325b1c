// Gradients and public functions of the ops in contraction.h.
#include "contraction.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../elementwise/operators.h"
#include "../linalg/cross.h"
#include "../require.h"
#include "../wide.h"
#include "matmul.h"

namespace mezzo::op {

// ---- chains -------------------------------------------------------------------------------------

namespace {

/** A product of matrices, in the order that takes the fewest multiplications. */
class Chain {
 public:
  explicit Chain(std::vector<Tensor> matrices)
      : matrices_(std::move(matrices)),
        n_(matrices_.size()),
        costs_(n_ * n_, 0),
        cuts_(n_ * n_, 0) {
    // Dynamic programming: the cheapest product of each sequence of matrices is combined from those
    // of shorter sequences.
    for (std::size_t length = 2; length <= n_; ++length)
      for (std::size_t first = 0; first + length <= n_; ++first)
        choose_cut(first, first + length - 1);
  }

  Tensor product() const { return product(0, n_ - 1); }

 private:
  double rows(std::size_t i) const { return static_cast<double>(matrices_[i].size(0)); }
  double columns(std::size_t i) const { return static_cast<double>(matrices_[i].size(1)); }

  void choose_cut(std::size_t first, std::size_t last) {
    double best = -1;
    for (std::size_t cut = first; cut < last; ++cut) {
      const double cost = costs_[first * n_ + cut] + costs_[(cut + 1) * n_ + last] +
                          rows(first) * columns(cut) * columns(last);
      if (best >= 0 && cost >= best) continue;
      best = cost;
      cuts_[first * n_ + last] = cut;
    }
    costs_[first * n_ + last] = best;
  }

  Tensor product(std::size_t first, std::size_t last) const {
    if (first == last) return matrices_[first];
    const std::size_t cut = cuts_[first * n_ + last];
    return mm(product(first, cut), product(cut + 1, last));
  }

  std::vector<Tensor> matrices_;
  std::size_t n_;
  std::vector<double> costs_;
  std::vector<std::size_t> cuts_;  // the last matrix of the left factor
};

void require_list(std::string_view op, Inputs in, std::size_t least) {
  if (in.size() < least)
    fail<ValueError>(op, {.what = "too few tensors",
                          .got = str(in.size()),
                          .expected = least == 1 ? "one or more" : "two or more"});
  for (const Tensor& x : in)
    if (!x.defined())
      fail<ValueError>(
          op, {.what = str("operand ", &x - in.data(), " is undefined"), .expected = "a tensor"});
}

/** Throws ShapeError unless all are matrices (with `vectors`, also vectors at the ends) with equal
 *  inner sizes; DtypeError for different dtypes. */
void require_chain(std::string_view op, Inputs in, bool vectors) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool end = vectors && (i == 0 || i + 1 == in.size());
    if (in[i].dim() != 2 && !(end && in[i].dim() == 1))
      fail<ShapeError>(op, {.what = str("operand ", i, " must be a matrix"),
                            .got = str(in),
                            .expected = end ? "1 or 2 dimensions" : "2 dimensions"});
  }
  for (std::size_t i = 0; i + 1 < in.size(); ++i)
    if (in[i].shape().back() != in[i + 1].shape()[0])
      fail<ShapeError>(op, {.what = str("inner sizes of operands ", i, " and ", i + 1, " differ"),
                            .got = str(in),
                            .expected = "equal inner sizes"});
  require_one_number_dtype(op, in);
}

}  // namespace

std::vector<Tensor> ChainMatmul::composite(Inputs in, const NoAttrs&) {
  require_list("chain_matmul", in, 1);
  require_chain("chain_matmul", in, false);
  return {Chain({in.begin(), in.end()}).product()};
}

std::vector<Tensor> MultiDot::composite(Inputs in, const NoAttrs&) {
  require_list("multi_dot", in, 2);
  require_chain("multi_dot", in, true);
  std::vector<Tensor> matrices(in.begin(), in.end());
  const bool row = in.front().dim() == 1, column = in.back().dim() == 1;
  if (row) matrices.front() = matrices.front().unsqueeze(0);
  if (column) matrices.back() = matrices.back().unsqueeze(1);
  Tensor y = Chain(std::move(matrices)).product();
  if (column) y = y.squeeze(1);
  if (row) y = y.squeeze(0);
  return {y};
}

// ---- tensordot ----------------------------------------------------------------------------------

namespace {

std::int64_t numel_of(const Shape& sizes) {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  return n;
}

/** The dimensions of one factor: summed ones, in the order of the pairs, and the others. */
struct Sides {
  Shape summed, free, free_sizes;

  Sides(const Tensor& x, const std::vector<std::int64_t>& dims) {
    if (!dims.empty()) dim_mask(dims, x.dim(), "tensordot");  // throws for duplicates
    std::uint32_t taken = 0;
    for (const std::int64_t dim : dims) {
      summed.push_back(wrap_dim(dim, x.dim(), "tensordot"));
      taken |= 1u << summed.back();
    }
    for (int i = 0; i < x.dim(); ++i) {
      if ((taken >> i & 1) != 0) continue;
      free.push_back(i);
      free_sizes.push_back(x.shape()[i]);
    }
  }
};

Shape joined(Shape a, const Shape& b) {
  for (const std::int64_t value : b) a.push_back(value);
  return a;
}

/** Returns the paired dimensions of both factors. */
std::array<std::vector<std::int64_t>, 2> paired_dims(Inputs in, const Tensordot::Attrs& attrs) {
  if (!attrs.count) {
    if (attrs.a.size() != attrs.b.size())
      fail<ValueError>("tensordot", {.what = "the lists of dimensions differ in length",
                                     .got = str(attrs.a.size(), " and ", attrs.b.size()),
                                     .expected = "pairs"});
    return {attrs.a, attrs.b};
  }
  const std::int64_t n = *attrs.count, most = std::min(in[0].dim(), in[1].dim());
  if (n < 0 || n > most)
    fail<ValueError>("tensordot", {.what = "number of dimensions out of range",
                                   .got = str(n, " for ", in),
                                   .expected = str("0..", most)});
  std::array<std::vector<std::int64_t>, 2> dims;
  for (std::int64_t i = 0; i < n; ++i) {
    dims[0].push_back(in[0].dim() - n + i);
    dims[1].push_back(i);
  }
  return dims;
}

}  // namespace

std::vector<Tensor> Tensordot::composite(Inputs in, const Attrs& attrs) {
  if (!in[1].defined())
    fail<ValueError>("tensordot", {.what = "operand 1 is undefined", .expected = "a tensor"});
  const DType dtype = promoted_dtype(in);
  if (!is_floating(dtype)) require_one_number_dtype("tensordot", in);
  const auto dims = paired_dims(in, attrs);
  const Sides a(in[0], dims[0]), b(in[1], dims[1]);
  std::int64_t inner = 1;
  for (std::size_t i = 0; i < a.summed.size(); ++i) {
    const auto k = static_cast<std::int64_t>(i);
    const std::int64_t left = in[0].shape()[a.summed[k]], right = in[1].shape()[b.summed[k]];
    if (left != right)
      fail<ShapeError>("tensordot", {.what = "sizes of paired dimensions differ",
                                     .got = str(in),
                                     .expected = str("equal sizes of dimension ", a.summed[k],
                                                     " and dimension ", b.summed[k])});
    inner *= left;
  }
  checked_numel(joined(a.free_sizes, b.free_sizes), "tensordot");
  const Tensor x =
      in[0].to(dtype).permute(joined(a.free, a.summed)).reshape({numel_of(a.free_sizes), inner});
  const Tensor y =
      in[1].to(dtype).permute(joined(b.summed, b.free)).reshape({inner, numel_of(b.free_sizes)});
  return {mm(x, y).reshape(joined(a.free_sizes, b.free_sizes))};
}

// ---- bilinear -----------------------------------------------------------------------------------

namespace {

void require_bilinear(Inputs in) {
  const Tensor &x1 = in[0], &x2 = in[1], &w = in[2], &b = in[3];
  for (const Tensor& x : {x2, w})
    if (!x.defined())
      fail<ValueError>("bilinear",
                       {.what = "an operand is undefined", .expected = "two inputs and a weight"});
  bool fits = x1.dim() >= 1 && x1.dim() == x2.dim() && w.dim() == 3;
  for (int i = 0; fits && i < x1.dim() - 1; ++i) fits = x1.shape()[i] == x2.shape()[i];
  fits = fits && w.shape()[1] == x1.shape().back() && w.shape()[2] == x2.shape().back();
  if (!fits)
    fail<ShapeError>("bilinear", {.what = "inputs and weight do not fit",
                                  .got = str(x1, ", ", x2, " and weight ", w),
                                  .expected = "[..., n], [..., m] and [out, n, m]"});
  if (b.defined() && !(b.shape() == Shape{w.shape()[0]}))
    fail<ShapeError>("bilinear", {.what = "the bias does not fit the weight",
                                  .got = str("bias ", b, " and weight ", w),
                                  .expected = str("[", w.shape()[0], "]")});
}

}  // namespace

/** Computes a linear layer: the products of all pairs of elements of both inputs are its input, and
 *  each flattened matrix of the weight is a row of its weight. */
std::vector<Tensor> Bilinear::composite(Inputs in, const NoAttrs&) {
  require_bilinear(in);
  const DType dtype = promoted_dtype(in);
  if (!is_floating(dtype)) require_one_number_dtype("bilinear", in);
  const DType compute = compute_dtype(dtype);
  const Tensor x1 = in[0].to(compute), x2 = in[1].to(compute), w = in[2].to(compute);
  const Tensor bias = in[3].defined() ? in[3].to(compute) : Tensor{};
  Shape rows = x1.shape();
  rows[rows.rank() - 1] = w.size(1) * w.size(2);
  const Tensor pairs = (x1.unsqueeze(-1) * x2.unsqueeze(-2)).reshape(rows);
  return {linear(pairs, w.reshape({w.size(0), w.size(1) * w.size(2)}), bias).to(dtype)};
}

std::span<OpInfo* const> contraction_ops() { return infos_of(ContractionOps{}); }

}  // namespace mezzo::op

namespace mezzo {

Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias) {
  return apply<op::Bilinear>(x1, x2, weight, bias);
}

Tensor chain_matmul(const std::vector<Tensor>& matrices) {
  return apply_list<op::ChainMatmul>({}, matrices);
}

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands) {
  return apply_list<op::Einsum>({equation}, operands);
}

Tensor multi_dot(const std::vector<Tensor>& tensors) {
  return apply_list<op::MultiDot>({}, tensors);
}

Tensor tensordot(const Tensor& a, const Tensor& b, const TensordotDims& dims) {
  return apply_with<op::Tensordot>({dims.count, dims.a, dims.b}, a, b);
}

}  // namespace mezzo
