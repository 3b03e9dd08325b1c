#include "checked_size.h"

#include <algorithm>
#include <limits>

#include "../text/text.h"
#include "error.h"

namespace mezzo {

std::int64_t saturated_size(WideSize size) {
  using Limits = std::numeric_limits<std::int64_t>;
  return static_cast<std::int64_t>(std::clamp<WideSize>(size, Limits::min(), Limits::max()));
}

std::int64_t checked_size(WideSize size, std::string_view op) {
  if (size < 0 || size > kMaxElements)
    fail<SizeError>(op, {.what = "a size is out of range",
                         .got = str(saturated_size(size)),
                         .expected = "at most 2^59"});
  return static_cast<std::int64_t>(size);
}

std::int64_t checked_product(std::initializer_list<std::int64_t> sizes, std::string_view op) {
  WideSize product = 1;
  for (const std::int64_t size : sizes) product = checked_size(product * size, op);
  return static_cast<std::int64_t>(product);
}

}  // namespace mezzo
