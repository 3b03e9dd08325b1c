// Files for tests of readers and writers: temporary directories, whole files as strings,
// handmade file contents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <unistd.h>

namespace files {

/** A fresh directory, removed with its contents at the end of the scope. */
class Directory {
 public:
  Directory() : Directory(std::filesystem::temp_directory_path().string()) {}
  /** Returns a directory in memory where the system has one: fsync is free there. */
  static Directory fast() {
    const bool here = ::access("/dev/shm", W_OK | X_OK) == 0;
    return Directory(here ? "/dev/shm" : std::filesystem::temp_directory_path().string());
  }
  explicit Directory(const std::string& parent) {
    std::string name = parent + "/mezzo-test-XXXXXX";
    if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make a directory like " + name);
    path_ = name;
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }
  /** Returns the number of entries, hidden ones included. */
  std::size_t count() const {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++n;
    return n;
  }

 private:
  std::string path_;
};

inline void write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string read(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

/** Returns the bytes of a file that is written as an array. */
template <std::size_t N> std::string text_of(const unsigned char (&bytes)[N]) {
  return std::string(reinterpret_cast<const char*>(bytes), N);
}

inline std::string little_u64(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

inline std::string big_u32(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

/** Returns a safetensors file with this header and buffer. */
inline std::string safetensors(std::string_view header, std::string_view buffer = {}) {
  return little_u64(header.size()) + std::string(header) + std::string(buffer);
}

/** Returns the text of the Error that a call throws, or "nothing". */
template <class Error, class F> std::string thrown(F&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another type: ") + e.what();
  }
  return "nothing";
}

}  // namespace files
