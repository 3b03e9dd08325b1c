// The only file of the library that includes the JSON parser.
#include "json_text.h"

#include <mezzo_features.h>

#include <iterator>

#include "../text/text.h"
#include "utf8.h"

#if MZ_HAS_JSON
#  include <nlohmann/json.hpp>
#endif

namespace mezzo::io {

#if MZ_HAS_JSON

namespace {

/** An iterator that records how far the parser has read, so that errors can give an offset. */
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at = nullptr;
  const char** furthest = nullptr;

  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    ++at;
    if (furthest) *furthest = at;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at == b.at;
  }
};

/** Passes the parser's callbacks on to a listener. */
class Events {
 public:
  explicit Events(JsonListener& listener) : listener_(listener) {}

  bool start_object(std::size_t) { return listener_.start_object(); }
  bool key(std::string& text) { return listener_.key(text); }
  bool end_object() { return listener_.end_object(); }
  bool start_array(std::size_t) { return listener_.start_array(); }
  bool end_array() { return listener_.end_array(); }
  bool string(std::string& text) { return listener_.string(text); }
  bool number_unsigned(std::uint64_t value) { return listener_.number_unsigned(value); }
  bool number_integer(std::int64_t value) { return listener_.number_negative(value); }
  bool number_float(double value, const std::string& text) {
    return listener_.number_float(value, text);
  }
  bool boolean(bool value) { return listener_.boolean(value); }
  bool null() { return listener_.null(); }
  template <class Bytes> bool binary(Bytes&) { return false; }
  template <class Exception> bool parse_error(std::size_t, const std::string&, const Exception&) {
    return false;
  }

 private:
  JsonListener& listener_;
};

[[noreturn]] void fail_at(const ByteReader& file, Complaint complaint, std::uint64_t offset) {
  (complaint.got.empty() ? complaint.what : complaint.got) += str(" at byte ", offset);
  fail<FormatError>(file.subject(), complaint);
}

/** Rejects what a JSON parser may silently accept, and no format here allows. */
void require_plain_text(const ByteReader& file, std::string_view text, std::uint64_t start,
                        std::string_view what) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF")
    fail_at(file, {.what = str(what, " begins with a byte order mark"), .expected = "JSON"}, start);
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos)
    fail_at(file, {.what = str(what, " is not strict JSON"), .got = "a zero byte"}, start + at);
  if (const std::size_t at = find_non_utf8(text); at != std::string_view::npos)
    fail_at(file, {.what = str(what, " is not UTF-8"), .got = "a bad byte"}, start + at);
}

}  // namespace

void parse_json(const ByteReader& file, std::string_view text, std::uint64_t start,
                std::string_view what, JsonListener& listener) {
  require_plain_text(file, text, start, what);
  Events events(listener);
  const char* furthest = text.data();
  const CountingIterator begin{text.data(), &furthest}, end{text.data() + text.size(), nullptr};
  if (nlohmann::json::sax_parse(begin, end, &events)) return;
  Complaint complaint = listener.complaint();
  if (complaint.what.empty())
    complaint = {.what = str(what, " is not strict JSON"),
                 .got = "a syntax error",
                 .expected = "JSON by RFC 8259"};
  fail_at(file, std::move(complaint), start + static_cast<std::uint64_t>(furthest - text.data()));
}

void require_json(std::string_view, std::string_view) {}

#else

void parse_json(const ByteReader& file, std::string_view, std::uint64_t, std::string_view what,
                JsonListener&) {
  require_json(file.subject(), what);
}

void require_json(std::string_view subject, std::string_view kind) {
  fail<Unsupported>(subject, {.what = str("this build cannot read ", kind),
                              .hint = "configure with -Djson=enabled"});
}

#endif

}  // namespace mezzo::io
