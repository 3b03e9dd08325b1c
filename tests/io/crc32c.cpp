// CRC-32C against known answers, and incremental against whole.
#include "../../tensor/io/crc32c.h"

#include <string>

#include "../support/catch.h"

using mezzo::io::crc32c;

namespace {
std::uint32_t of(const std::string& text, std::uint32_t before = 0) {
  return crc32c(std::as_bytes(std::span(text)), before);
}
}  // namespace

TEST_CASE("CRC-32C gives the known answers", "[crc32c]") {
  CHECK(of("") == 0);
  CHECK(of("123456789") == 0xE3069283);
  // RFC 3720, B.4
  CHECK(of(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(of(std::string(32, '\xFF')) == 0x62A8AB43);
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up += static_cast<char>(i);
    down += static_cast<char>(31 - i);
  }
  CHECK(of(up) == 0x46DD794E);
  CHECK(of(down) == 0x113FDB5C);
}

TEST_CASE("incremental CRC-32C equals that of the whole", "[crc32c]") {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(i * 37);
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    CHECK(of(text.substr(cut), of(text.substr(0, cut))) == of(text));
}
