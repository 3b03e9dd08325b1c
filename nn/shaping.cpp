#include "shaping.h"

#include "../tensor/text/text.h"

namespace mezzo::nn {

Tensor Identity::forward(const Tensor& x) const { return x; }

Flatten::Flatten(std::int64_t start, std::int64_t end) : start_(start), end_(end) {
  if (start != 1 || end != -1) set_summary(str(start, ", ", end));
}

Tensor Flatten::forward(const Tensor& x) const { return x.flatten(start_, end_); }

Unflatten::Unflatten(std::int64_t dim, const Shape& sizes) : dim_(dim), sizes_(sizes) {
  set_summary(str(dim, ", ", sizes));
}

Tensor Unflatten::forward(const Tensor& x) const { return x.unflatten(dim_, sizes_); }

}  // namespace mezzo::nn
