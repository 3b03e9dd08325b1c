// parse_json: parses strict JSON from a file as a sequence of events. The listener decides which
// events are allowed where; no tree is built.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "../core/error.h"
#include "byte_reader.h"

namespace mezzo::io {

/** Receives the events of a JSON text. A function returns false, after calling refuse(), to reject
 *  the text at that position. */
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
  /** Called for a number with a point or an exponent, or beyond 64 bits; `text` is the number as
   *  written. */
  virtual bool number_float(double value, const std::string& text) = 0;
  virtual bool boolean(bool value) = 0;
  virtual bool null() = 0;

  /** Returns the reason given by refuse(). */
  const Complaint& complaint() const { return complaint_; }

 protected:
  /** Sets the reason for rejecting the text, and returns false. */
  bool refuse(std::string what, std::string got = {}, std::string expected = {}) {
    complaint_ = {std::move(what), std::move(got), std::move(expected)};
    return false;
  }

 private:
  Complaint complaint_;
};

/** Parses the JSON in `text`, which begins at byte `start` of the file, and calls the listener.
 *  `what` names the text in errors: "the header". Errors: FormatError with offset and reason;
 *  Unsupported in a build without JSON. */
void parse_json(const ByteReader& file, std::string_view text, std::uint64_t start,
                std::string_view what, JsonListener& listener);
/** Throws in a build without JSON. Errors: Unsupported naming the kind of file, e.g. "safetensors
 *  files". */
void require_json(std::string_view subject, std::string_view kind);

}  // namespace mezzo::io
