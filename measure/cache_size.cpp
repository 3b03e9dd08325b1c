#include "cache_size.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>

namespace mezzo {

namespace {

std::string first_word(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

/** Returns the bytes of a size such as "1024K" or "32M"; 0 for other text. */
double bytes_of(const std::string& size) {
  double number = 0;
  std::size_t i = 0;
  for (; i < size.size() && size[i] >= '0' && size[i] <= '9'; ++i)
    number = 10 * number + (size[i] - '0');
  const std::string unit = size.substr(i);
  if (unit == "K") return number * 1024;
  if (unit == "M") return number * 1024 * 1024;
  return unit.empty() ? number : 0;
}

}  // namespace

double cache_bytes_of_cpus(const std::string& cpus) {
  namespace fs = std::filesystem;
  std::set<std::string> counted;  // level and CPUs of each cache
  double total = 0;
  std::error_code absent;
  for (const fs::directory_entry& one : fs::directory_iterator(cpus, absent)) {
    std::error_code no_caches;
    for (const fs::directory_entry& cache :
         fs::directory_iterator(one.path() / "cache", no_caches)) {
      const std::string level = first_word(cache.path() / "level");
      if (level.empty() || level == "1") continue;
      const std::string sharers = first_word(cache.path() / "shared_cpu_list");
      if (counted.insert(level + " " + sharers).second)
        total += bytes_of(first_word(cache.path() / "size"));
    }
  }
  return total;
}

}  // namespace mezzo
