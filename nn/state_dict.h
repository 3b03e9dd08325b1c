// StateDict: the named values of a module, the content of a weights file.
// Sees: tensor.
// Read next: module.h (Module::state_dict, load_state_dict), serialize.h (the file).
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../tensor/pending_writes.h"
#include "../tensor/tensor.h"
#include "name_index.h"

namespace mezzo::nn {

/** Tensors by name, in order; a name is found in constant time. Copies share the tensors. */
class MZ_API StateDict {
 public:
  using Entry = std::pair<std::string, Tensor>;

  StateDict() = default;
  StateDict(std::initializer_list<Entry> entries);
  /** Errors: ValueError for a name that occurs twice. */
  explicit StateDict(std::vector<Entry> entries);

  /** Adds an entry, or replaces the one of that name. */
  void set(std::string_view name, const Tensor& value);
  /** Removes an entry; false when there was none. */
  bool erase(std::string_view name);
  bool contains(std::string_view name) const { return find(name).defined(); }
  /** The tensor, or an undefined one. */
  Tensor find(std::string_view name) const;
  /** The tensor. Errors: ValueError with the nearest names. */
  Tensor operator[](std::string_view name) const;

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  std::vector<std::string> names() const;

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t, detail::NameHash, std::equal_to<>> positions_;  // in entries_
};

struct LoadOptions {
  bool strict = true;  // every name of the module must be there, and no other
};

/** What a load that is not strict passed over. */
struct LoadReport {
  std::vector<std::string> missing;     // in the module alone: kept their values
  std::vector<std::string> unexpected;  // in the given values alone: ignored
};

class StateRule;

/** A load that was checked and converted: commit() makes it and needs no memory. */
class MZ_API StagedLoad {
 public:
  /** `value` will be written into `tensor`, by the rule where there is one. Errors: OutOfMemory. */
  void add(const Tensor& tensor, const std::shared_ptr<const StateRule>& rule, const Tensor& value);
  void commit() const;

  /** What each tensor will hold. */
  const PendingWrites& writes() const { return writes_; }

 private:
  PendingWrites writes_;
  std::vector<std::pair<std::shared_ptr<const StateRule>, Tensor>> ruled_;
};

}  // namespace mezzo::nn
