// NameIndex: maps names to their positions in a module's lists.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "../tensor/core/macros.h"
#include "../tensor/core/pointers.h"

namespace mezzo::nn::detail {

/** The list of a module that contains a name. */
enum class NameKind { parameter, buffer, child };

/** Index of registered names with lookup in constant time. */
class MZ_API NameIndex {
 public:
  struct Entry {
    NameKind kind;
    std::size_t index;
  };

  NameIndex();
  ~NameIndex();

  /** Returns the entry of a name, or null if it is not registered. */
  const Entry* find(std::string_view name) const;
  /** Returns the position of a name in the list of a kind, or null if the name is unknown or of
   *  another kind. */
  const std::size_t* find(NameKind kind, std::string_view name) const;
  void add(std::string_view name, NameKind kind, std::size_t index);
  void erase(std::string_view name);

 private:
  struct Entries;  // hidden: its hash table slows down the compilation of every user
  Owner<Entries> entries_;
};

/** Hash for all string types, so that lookups need no std::string. */
struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

}  // namespace mezzo::nn::detail
