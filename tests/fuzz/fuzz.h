// Helpers of the fuzz targets: the input as bytes, as text, and as a file in memory.
// See also: ../fuzz.sh (builds and runs the targets).
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fuzz {

inline std::span<const std::byte> bytes(std::string_view t) { return std::as_bytes(std::span(t)); }

inline std::string_view text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/** Returns the path of a file that holds the text. Every call reuses the same file. */
inline const std::string& path_of(std::string_view text) {
  static const int file = ::memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (::ftruncate(file, 0) != 0) __builtin_trap();
  const ssize_t written = ::pwrite(file, text.data(), text.size(), 0);
  if (written != static_cast<ssize_t>(text.size())) __builtin_trap();
  return path;
}

/** Aborts if the condition does not hold. */
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace fuzz
