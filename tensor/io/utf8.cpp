#include "utf8.h"

namespace mezzo::io {

namespace {

/** Returns the length in bytes of the UTF-8 character at the start of the text; 0 if there is
 *  none. */
std::size_t character_length(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  // Two bytes encode values from 0x80 on, three from 0x800, four from 0x10000: smaller values are
  // overlong forms.
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const unsigned second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool too_large = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

std::size_t find_non_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (byte < 0x20) {
          out += "\\u00";
          out += kDigits[byte >> 4];
          out += kDigits[byte & 15];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string valid(text), result;
  for (std::size_t at; (at = find_non_utf8(valid)) != std::string::npos;) valid[at] = '?';
  append_json_string(result, valid);
  return result;
}

std::string quote(std::string_view text) {
  constexpr std::size_t kMost = 120;
  std::size_t cut = text.size();
  if (cut > kMost)
    for (cut = kMost; cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80;) --cut;
  std::string out;
  append_json_string(out, text.substr(0, cut));
  if (cut < text.size()) out += "...";
  return out;
}

}  // namespace mezzo::io
