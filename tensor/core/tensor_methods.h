// TensorMethods: the functions of ops.h that are used most, as methods of Tensor: x.sum().
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "macros.h"
#include "reduce_options.h"

namespace mezzo {

class Tensor;
struct ValuesAndIndices;

/** Any arithmetic C++ type. */
template <class S>
concept Number = std::is_arithmetic_v<S>;

/** The base of Tensor. Each method calls the function of its name with the tensor as its first
 *  argument: shapes, precision, gradients and errors are described there. */
class MZ_API TensorMethods {
 public:
  // ---- reductions -------------------------------------------------------------------------------
  /** As mezzo::all. */
  Tensor all(const Dims& dims = {}, const KeepDimOptions& options = {}) const;
  /** As mezzo::any. */
  Tensor any(const Dims& dims = {}, const KeepDimOptions& options = {}) const;
  /** As mezzo::amax. */
  Tensor amax(const Dims& dims = {}, const KeepDimOptions& options = {}) const;
  /** As mezzo::amin. */
  Tensor amin(const Dims& dims = {}, const KeepDimOptions& options = {}) const;
  /** As mezzo::argmax with these options. */
  Tensor argmax(std::optional<std::int64_t> dim = {}, const KeepDimOptions& options = {}) const;
  /** As mezzo::argmin with these options. */
  Tensor argmin(std::optional<std::int64_t> dim = {}, const KeepDimOptions& options = {}) const;
  /** As mezzo::cumsum. */
  Tensor cumsum(std::int64_t dim, const ScanOptions& options = {}) const;
  /** As mezzo::logsumexp. */
  Tensor logsumexp(const Dims& dims, const KeepDimOptions& options = {}) const;
  /** As mezzo::max. */
  Tensor max() const;
  /** As mezzo::max. */
  ValuesAndIndices max(std::int64_t dim, const KeepDimOptions& options = {}) const;
  /** As mezzo::mean. */
  Tensor mean(const Dims& dims = {}, const ReduceOptions& options = {}) const;
  /** As mezzo::min. */
  Tensor min() const;
  /** As mezzo::min. */
  ValuesAndIndices min(std::int64_t dim, const KeepDimOptions& options = {}) const;
  /** As mezzo::norm. */
  Tensor norm(const Dims& dims = {}, const NormOptions& options = {}) const;
  /** As mezzo::prod. */
  Tensor prod(const ReduceOptions& options = {}) const;
  /** As mezzo::prod. */
  Tensor prod(std::int64_t dim, const ReduceOptions& options = {}) const;
  /** As mezzo::std. */
  Tensor std(const Dims& dims = {}, const VarianceOptions& options = {}) const;
  /** As mezzo::sum. */
  Tensor sum(const Dims& dims = {}, const ReduceOptions& options = {}) const;
  /** As mezzo::var. */
  Tensor var(const Dims& dims = {}, const VarianceOptions& options = {}) const;

  // ---- functions of each element ----------------------------------------------------------------
  /** As mezzo::abs. */
  Tensor abs() const;
  /** As mezzo::ceil. */
  Tensor ceil() const;
  /** As mezzo::cos. */
  Tensor cos() const;
  /** As mezzo::exp. */
  Tensor exp() const;
  /** As mezzo::floor. */
  Tensor floor() const;
  /** As mezzo::isfinite. */
  Tensor isfinite() const;
  /** As mezzo::isinf. */
  Tensor isinf() const;
  /** As mezzo::isnan. */
  Tensor isnan() const;
  /** As mezzo::log. */
  Tensor log() const;
  /** As mezzo::relu. */
  Tensor relu() const;
  /** As mezzo::round. */
  Tensor round() const;
  /** As mezzo::rsqrt. */
  Tensor rsqrt() const;
  /** As mezzo::sigmoid. */
  Tensor sigmoid() const;
  /** As mezzo::sin. */
  Tensor sin() const;
  /** As mezzo::sqrt. */
  Tensor sqrt() const;
  /** As mezzo::square. */
  Tensor square() const;
  /** As mezzo::tanh. */
  Tensor tanh() const;
  /** As mezzo::clamp: without a number there is no limit. */
  Tensor clamp(std::optional<double> min, std::optional<double> max = {}) const;
  /** As mezzo::masked_fill. */
  Tensor masked_fill(const Tensor& mask, double value) const;
  /** As mezzo::pow. */
  Tensor pow(const Tensor& exponent) const;
  /** As mezzo::pow with a number. */
  template <Number S> Tensor pow(S exponent) const;

  // ---- along a dimension ------------------------------------------------------------------------
  /** As mezzo::flip. */
  Tensor flip(const Dims& dims) const;
  /** As mezzo::gather. */
  Tensor gather(std::int64_t dim, const Tensor& index) const;
  /** As mezzo::index_select. */
  Tensor index_select(std::int64_t dim, const Tensor& index) const;
  /** As mezzo::log_softmax. */
  Tensor log_softmax(std::int64_t dim) const;
  /** As mezzo::masked_select. */
  Tensor masked_select(const Tensor& mask) const;
  /** As mezzo::nonzero. */
  Tensor nonzero() const;
  /** As mezzo::repeat. */
  Tensor repeat(const Shape& repeats) const;
  /** As mezzo::softmax. */
  Tensor softmax(std::int64_t dim) const;
  /** As mezzo::topk along `dim`. */
  ValuesAndIndices topk(std::int64_t k, std::int64_t dim = -1) const;
  /** As mezzo::tril. */
  Tensor tril(std::int64_t diagonal = 0) const;
  /** As mezzo::triu. */
  Tensor triu(std::int64_t diagonal = 0) const;

  // ---- products ---------------------------------------------------------------------------------
  /** As mezzo::bmm. */
  Tensor bmm(const Tensor& other) const;
  /** As mezzo::dot. */
  Tensor dot(const Tensor& other) const;
  /** As mezzo::matmul. */
  Tensor matmul(const Tensor& other) const;
  /** As mezzo::mm. */
  Tensor mm(const Tensor& other) const;

  // ---- in-place writes: each increments the version counter and returns this tensor -------------
  /** As mezzo::add_. */
  const Tensor& add_(const Tensor& other) const;
  /** As mezzo::add_ with a number. */
  template <Number S> const Tensor& add_(S other) const;
  /** As mezzo::div_. */
  const Tensor& div_(const Tensor& other) const;
  /** As mezzo::div_ with a number. */
  template <Number S> const Tensor& div_(S other) const;
  /** As mezzo::mul_. */
  const Tensor& mul_(const Tensor& other) const;
  /** As mezzo::mul_ with a number. */
  template <Number S> const Tensor& mul_(S other) const;
  /** As mezzo::sub_. */
  const Tensor& sub_(const Tensor& other) const;
  /** As mezzo::sub_ with a number. */
  template <Number S> const Tensor& sub_(S other) const;
  /** As mezzo::clamp_: without a number there is no limit. */
  const Tensor& clamp_(std::optional<double> min, std::optional<double> max = {}) const;
  /** As mezzo::masked_fill_. */
  const Tensor& masked_fill_(const Tensor& mask, double value) const;
  /** As mezzo::normal_. */
  const Tensor& normal_(double mean = 0, double std = 1) const;
  /** As mezzo::relu_. */
  const Tensor& relu_() const;
  /** As mezzo::uniform_. */
  const Tensor& uniform_(double low = 0, double high = 1) const;

 private:
  const Tensor& as_tensor() const;
};

}  // namespace mezzo
