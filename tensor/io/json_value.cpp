#include "json_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include "../text/text.h"
#include "crc32c.h"
#include "json_text.h"
#include "utf8.h"

namespace mezzo::io {

namespace {

constexpr std::int64_t kMostWhole = std::int64_t{1} << 53;  // exact as a double up to here
constexpr double kMostExact = kMostWhole;

// ---- writing ------------------------------------------------------------------------------------

void append_number(std::string& out, double number) {
  if (!std::isfinite(number)) {
    append_json_string(out, std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
  } else if (number == std::floor(number) && std::fabs(number) > kMostExact) {
    char buffer[32];
    out.append(
        buffer,
        std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr);
  } else {
    out += number == 0 && std::signbit(number) ? "-0.0" : str(number);
  }
}

void append_value(std::string& out, const JsonValue& value, const std::string& indent) {
  if (const auto* truth = std::get_if<bool>(&value.value)) {
    out += *truth ? "true" : "false";
  } else if (const auto* number = std::get_if<double>(&value.value)) {
    append_number(out, *number);
  } else if (const auto* text = std::get_if<std::string>(&value.value)) {
    append_json_string(out, *text);
  } else {
    const auto& members = std::get<JsonValue::Object>(value.value);
    const std::string inner = indent + "  ";
    out += '{';
    for (const auto& [name, member] : members) {
      out += &name == &members.front().first ? "\n" : ",\n";
      out += inner;
      append_json_string(out, name);
      out += ": ";
      append_value(out, member, inner);
    }
    if (!members.empty()) out += "\n" + indent;
    out += '}';
  }
}

// ---- reading ------------------------------------------------------------------------------------

/** Builds the value from events. The open objects are on a stack of limited depth. */
class ValueListener final : public JsonListener {
 public:
  explicit ValueListener(int depth) : depth_(depth) {}

  JsonValue result() { return std::move(result_); }

  bool start_object() override {
    if (open_objects_.size() == static_cast<std::size_t>(depth_))
      return refuse("the state is nested too deeply", "",
                    str("at most ", depth_, " nested objects"));
    open_objects_.emplace_back();
    return true;
  }
  bool key(const std::string& text) override {
    open_objects_.back().emplace_back(text, JsonValue());
    return true;
  }
  bool end_object() override {
    JsonValue::Object members = std::move(open_objects_.back());
    open_objects_.pop_back();
    if (const std::string* twice = name_that_occurs_twice(members))
      return refuse("a key occurs twice", quote(*twice), "each key once");
    return add(std::move(members));
  }
  bool start_array() override { return unexpected("an array"); }
  bool end_array() override { return unexpected("an array"); }
  bool string(const std::string& text) override { return add(text); }
  bool number_unsigned(std::uint64_t value) override {
    if (value > kMostWhole)
      return unexpected(str("the integer ", value, ", beyond 2^53 and not as text"));
    return add(static_cast<double>(value));
  }
  bool number_negative(std::int64_t value) override {
    if (value < -kMostWhole)
      return unexpected(str("the integer ", value, ", beyond 2^53 and not as text"));
    return add(static_cast<double>(value));
  }
  bool number_float(double value, const std::string& text) override {
    if (std::isfinite(value) && text.find_first_of(".eE") != std::string::npos) return add(value);
    return unexpected("the number " + text.substr(0, 40));
  }
  bool boolean(bool value) override { return add(value); }
  bool null() override { return unexpected("null"); }

 private:
  static const std::string* name_that_occurs_twice(const JsonValue::Object& members) {
    std::vector<const std::string*> names;
    names.reserve(members.size());
    for (const auto& [name, value] : members) names.push_back(&name);
    std::sort(names.begin(), names.end(), [](const auto* a, const auto* b) { return *a < *b; });
    const auto twice = std::adjacent_find(names.begin(), names.end(),
                                          [](const auto* a, const auto* b) { return *a == *b; });
    return twice == names.end() ? nullptr : *twice;
  }

  bool unexpected(std::string got) {
    return refuse("the state holds an invalid value", std::move(got),
                  "objects, text, numbers, true, false");
  }

  bool add(JsonValue value) {
    if (!open_objects_.empty())
      open_objects_.back().back().second = std::move(value);
    else if (std::holds_alternative<JsonValue::Object>(value.value))
      result_ = std::move(value);
    else
      return refuse("the state is no JSON object", "", "an object");
    return true;
  }

  int depth_;
  std::vector<JsonValue::Object> open_objects_;
  JsonValue result_;
};

}  // namespace

JsonValue::JsonValue(Object members) : value(std::move(members)) {}

JsonValue JsonValue::whole(std::uint64_t number) {
  if (number <= kMostWhole) return static_cast<double>(number);
  return str(number);
}

std::string json_text(const JsonValue& value) {
  std::string out;
  append_value(out, value, "");
  return out;
}

JsonValue read_json(const ByteReader& file, std::string_view text, int depth) {
  ValueListener listener(depth);
  parse_json(file, text, 0, "the state", listener);
  return listener.result();
}

// ---- access to a value --------------------------------------------------------------------------

void JsonField::refuse(std::string what, std::string got, std::string expected) const {
  fail<FormatError>(file_.subject(),
                    {.what = (path_.empty() ? "the state" : quote(path_)) + " " + what,
                     .got = got,
                     .expected = expected});
}

const JsonValue::Object& JsonField::object() const {
  const auto* members = std::get_if<JsonValue::Object>(&value_.value);
  if (!members) refuse("is no object");
  return *members;
}

JsonField JsonField::at(std::string_view name) const {
  for (const auto& [member, value] : object())
    if (member == name) {
      JsonField field(file_, value);
      field.path_ = path_.empty() ? member : path_ + "." + member;
      return field;
    }
  refuse("lacks a member", "", quote(name));
}

std::map<std::string, JsonField> JsonField::members() const {
  std::map<std::string, JsonField> out;
  for (const auto& [member, value] : object()) {
    JsonField field(file_, value);
    field.path_ = path_.empty() ? member : path_ + "." + member;
    out.emplace(member, std::move(field));
  }
  return out;
}

bool JsonField::has(std::string_view name) const {
  const auto& all = object();
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& member) { return member.first == name; });
}

