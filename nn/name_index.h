// NameIndex: where in a module's lists each name stands.
// Sees: the standard library only.
// Read next: module.h (its user).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

namespace mezzo::nn::detail {

/** Hashes names of any string type alike, so that a lookup makes no string. */
struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

/** The list of a module that a name belongs to. */
enum class NameKind { parameter, buffer, child };

/** Finds a registered name in constant time. */
class NameIndex {
 public:
  struct Entry {
    NameKind kind;
    std::size_t index;
  };

  /** The entry of a name; null where there is none. */
  const Entry* find(std::string_view name) const {
    const auto it = entries_.find(name);
    return it == entries_.end() ? nullptr : &it->second;
  }
  /** The position of a name in the list of a kind; none where the name is of another kind or
   *  unknown. */
  const std::size_t* find(NameKind kind, std::string_view name) const {
    const Entry* entry = find(name);
    return entry && entry->kind == kind ? &entry->index : nullptr;
  }
  void add(std::string_view name, NameKind kind, std::size_t index) {
    entries_.emplace(name, Entry{kind, index});
  }
  void erase(std::string_view name) { entries_.erase(entries_.find(name)); }

 private:
  std::unordered_map<std::string, Entry, NameHash, std::equal_to<>> entries_;
};

}  // namespace mezzo::nn::detail
