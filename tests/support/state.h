// State: named byte strings that a test compares bit for bit.
#pragma once

#include <mezzo.h>

#include <map>
#include <string>

namespace states {

using State = std::map<std::string, std::string>;

/** Returns shape, dtype and the elements in row-major order, for any device and layout. */
inline std::string bytes_of(const mezzo::Tensor& x) {
  const mezzo::Tensor dense = x.detach().to(mezzo::cpu).contiguous();
  return mezzo::str(dense) +
         std::string(static_cast<const char*>(dense.raw_data()),
                     static_cast<std::size_t>(dense.numel()) * mezzo::item_size(dense.dtype()));
}

inline std::string bytes_of(double x) {
  return std::string(reinterpret_cast<const char*>(&x), sizeof x);
}

/** Returns the names of the entries that differ; empty where all bits are equal. */
inline std::string difference(const State& a, const State& b) {
  std::string out;
  for (const auto& [name, value] : a)
    if (const auto found = b.find(name); found == b.end() || found->second != value)
      out += name + ", ";
  for (const auto& [name, value] : b)
    if (a.count(name) == 0) out += name + " is new, ";
  return out;
}

}  // namespace states
