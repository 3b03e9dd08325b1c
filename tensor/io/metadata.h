// Metadata: a program's own values by name, and their JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "../core/macros.h"

namespace mezzo::io {

struct JsonValue;
class JsonField;

/** A program's own values by name: text, numbers, integers. A separate type with copy functions
 *  that are not inline, as inline ones would cost every user of structs with it 3 MB of compiler
 *  memory. */
struct MZ_API Metadata : std::map<std::string, std::variant<std::string, double, std::int64_t>> {
  using map::map;
  /** Contains no values. */
  Metadata();
  /** Copies all values. */
  Metadata(const Metadata& other);
  /** Takes over all values. */
  Metadata(Metadata&& other) noexcept;
  /** Replaces all values by copies of the other's. */
  Metadata& operator=(const Metadata& other);
  /** As above; takes them over. */
  Metadata& operator=(Metadata&& other) noexcept;
  ~Metadata();
};

/** Returns an object of the values by name. Each is an object whose key is its type, to keep
 * numbers apart from text: text, number, whole, or minus for a negative integer. */
JsonValue json_of(const Metadata& metadata);
/** Reads values as json_of() returns them. Errors: FormatError. */
void read(const JsonField& field, Metadata& to);

}  // namespace mezzo::io
