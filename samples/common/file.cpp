#include "file.h"

#include <mezzo.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace samples {

std::string read_file(const std::string& what, const std::string& path) {
  namespace fs = std::filesystem;
  const auto refuse = [&](const char* cause) {
    mezzo::fail<mezzo::IoError>(what + "(" + path + ")", {.what = cause});
  };
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) refuse("is a directory, not a file");
  const bool readable = fs::is_regular_file(status) || fs::is_fifo(status);
  if (fs::exists(status) && !readable) refuse("is not a regular file");
  std::ifstream file(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(file), {}};
  if (!file) refuse("cannot be read");
  return content;
}

}  // namespace samples
