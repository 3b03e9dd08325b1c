// StateDict: the named tensors and numbers that an object saves and restores.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pointers.h"
#include "tensor.h"

namespace mezzo {

/** Tensors by name, in order of insertion, with lookup in constant time. Has the functions of
 *  std::map that programs use. Copies share the tensors. */
class MZ_API TensorMap {
 public:
  /** A name and a tensor. */
  using Entry = std::pair<std::string, Tensor>;

  /** Constructs without entries. */
  TensorMap();
  /** Copies the names; shares the tensors. */
  TensorMap(const TensorMap& other);
  /** Takes over the entries. */
  TensorMap(TensorMap&& other) noexcept;
  /** Replaces the entries by those of the other. */
  TensorMap& operator=(const TensorMap& other);
  /** As above; takes them over. */
  TensorMap& operator=(TensorMap&& other) noexcept;
  ~TensorMap();
  /** Constructs from entries. Errors: ValueError for a duplicate name. */
  explicit TensorMap(std::vector<Entry> entries);

  /** Returns the number of entries. */
  std::size_t size() const { return entries_.size(); }
  /** Returns true if there are no entries. */
  bool empty() const { return entries_.empty(); }
  /** Returns an iterator over the entries, in order of insertion. */
  auto begin() const { return entries_.begin(); }
  /** As above, to replace tensors; names must not be changed. */
  auto begin() { return entries_.begin(); }
  /** Returns the end of the entries. */
  auto end() const { return entries_.end(); }
  /** As above. */
  auto end() { return entries_.end(); }
  /** Returns an iterator to the entry of a name, or end(). */
  std::vector<Entry>::const_iterator find(std::string_view name) const;
  /** As above, to replace the tensor. */
  std::vector<Entry>::iterator find(std::string_view name) {
    return entries_.begin() + (std::as_const(*this).find(name) - entries_.cbegin());
  }
  /** Returns 1 if the name has an entry, else 0. */
  std::size_t count(std::string_view name) const { return contains(name) ? 1 : 0; }
  /** Returns true if the name has an entry. */
  bool contains(std::string_view name) const { return find(name) != end(); }
  /** Returns the tensor of a name. Errors: ValueError with the nearest names. */
  const Tensor& at(std::string_view name) const;
  /** Returns the tensor of a name; adds an undefined one if the name is unknown. */
  Tensor& operator[](std::string_view name);
  /** Removes an entry. Returns 0 if it did not exist, else 1. */
  std::size_t erase(std::string_view name);
  /** Removes the entry that an iterator of find() refers to. */
  void erase(std::vector<Entry>::const_iterator entry);
  /** Returns the names in order of insertion. */
  std::vector<std::string> names() const;

 private:
  struct Positions;  // hidden: its hash table slows down the compilation of every user

  std::vector<Entry> entries_;
  Owner<Positions> positions_;  // in entries_; null: none
};

/** The saved state of an object. The tensors can go into a safetensors file, the numbers into a
 *  JSON object. Every class with state has state_dict(), which returns this, and stage(), which
 *  checks and converts such a state completely and returns a function that applies it: to check a
 *  state, drop the function; to load it, call it. Modules have tensors only, schedules numbers
 *  only. The functions below are those of `tensors`. */
class MZ_API StateDict {
 public:
  /** A name and a tensor. */
  using Entry = TensorMap::Entry;

  /** The tensors by name. */
  TensorMap tensors;
  union {
    /** The numbers by name. */
    std::map<std::string, double, std::less<>> numbers;
    /** The former name of `numbers`: the same object. */
    std::map<std::string, double, std::less<>> scalars;
  };

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
  /** Constructs from tensors. Errors: ValueError for a duplicate name. */
  StateDict(std::initializer_list<Entry> entries);
  /** Constructs from tensors. Errors: ValueError for a duplicate name. */
  explicit StateDict(std::vector<Entry> entries);

  /** Adds a tensor, or replaces an existing one. */
  void set(std::string_view name, const Tensor& value) { tensors[name] = value; }
  /** Removes a tensor. Returns false if it did not exist. */
  bool erase(std::string_view name) { return tensors.erase(name) > 0; }
  /** Returns true if the name has a defined tensor. */
  bool contains(std::string_view name) const { return find(name).defined(); }
  /** Returns the tensor, or an undefined one if the name is unknown. */
  Tensor find(std::string_view name) const;
  /** Returns the tensor. Errors: ValueError with the nearest names. */
  Tensor operator[](std::string_view name) const;
  /** Returns the number of tensors. */
  std::size_t size() const { return tensors.size(); }
  /** Returns true if there are no tensors. */
  bool empty() const { return tensors.empty(); }
  /** Returns an iterator over names and tensors, in order of insertion. */
  auto begin() const { return tensors.begin(); }
  /** Returns the end of the tensors. */
  auto end() const { return tensors.end(); }
  /** Returns the names of the tensors in order of insertion. */
  std::vector<std::string> names() const { return tensors.names(); }
};

}  // namespace mezzo
