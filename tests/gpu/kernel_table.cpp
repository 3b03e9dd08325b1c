#include "kernel_table.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::size_t kLongestName = 200;

std::string demangled(const std::string& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string result = status == 0 && text ? text : name;
  std::free(text);
  return result.substr(0, kLongestName);
}

}  // namespace

void KernelTable::add(const std::string& name, const std::string& size, double nanoseconds,
                      int registers, std::int64_t shared_bytes) {
  Row& row = rows_[{name, size}];
  row.least = row.runs == 0 ? nanoseconds : std::min(row.least, nanoseconds);
  row.sum += nanoseconds;
  ++row.runs;
  row.registers = registers;
  row.shared = shared_bytes;
}

std::string KernelTable::text(const std::string& title, int steps) const {
  std::vector<std::pair<std::pair<std::string, std::string>, Row>> rows(rows_.begin(), rows_.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.sum > b.second.sum; });
  double sum = 0;
  std::int64_t runs = 0;
  for (const auto& [name, row] : rows) {
    sum += row.sum;
    runs += row.runs;
  }
  char line[160];
  std::snprintf(line, sizeof line, "%.1f us of kernels per step, %.1f launches per step\n",
                sum / 1e3 / steps, static_cast<double>(runs) / steps);
  std::string text = "==== " + title + ": " + line;
  std::snprintf(line, sizeof line, "%9s %6s %8s %9s %9s %4s %6s  name\n", "us/step", "%", "calls",
                "avg us", "min us", "regs", "smem");
  text += line;
  for (const auto& [name, row] : rows) {
    const auto count = static_cast<double>(row.runs);
    std::snprintf(line, sizeof line, "%9.1f %6.2f %8.1f %9.2f %9.2f %4d %6lld  ",
                  row.sum / 1e3 / steps, 100 * row.sum / sum, count / steps, row.sum / 1e3 / count,
                  row.least / 1e3, row.registers, static_cast<long long>(row.shared));
    text += line + demangled(name.first) + name.second + "\n";
  }
  return text;
}
