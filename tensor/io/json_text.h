// parse_json: strict JSON out of a file, as a sequence of events. Whoever listens decides what may come where; no tree is built.
// Sees: byte_reader.h, ../error.h.
// Read next: json_text.cpp, safetensors_listener.h and json_value.cpp (who listen).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "../error.h"
#include "byte_reader.h"

namespace mezzo::io {

/** Receives what a JSON text is made of. A function returns false, having set `complaint`, to refuse the text there. */
class JsonListener {
 public:
  virtual ~JsonListener() = default;
  virtual bool start_object() = 0;
  virtual bool key(const std::string& text) = 0;
  virtual bool end_object() = 0;
  virtual bool start_array() = 0;
  virtual bool end_array() = 0;
  virtual bool string(const std::string& text) = 0;
  virtual bool number_unsigned(std::uint64_t value) = 0;
  virtual bool number_negative(std::int64_t value) = 0;
  /** A number with a point or an exponent, or beyond 64 bits; as it was written, too. */
  virtual bool number_float(double value, const std::string& text) = 0;
  virtual bool boolean(bool value) = 0;
  virtual bool null() = 0;

  const Complaint& complaint() const { return complaint_; }

 protected:
  bool refuse(std::string what, std::string got = {}, std::string expected = {}) {
    complaint_ = {std::move(what), std::move(got), std::move(expected)};
    return false;
  }

 private:
  Complaint complaint_;
};

/** Hands the JSON in `text`, which begins at byte `start` of the file, to the listener. `what` names it in errors: "the header".
 *  Errors: FormatError with offset and reason; Unsupported in a build without JSON. */
void parse_json(const ByteReader& file, std::string_view text, std::uint64_t start, std::string_view what,
                JsonListener& listener);
/** Errors: in a build without JSON, Unsupported that names the kind of file: "safetensors files". */
void require_json(std::string_view subject, std::string_view kind);

}  // namespace mezzo::io
