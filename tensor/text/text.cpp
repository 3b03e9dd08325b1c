#include "text.h"

#include <charconv>
#include <ctime>

namespace mezzo::detail {

namespace {

template <class T> void append_number(std::string& out, T v) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  out.append(buffer, end);
}

}  // namespace

void append(std::string& out, long long v) { append_number(out, v); }
void append(std::string& out, unsigned long long v) { append_number(out, v); }
void append(std::string& out, float v) { append_number(out, v); }
void append(std::string& out, double v) { append_number(out, v); }
void append(std::string& out, long double v) { append_number(out, v); }

}  // namespace mezzo::detail

namespace mezzo {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace mezzo
