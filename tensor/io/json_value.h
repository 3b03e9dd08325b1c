// JsonValue: text, numbers, truth values and objects of them, as state files hold them; written by us, read by strict rules.
// Sees: byte_reader.h.
// Read next: json_value.cpp (reading and writing), ../../amp/checkpoint_state.cpp (what is in a state file).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "../macros.h"
#include "byte_reader.h"

namespace mezzo::io {

/** A value. There are no arrays and no null; integers beyond 2^53 and numbers that are not finite are written as text. */
struct MZ_API JsonValue {
  using Member = std::pair<std::string, JsonValue>;
  using Object = std::vector<Member>;  // in the order of the file, each name once

  std::variant<bool, double, std::string, Object> value;

  JsonValue(bool truth) : value(truth) {}                    // NOLINT: conversion is the point
  JsonValue(double number) : value(number) {}                // NOLINT
  JsonValue(std::string text) : value(std::move(text)) {}    // NOLINT
  JsonValue(const char* text) : value(std::string(text)) {}  // NOLINT
  JsonValue(Object members);                                 // NOLINT
  JsonValue() : JsonValue(Object()) {}
  // No copies, and so no initializer lists: where a copy runs out of memory halfway, the code of
  // g++ 12 destroys what it has made twice.
  JsonValue(const JsonValue&) = delete;
  JsonValue& operator=(const JsonValue&) = delete;
  JsonValue(JsonValue&&) noexcept = default;
  JsonValue& operator=(JsonValue&&) noexcept = default;
  static JsonValue whole(std::uint64_t number);
};

namespace detail {

inline void add_members(JsonValue::Object&) {}

template <class... Rest>
void add_members(JsonValue::Object& to, std::string_view name, JsonValue value, Rest&&... rest) {
  to.emplace_back(name, std::move(value));
  add_members(to, std::forward<Rest>(rest)...);
}

}  // namespace detail

/** An object of these names and values: object("seed", seed, "draw", draw). */
template <class... NamesAndValues> JsonValue::Object object(NamesAndValues&&... members) {
  JsonValue::Object out;
  out.reserve(sizeof...(members) / 2);
  detail::add_members(out, std::forward<NamesAndValues>(members)...);
  return out;
}

/** The value as JSON: two spaces per level, numbers with the fewest digits that read back as the same. */
MZ_API std::string json_text(const JsonValue& value);

/** An object out of a file whose text is `text`. Objects nest at most `depth` deep; memory is a small multiple of the text.
 *  Errors: FormatError with offset and reason; Unsupported in a build without JSON. */
MZ_API JsonValue read_json(const ByteReader& file, std::string_view text, int depth);

/** A place in a JSON value that was read, for taking it apart: every function throws a FormatError that names the place where it finds something
 *  else than it was asked for. Refers to value and file; both must outlive it. */
class MZ_API JsonField {
 public:
  JsonField(const ByteReader& file, const JsonValue& value) : file_(file), value_(value) {}

  JsonField at(std::string_view name) const;
  /** The members of an object by name. */
  std::map<std::string, JsonField> members() const;
  /** Errors: FormatError where the object has other members than these, or lacks one. */
  void require_members(std::initializer_list<std::string_view> names) const;
  bool truth() const;
  const std::string& text() const;
  double number() const;
  std::uint64_t whole() const;
  /** A whole number that fits an int64. */
  std::int64_t count() const;

  [[noreturn]] void refuse(std::string what, std::string got = {}, std::string expected = {}) const;

 private:
  const JsonValue::Object& object() const;

  const ByteReader& file_;
  const JsonValue& value_;
  std::string path_;  // "optimizers.main.type"
};

}  // namespace mezzo::io
