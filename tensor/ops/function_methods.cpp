// Methods of Tensor that call the function of their name.
#include "../core/tensor_methods.h"

#include "ops.h"

namespace mezzo {

const Tensor& TensorMethods::as_tensor() const { return static_cast<const Tensor&>(*this); }

Tensor TensorMethods::all(const Dims& dims, const KeepDimOptions& options) const {
  return mezzo::all(as_tensor(), dims, options);
}
Tensor TensorMethods::any(const Dims& dims, const KeepDimOptions& options) const {
  return mezzo::any(as_tensor(), dims, options);
}
Tensor TensorMethods::amax(const Dims& dims, const KeepDimOptions& options) const {
  return mezzo::amax(as_tensor(), dims, options);
}
Tensor TensorMethods::amin(const Dims& dims, const KeepDimOptions& options) const {
  return mezzo::amin(as_tensor(), dims, options);
}
Tensor TensorMethods::logsumexp(const Dims& dims, const KeepDimOptions& options) const {
  return mezzo::logsumexp(as_tensor(), dims, options);
}
Tensor TensorMethods::mean(const Dims& dims, const ReduceOptions& options) const {
  return mezzo::mean(as_tensor(), dims, options);
}
Tensor TensorMethods::norm(const Dims& dims, const NormOptions& options) const {
  return mezzo::norm(as_tensor(), dims, options);
}
Tensor TensorMethods::std(const Dims& dims, const VarianceOptions& options) const {
  return mezzo::std(as_tensor(), dims, options);
}
Tensor TensorMethods::sum(const Dims& dims, const ReduceOptions& options) const {
  return mezzo::sum(as_tensor(), dims, options);
}
Tensor TensorMethods::var(const Dims& dims, const VarianceOptions& options) const {
  return mezzo::var(as_tensor(), dims, options);
}
Tensor TensorMethods::argmax(std::optional<std::int64_t> dim, const KeepDimOptions& options) const {
  return mezzo::argmax(as_tensor(), {.dim = dim, .keepdim = options.keepdim});
}
Tensor TensorMethods::argmin(std::optional<std::int64_t> dim, const KeepDimOptions& options) const {
  return mezzo::argmin(as_tensor(), {.dim = dim, .keepdim = options.keepdim});
}
Tensor TensorMethods::cumsum(std::int64_t dim, const ScanOptions& options) const {
  return mezzo::cumsum(as_tensor(), dim, options);
}
Tensor TensorMethods::max() const { return mezzo::max(as_tensor()); }
ValuesAndIndices TensorMethods::max(std::int64_t dim, const KeepDimOptions& options) const {
  return mezzo::max(as_tensor(), dim, options);
}
Tensor TensorMethods::min() const { return mezzo::min(as_tensor()); }
ValuesAndIndices TensorMethods::min(std::int64_t dim, const KeepDimOptions& options) const {
  return mezzo::min(as_tensor(), dim, options);
}
Tensor TensorMethods::prod(const ReduceOptions& options) const {
  return mezzo::prod(as_tensor(), options);
}
Tensor TensorMethods::prod(std::int64_t dim, const ReduceOptions& options) const {
  return mezzo::prod(as_tensor(), dim, options);
}

Tensor TensorMethods::abs() const { return mezzo::abs(as_tensor()); }
Tensor TensorMethods::ceil() const { return mezzo::ceil(as_tensor()); }
Tensor TensorMethods::cos() const { return mezzo::cos(as_tensor()); }
Tensor TensorMethods::exp() const { return mezzo::exp(as_tensor()); }
Tensor TensorMethods::floor() const { return mezzo::floor(as_tensor()); }
Tensor TensorMethods::isfinite() const { return mezzo::isfinite(as_tensor()); }
Tensor TensorMethods::isinf() const { return mezzo::isinf(as_tensor()); }
Tensor TensorMethods::isnan() const { return mezzo::isnan(as_tensor()); }
Tensor TensorMethods::log() const { return mezzo::log(as_tensor()); }
Tensor TensorMethods::relu() const { return mezzo::relu(as_tensor()); }
Tensor TensorMethods::round() const { return mezzo::round(as_tensor()); }
Tensor TensorMethods::rsqrt() const { return mezzo::rsqrt(as_tensor()); }
Tensor TensorMethods::sigmoid() const { return mezzo::sigmoid(as_tensor()); }
Tensor TensorMethods::sin() const { return mezzo::sin(as_tensor()); }
Tensor TensorMethods::sqrt() const { return mezzo::sqrt(as_tensor()); }
Tensor TensorMethods::square() const { return mezzo::square(as_tensor()); }
Tensor TensorMethods::tanh() const { return mezzo::tanh(as_tensor()); }
Tensor TensorMethods::clamp(std::optional<double> min, std::optional<double> max) const {
  return mezzo::clamp(as_tensor(), {.min = min, .max = max});
}
Tensor TensorMethods::masked_fill(const Tensor& mask, double value) const {
  return mezzo::masked_fill(as_tensor(), mask, value);
}
Tensor TensorMethods::pow(const Tensor& exponent) const {
  return mezzo::pow(as_tensor(), exponent);
}

Tensor TensorMethods::flip(const Dims& dims) const { return mezzo::flip(as_tensor(), dims); }
Tensor TensorMethods::gather(std::int64_t dim, const Tensor& index) const {
  return mezzo::gather(as_tensor(), dim, index);
}
Tensor TensorMethods::index_select(std::int64_t dim, const Tensor& index) const {
  return mezzo::index_select(as_tensor(), dim, index);
}
Tensor TensorMethods::log_softmax(std::int64_t dim) const {
  return mezzo::log_softmax(as_tensor(), dim);
}
Tensor TensorMethods::masked_select(const Tensor& mask) const {
  return mezzo::masked_select(as_tensor(), mask);
}
Tensor TensorMethods::nonzero() const { return mezzo::nonzero(as_tensor()); }
Tensor TensorMethods::repeat(const Shape& repeats) const {
  return mezzo::repeat(as_tensor(), repeats);
}
Tensor TensorMethods::softmax(std::int64_t dim) const { return mezzo::softmax(as_tensor(), dim); }
ValuesAndIndices TensorMethods::topk(std::int64_t k, std::int64_t dim) const {
  return mezzo::topk(as_tensor(), k, {.dim = dim});
}
Tensor TensorMethods::tril(std::int64_t diagonal) const {
  return mezzo::tril(as_tensor(), diagonal);
}
Tensor TensorMethods::triu(std::int64_t diagonal) const {
  return mezzo::triu(as_tensor(), diagonal);
}

Tensor TensorMethods::bmm(const Tensor& other) const { return mezzo::bmm(as_tensor(), other); }
Tensor TensorMethods::dot(const Tensor& other) const { return mezzo::dot(as_tensor(), other); }
Tensor TensorMethods::matmul(const Tensor& other) const {
  return mezzo::matmul(as_tensor(), other);
}
Tensor TensorMethods::mm(const Tensor& other) const { return mezzo::mm(as_tensor(), other); }

const Tensor& TensorMethods::add_(const Tensor& other) const {
  return mezzo::add_(as_tensor(), other);
}
const Tensor& TensorMethods::div_(const Tensor& other) const {
  return mezzo::div_(as_tensor(), other);
}
const Tensor& TensorMethods::mul_(const Tensor& other) const {
  return mezzo::mul_(as_tensor(), other);
}
const Tensor& TensorMethods::sub_(const Tensor& other) const {
  return mezzo::sub_(as_tensor(), other);
}
const Tensor& TensorMethods::clamp_(std::optional<double> min, std::optional<double> max) const {
  return mezzo::clamp_(as_tensor(), {.min = min, .max = max});
}
const Tensor& TensorMethods::masked_fill_(const Tensor& mask, double value) const {
  return mezzo::masked_fill_(as_tensor(), mask, value);
}
const Tensor& TensorMethods::normal_(double mean, double std) const {
  return mezzo::normal_(as_tensor(), mean, std);
}
const Tensor& TensorMethods::relu_() const { return mezzo::relu_(as_tensor()); }
const Tensor& TensorMethods::uniform_(double low, double high) const {
  return mezzo::uniform_(as_tensor(), low, high);
}

}  // namespace mezzo
