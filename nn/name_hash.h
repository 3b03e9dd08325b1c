// NameHash: a hash of names for tables that are searched with any type of text.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace mezzo::nn::detail {

/** Hash for all string types, so that lookups need no std::string. */
struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

}  // namespace mezzo::nn::detail
