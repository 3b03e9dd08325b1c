#include "metadata.h"

#include "json_value.h"

namespace mezzo::io {

Metadata::Metadata() = default;
Metadata::Metadata(const Metadata&) = default;
Metadata::Metadata(Metadata&&) noexcept = default;
Metadata& Metadata::operator=(const Metadata&) = default;
Metadata& Metadata::operator=(Metadata&&) noexcept = default;
Metadata::~Metadata() = default;

namespace {

JsonValue json_of(const Metadata::mapped_type& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return object("text", *text);
  if (const auto* number = std::get_if<double>(&value)) return object("number", *number);
  const std::int64_t whole = std::get<std::int64_t>(value);
  const auto magnitude =
      whole < 0 ? ~static_cast<std::uint64_t>(whole) + 1 : static_cast<std::uint64_t>(whole);
  return object(whole < 0 ? "minus" : "whole", JsonValue::whole(magnitude));
}

void read(const JsonField& field, Metadata::mapped_type& to) {
  const auto members = field.members();
  if (members.size() != 1)
    field.refuse("is not a metadata value", "", "one of text, number, whole, minus");
  const auto& [kind, value] = *members.begin();
  if (kind == "text") {
    to = value.text();
  } else if (kind == "number") {
    to = value.number();
  } else if (kind == "whole") {
    to = value.count();
  } else if (kind == "minus") {
    const std::uint64_t magnitude = value.whole();
    if (magnitude == 0 || magnitude > std::uint64_t{1} << 63) value.refuse("is out of range");
    to = static_cast<std::int64_t>(~magnitude + 1);
  } else {
    value.refuse("has an unknown kind", "", "text, number, whole or minus");
  }
}

}  // namespace

JsonValue json_of(const Metadata& metadata) {
  JsonValue::Object out;
  for (const auto& [name, value] : metadata) out.emplace_back(name, json_of(value));
  return out;
}

void read(const JsonField& field, Metadata& to) {
  for (const auto& [name, member] : field.members()) read(member, to[name]);
}

}  // namespace mezzo::io
