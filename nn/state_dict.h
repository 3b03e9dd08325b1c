// StateDict: the named values of a module. StagedLoad: a checked load that is not yet written.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../tensor/core/pending_writes.h"
#include "../tensor/core/pointers.h"
#include "../tensor/core/tensor.h"

namespace mezzo::nn {

/** Tensors by name, in order, with lookup in constant time. Copies share the tensors. */
class MZ_API StateDict {
 public:
  /** A name and a tensor. */
  using Entry = std::pair<std::string, Tensor>;

  /** Constructs without entries. */
  StateDict();
  /** Copies the names; shares the tensors. */
  StateDict(const StateDict& other);
  /** Takes over the entries. */
  StateDict(StateDict&& other) noexcept;
  /** Replaces the entries by those of the other. */
  StateDict& operator=(const StateDict& other);
  /** As above; takes them over. */
  StateDict& operator=(StateDict&& other) noexcept;
  ~StateDict();
  /** Constructs from entries. Errors: ValueError for a duplicate name. */
  StateDict(std::initializer_list<Entry> entries);
  /** Constructs from entries. Errors: ValueError for a duplicate name. */
  explicit StateDict(std::vector<Entry> entries);

  /** Adds an entry, or replaces the value of an existing one. */
  void set(std::string_view name, const Tensor& value);
  /** Removes an entry. Returns false if it did not exist. */
  bool erase(std::string_view name);
  /** Returns true if the name has a defined tensor. */
  bool contains(std::string_view name) const { return find(name).defined(); }
  /** Returns the tensor, or an undefined one if the name is unknown. */
  Tensor find(std::string_view name) const;
  /** Returns the tensor. Errors: ValueError with the nearest names. */
  Tensor operator[](std::string_view name) const;

  /** Returns the number of entries. */
  std::size_t size() const { return entries_.size(); }
  /** Returns true if there are no entries. */
  bool empty() const { return entries_.empty(); }
  /** Returns an iterator over the entries, in order of insertion. */
  auto begin() const { return entries_.begin(); }
  /** Returns the end of the entries. */
  auto end() const { return entries_.end(); }
  /** Returns the names in order of insertion. */
  std::vector<std::string> names() const;

 private:
  struct Positions;  // hidden: its hash table slows down the compilation of every user

  Positions& positions();

  std::vector<Entry> entries_;
  Owner<Positions> positions_;  // in entries_; null: none
};

/** Options of loading values into a module. */
struct LoadOptions {
  bool strict = true;  // requires exactly the names of the module
  /** Beginnings of names to leave out, such as "fc.": values and tensors of the module with these
   *  names are ignored. Names are those of the module, after `rename`. */
  std::vector<std::string> skip = {};
  /** Beginnings of the values' names and what replaces them, such as {"backbone.", ""}. The first
   *  one that fits a name applies. */
  std::vector<std::pair<std::string, std::string>> rename = {};
  /** Ignores values of another shape or kind and reports them, instead of an error. The name is
   *  that of Hugging Face's transformers. */
  bool ignore_mismatched_sizes = false;
};

/** Names that a load left out; LoadOptions::skip does not count. */
struct LoadReport {
  std::vector<std::string> missing;          // only in the module; values unchanged
  std::vector<std::string> unexpected;       // only in the given values; ignored
  std::vector<std::string> mismatched = {};  // of another shape or kind; values unchanged
};

class StateRule;

/** A load that was checked and converted but not yet written. commit() allocates no memory. */
class MZ_API StagedLoad {
 public:
  /** Adds a write of `value` into `tensor`, by `rule` unless it is null. Errors: OutOfMemory. */
  void add(const Tensor& tensor, const std::shared_ptr<const StateRule>& rule, const Tensor& value);
  /** Writes all values. */
  void commit() const;

  /** Returns the pending writes. */
  const PendingWrites& writes() const { return writes_; }

 private:
  PendingWrites writes_;
  std::vector<std::pair<std::shared_ptr<const StateRule>, Tensor>> ruled_;
};

}  // namespace mezzo::nn
