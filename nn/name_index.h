// NameIndex: maps names to their positions in a module's lists.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

namespace mezzo::nn::detail {

/** Hash for all string types, so that lookups need no std::string. */
struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

/** The list of a module that contains a name. */
enum class NameKind { parameter, buffer, child };

/** Index of registered names with lookup in constant time. */
class NameIndex {
 public:
  struct Entry {
    NameKind kind;
    std::size_t index;
  };

  /** Returns the entry of a name, or null if it is not registered. */
  const Entry* find(std::string_view name) const {
    const auto it = entries_.find(name);
    return it == entries_.end() ? nullptr : &it->second;
  }
  /** Returns the position of a name in the list of a kind, or null if the name is unknown or of
   *  another kind. */
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
