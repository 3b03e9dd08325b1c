#include "window.h"

#include <limits>

#include "../../core/error.h"
#include "../../text/text.h"

namespace mezzo {

namespace {
// Up to this number the arithmetic on windows cannot overflow, in the kernels either.
constexpr std::int64_t kLargestSize = std::numeric_limits<std::int32_t>::max();
}  // namespace

WindowSizes::WindowSizes(std::initializer_list<std::int64_t> values)
    : count_(static_cast<int>(values.size())) {
  if (values.size() == 0 || values.size() > values_.size())
    fail<ValueError>("window", {.what = "wrong number of sizes",
                                .got = str(values.size()),
                                .expected = "one for all dimensions, or one for each"});
  std::size_t i = 0;
  for (const std::int64_t value : values) values_[i++] = value;
}

op::Extent WindowSizes::expanded(int dims, std::string_view op, std::string_view option) const {
  if (count_ != 1 && count_ != dims)
    fail<ValueError>(op, {.what = str("wrong number of values for ", option),
                          .got = str(count_),
                          .expected = dims == 1 ? "1" : str("1 or ", dims)});
  op::Extent out{};
  for (int i = 0; i < dims; ++i) {
    const std::int64_t value = values_[static_cast<std::size_t>(count_ == 1 ? 0 : i)];
    if (value > kLargestSize)
      fail<ValueError>(op, {.what = str(option, " is out of range"),
                            .got = str(value),
                            .expected = str("at most ", kLargestSize)});
    out[static_cast<std::size_t>(i)] = value;
  }
  return out;
}

bool ConvPadding::is_same(std::string_view word) {
  if (word != "same" && word != "valid")
    fail<ValueError>("padding", {.what = "unknown word",
                                 .got = str("\"", word, "\""),
                                 .expected = "\"same\" or \"valid\""});
  return word == "same";
}

}  // namespace mezzo