void JsonField::require_members(std::initializer_list<std::string_view> names,
                                std::initializer_list<std::string_view> optional) const {
  for (const std::string_view name : names) (void)at(name);
  const auto is_in = [](const auto& list, std::string_view member) {
    return std::find(list.begin(), list.end(), member) != list.end();
  };
  for (const auto& [member, value] : object())
    if (!is_in(names, member) && !is_in(optional, member))
      refuse("has an unknown member", quote(member));
}

bool JsonField::truth() const {
  const bool* truth = std::get_if<bool>(&value_.value);
  if (!truth) refuse("is neither true nor false");
  return *truth;
}

const std::string& JsonField::text() const {
  const auto* text = std::get_if<std::string>(&value_.value);
  if (!text) refuse("is no text");
  return *text;
}

double JsonField::number() const {
  if (const double* number = std::get_if<double>(&value_.value)) return *number;
  if (const auto* text = std::get_if<std::string>(&value_.value)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (*text == "inf") return kInfinity;
    if (*text == "-inf") return -kInfinity;
    if (*text == "nan") return std::numeric_limits<double>::quiet_NaN();
  }
  refuse("is no number");
}

std::uint64_t JsonField::whole() const {
  if (const double* number = std::get_if<double>(&value_.value)) {
    if (*number >= 0 && *number <= kMostExact && *number == std::floor(*number) &&
        !std::signbit(*number))
      return static_cast<std::uint64_t>(*number);
    refuse("is no whole number", str(*number));
  }
  if (const auto* text = std::get_if<std::string>(&value_.value)) {
    std::uint64_t value = 0;
    const char* end = text->data() + text->size();
    const auto [stop, error] = std::from_chars(text->data(), end, value);
    if (error == std::errc{} && stop == end && str(value) == *text) return value;
    refuse("is no whole number", quote(*text));
  }
  refuse("is no whole number");
}

std::int64_t JsonField::count() const {
  const std::uint64_t value = whole();
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    refuse("is too large", str(value));
  return static_cast<std::int64_t>(value);
}

// ---- checksums ----------------------------------------------------------------------------------

namespace {

constexpr std::string_view kSelf = ",\n  \"self\": \"", kEnd = "\"\n}\n";

std::string crc_of(std::string_view text) {
  return crc_text(crc32c(std::as_bytes(std::span(text))));
}

}  // namespace

std::uint32_t read_crc(const JsonField& field) {
  const std::string& text = field.text();
  std::uint32_t crc = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), crc, 16);
  if (error != std::errc{} || end != text.data() + text.size() || crc_text(crc) != text)
    field.refuse("is not a checksum", quote(text), "8 hexadecimal digits");
  return crc;
}

std::string sealed_json(JsonValue::Object members) {
  std::string text = json_text(std::move(members));
  text.resize(text.size() - 2);  // cuts off the end of the object
  return text + str(kSelf, crc_of(text), kEnd);
}

void require_intact(const ByteReader& file, std::string_view text) {
  const std::size_t tail = kSelf.size() + 8 + kEnd.size();
  const auto damaged = [&](const char* got) {
    fail<FormatError>(file.subject(), {.what = "the state is damaged", .got = got});
  };
  if (text.size() < tail) damaged("no checksum at its end");
  const std::string_view end = text.substr(text.size() - tail),
                         body = text.substr(0, text.size() - tail);
  if (!end.starts_with(kSelf) || !end.ends_with(kEnd)) damaged("no checksum at its end");
  if (end.substr(kSelf.size(), 8) != crc_of(body)) damaged("a checksum mismatch");
}

}  // namespace mezzo::io
