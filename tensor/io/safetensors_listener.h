// HeaderListener: builds a safetensors header from the events of a JSON parser. No tree is built,
// because a tree keeps only the last of two equal keys, and needs a multiple of a malicious
// header's size.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "../text/text.h"
#include "json_text.h"
#include "safetensors_header.h"
#include "utf8.h"

namespace mezzo::io {

/** A listener that rejects the first event that the format does not allow. */
class HeaderListener final : public JsonListener {
 public:
  explicit HeaderListener(FileHeader& header) : header_(header) {}

  bool start_object() override {
    switch (place_) {
      case Place::outside: place_ = Place::names; return true;
      case Place::metadata: place_ = Place::metadata_keys; return true;
      case Place::entry:
        place_ = Place::entry_keys;
        seen_ = 0;
        return true;
      default: return unexpected("an object");
    }
  }

  bool end_object() override {
    if (place_ == Place::entry_keys) {
      for (std::size_t field = 0; field < kFields.size(); ++field)
        if (!(seen_ >> field & 1))
          return refuse(str("the entry of ", quote(name_), " lacks ", kFields[field]), "",
                        "dtype, shape and data_offsets");
      place_ = Place::names;
    } else if (place_ == Place::metadata_keys) {
      place_ = Place::names;
    } else {
      place_ = Place::done;
    }
    return true;
  }

  bool key(const std::string& text) override {
    if (place_ == Place::names) return start_name(text);
    if (place_ == Place::metadata_keys) {
      if (header_.metadata.count(text))
        return refuse("a metadata key occurs twice", quote(text), "each key once");
      metadata_key_ = text;
      return count_metadata(text);
    }
    const auto field = std::find(kFields.begin(), kFields.end(), text);
    if (field == kFields.end())
      return refuse(str("the entry of ", quote(name_), " has an unknown key"), quote(text),
                    "dtype, shape and data_offsets");
    field_ = static_cast<std::size_t>(field - kFields.begin());
    if (seen_ >> field_ & 1)
      return refuse(str("the entry of ", quote(name_), " has a key twice"), quote(text),
                    "each key once");
    seen_ |= 1u << field_;
    place_ = Place::field;
    return true;
  }

  bool string(const std::string& text) override {
    if (place_ == Place::metadata_keys) {
      header_.metadata[metadata_key_] = text;
      return count_metadata(text);
    }
    if (place_ != Place::field || field_ != kDType) return unexpected("a string");
    for (const FileDType& dtype : kFileDTypes)
      if (dtype.name == text) header_.entries.back().dtype = &dtype;
    place_ = Place::entry_keys;
    if (header_.entries.back().dtype) return true;
    return refuse(str("the dtype of ", quote(name_), " is not supported"), quote(text),
                  "one of I64 F64 F32 I32 BF16 F16 I16 I8 U8 BOOL");
  }

  bool start_array() override {
    if (place_ != Place::field || field_ == kDType) return unexpected("an array");
    place_ = Place::numbers;
    count_ = 0;
    return true;
  }

  bool end_array() override {
    if (field_ == kOffsets && count_ != 2)
      return refuse(str("data_offsets of ", quote(name_), " has the wrong length"),
                    str(count_, " numbers"), "2");
    place_ = Place::entry_keys;
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ != Place::numbers) return unexpected("a number");
    FileEntry& entry = header_.entries.back();
    ++count_;
    if (field_ == kOffsets) {
      if (count_ > 2)
        return refuse(str("data_offsets of ", quote(name_), " has the wrong length"),
                      "more than 2 numbers", "2");
      (count_ == 1 ? entry.begin : entry.end) = value;
      return true;
    }
    if (count_ > Shape::kMaxRank)
      return refuse(str("the shape of ", quote(name_), " has too many dimensions"),
                    str("more than ", Shape::kMaxRank), str("at most ", Shape::kMaxRank));
    if (value > kMostSize)
      return refuse(str("the shape of ", quote(name_), " holds an impossible size"), str(value),
                    str("at most ", kMostSize));
    entry.shape.push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool number_negative(std::int64_t value) override {
    return unexpected(str("the negative number ", value));
  }
  bool number_float(double, const std::string& text) override {
    return unexpected(str("the number ", text.substr(0, 40)));
  }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a bool"); }

 private:
  enum class Place {
    outside,
    names,
    metadata,
    metadata_keys,
    entry,
    entry_keys,
    field,
    numbers,
    done
  };
  static constexpr std::array<std::string_view, 3> kFields{"dtype", "shape", "data_offsets"};
  static constexpr std::size_t kDType = 0, kOffsets = 2;
  static constexpr std::uint64_t kMostSize = std::uint64_t{1} << 59;

  bool unexpected(std::string got) {
    switch (place_) {
      case Place::outside:
        return refuse("the header is no JSON object", std::move(got), "an object");
      case Place::metadata:
        return refuse("__metadata__ is no object", std::move(got), "an object of strings");
      case Place::metadata_keys:
        return refuse(str("the metadata of ", quote(metadata_key_), " is no string"),
                      std::move(got), "a string");
      case Place::field:
      case Place::numbers:
        return refuse(str(kFields[field_], " of ", quote(name_), " holds an invalid value"),
                      std::move(got),
                      field_ == kDType ? "a string" : "an array of unsigned integers");
      default:
        return refuse(str("the entry of ", quote(name_), " is no object"), std::move(got),
                      "an object");
    }
  }

  bool start_name(const std::string& text) {
    name_ = text;
    if (text != kMetadataKey) {
      if (header_.entries.size() == kMostTensors)
        return refuse("the file holds too many tensors", str("more than ", kMostTensors),
                      str("at most ", kMostTensors));
      name_bytes_ += text.size();
      if (name_bytes_ > kMostNameBytes)
        return refuse("the names are too long", str("more than ", kMostNameBytes, " bytes"),
                      str("at most ", kMostNameBytes, " in all"));
      header_.entries.emplace_back().name = text;
      place_ = Place::entry;
      return true;
    }
    if (has_metadata_) return refuse("__metadata__ occurs twice", "", "once");
    has_metadata_ = true;
    place_ = Place::metadata;
    return true;
  }

  bool count_metadata(const std::string& text) {
    metadata_bytes_ += text.size();
    if (metadata_bytes_ <= kMostMetadataBytes) return true;
    return refuse("the metadata is too large", str("more than ", kMostMetadataBytes, " bytes"),
                  str("at most ", kMostMetadataBytes));
  }

  FileHeader& header_;
  Place place_ = Place::outside;
  std::string name_, metadata_key_;
  std::size_t field_ = 0;
  unsigned seen_ = 0;  // bit i: field i of the entry was read
  int count_ = 0;
  bool has_metadata_ = false;
  std::uint64_t metadata_bytes_ = 0, name_bytes_ = 0;
};

}  // namespace mezzo::io
