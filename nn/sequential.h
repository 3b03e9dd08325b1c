// Containers: Sequential calls its members in order; ModuleList and ModuleDict only hold them.
#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

#include "../tensor/core/pointers.h"
#include "model.h"

namespace mezzo::nn {

/** A module that maps one tensor to one tensor. */
template <class M>
concept TensorToTensor = std::derived_from<M, Module> && ForwardTakes<M, const Tensor&> &&
                         requires(M& module, const Tensor& x) {
                           { module(x) } -> std::same_as<Tensor>;
                         };

namespace detail {
/** Throws IndexError for a member of a list of `size` modules. */
[[noreturn]] MZ_API void refuse_index(std::string_view kind, std::int64_t index, std::size_t size);

/** A list whose elements keep their addresses. A std::deque would be as good, but costs each
 * program 1.5 MB of the compiler's memory. */
template <class T> using Elements = std::vector<std::unique_ptr<T>>;

/** An iterator over Elements. */
template <class T> class ElementIterator {
 public:
  using iterator_category = std::bidirectional_iterator_tag;
  using difference_type = std::ptrdiff_t;
  using value_type = T;
  using pointer = T*;
  using reference = T&;

  ElementIterator() = default;
  explicit ElementIterator(const std::unique_ptr<T>* at) : at_(at) {}
  T& operator*() const { return **at_; }
  T* operator->() const { return at_->get(); }
  ElementIterator& operator++() { return ++at_, *this; }
  ElementIterator& operator--() { return --at_, *this; }
  ElementIterator operator++(int) { return ElementIterator(at_++); }
  ElementIterator operator--(int) { return ElementIterator(at_--); }
  bool operator==(const ElementIterator&) const = default;

 private:
  const std::unique_ptr<T>* at_ = nullptr;
};

/** Returns iterators to the first element and behind the last one. */
template <class T> ElementIterator<T> first_of(const Elements<T>& list) {
  return ElementIterator<T>(list.data());
}
template <class T> ElementIterator<T> end_of(const Elements<T>& list) {
  return ElementIterator<T>(list.data() + list.size());
}
}  // namespace detail

class Linear;
class ReLU;
struct BatchNorm1d;
struct BatchNorm2d;
struct BatchNorm3d;

/** Calls its members in order, each on the result of the previous one. The members are named 0, 1,
 *  ..., including members without parameters. An empty Sequential returns its argument.
 *    nn::Sequential net{nn::Flatten{}, nn::Linear{784, 256}, nn::ReLU{}, nn::Linear{256, 10}};
 *  Fusion: linear layers with ReLU between them run as one mezzo::mlp, and a batch norm followed by
 *  ReLU runs as one mezzo::batch_norm_relu. The results are bitwise the same. Layers are not fused
 *  while a trace is active or if the user has overridden the precision tag of one of these ops.
 *  Errors: as the members. */
class MZ_API Sequential : public Model<Sequential> {
 public:
  /** Constructs without members. */
  Sequential();
  /** Constructs another handle to the same container; the other one is not moved from. */
  Sequential(const Sequential&) = default;
  /** As Model::operator=. */
  Sequential& operator=(const Sequential&) = default;
  /** Constructs from members, named 0, 1, .... A single Sequential in braces is copied, by the
   *  rules of C++. Use push_back() to nest one. */
  template <TensorToTensor First, TensorToTensor... Rest>
  requires(sizeof...(Rest) > 0 || !std::same_as<First, Sequential>)
  explicit Sequential(First first, Rest... rest) : Sequential() {
    push_back(std::move(first));
    (push_back(std::move(rest)), ...);
  }

  /** Does not compile: a member is no module that maps one tensor to one tensor. */
  template <class... Ms>
  requires(sizeof...(Ms) > 0 && !(TensorToTensor<std::remove_cvref_t<Ms>> && ...))
  explicit Sequential(const Ms&...) {
    static_assert((std::derived_from<Ms, Module> && ...),
                  "the members of a Sequential are modules, such as nn::ReLU(), not functions");
    static_assert((TensorToTensor<Ms> && ...),
                  "each member of a Sequential has a public forward that takes one Tensor and "
                  "returns one");
  }

  /** Returns the result of the last member. */
  Tensor forward(const Tensor& x) const;

  /** Appends a member under the next number. All handles to this module share it. */
  template <TensorToTensor M> void push_back(M member) { add(next_name(), std::move(member)); }
  /** Appends a member under `name` and returns it. Errors: as Module::add. */
  template <detail::IsModule M>
  requires TensorToTensor<std::remove_cvref_t<M>>
  std::remove_cvref_t<M> add(std::string_view name, M&& member) {
    auto call = std::make_unique<Holder<std::remove_cvref_t<M>>>(member);
    reserve_call();
    auto added = add_member(name, std::forward<M>(member));
    append(std::move(call));
    return added;
  }
  /** Replaces the member `name` by another one of any type and returns it. Errors: as
   *  Module::replace. */
  template <detail::IsModule M>
  requires TensorToTensor<std::remove_cvref_t<M>>
  std::remove_cvref_t<M> replace(std::string_view name, M&& member) {
    auto call = std::make_unique<Holder<std::remove_cvref_t<M>>>(member);
    replace_child(name, member);
    set_call(name, std::move(call));
    return std::forward<M>(member);
  }

  /** Returns the number of members. */
  std::size_t size() const;
  /** Returns a member. Errors: IndexError. */
  Module operator[](std::int64_t index) const;

 private:
  /** A type-erased member. */
  struct Call {
    virtual ~Call() = default;
    Call* next_destroyed = nullptr;
    virtual Tensor operator()(const Tensor& x) = 0;
    virtual const Linear* linear() const { return nullptr; }
    virtual bool is_batch_norm() const { return false; }
    /** Calls a batch norm and relu. */
    virtual Tensor with_relu(const Tensor&) { return {}; }
    virtual bool is_relu() const { return false; }  // a ReLU without casts and hooks
  };
  template <class M> struct Holder final : Call {
    explicit Holder(M m) : module(std::move(m)) {}
    Tensor operator()(const Tensor& x) override { return module(x); }
    const Linear* linear() const override {
      if constexpr (std::same_as<M, Linear>) return &module;
      return nullptr;
    }
    static constexpr bool kIsBatchNorm = std::same_as<M, BatchNorm1d> ||
                                         std::same_as<M, BatchNorm2d> ||
                                         std::same_as<M, BatchNorm3d>;
    bool is_batch_norm() const override { return kIsBatchNorm; }
    Tensor with_relu(const Tensor& x) override {
      if constexpr (kIsBatchNorm) return batch_norm_relu(module, x, Tensor{});
      return {};
    }
    bool is_relu() const override { return std::same_as<M, ReLU> && !module.wraps_calls(); }
    M module;
  };
  struct Calls;

  /** Returns the linear layers that can run as one mlp, starting at a member. At most one layer
   *  means that there is nothing to fuse. */
  std::vector<Linear> chain_from(std::size_t index, const Tensor& x) const;
  bool relu_follows(std::size_t index) const;
  std::string next_name() const;
  void reserve_call();
  void append(std::unique_ptr<Call> call);
  void set_call(std::string_view name, std::unique_ptr<Call> call);

  Shared<Calls> calls_;  // shared by all handles, like the list of children
};

/** A list of modules of one type, named 0, 1, .... It has no forward. replace() changes an
 *  element. */
template <std::derived_from<Module> M> class ModuleList : public Model<ModuleList<M>> {
 public:
  /** Constructs without members. */
  ModuleList() { this->set_container(); }
  /** Constructs another handle to the same list; the other one is not moved from. */
  ModuleList(const ModuleList&) = default;
  /** As Model::operator=. */
  ModuleList& operator=(const ModuleList&) = default;
  /** Constructs from members, named 0, 1, .... */
  explicit ModuleList(std::vector<M> members) : ModuleList() {
    for (M& member : members) push_back(std::move(member));
  }

  /** Appends a member under the next number. */
  void push_back(M member) { add(std::to_string(members_->size()), std::move(member)); }
  /** Appends a member under `name` and returns it. Errors: as Module::add. */
  M add(std::string_view name, M member) {
    members_->push_back(std::make_unique<M>(member));
    try {
      this->add_member(name, member);
    } catch (...) {
      members_->pop_back();
      throw;
    }
    return member;
  }
  /** Replaces the member `name` and returns the new one. Errors: as Module::replace. */
  M replace(std::string_view name, M member) {
    this->replace_child(name, member);
    this->refer_to(*(*members_)[*this->state().names.find(detail::NameKind::child, name)], member);
    return member;
  }

  /** Returns the number of members. */
  std::size_t size() const { return members_->size(); }
  /** Returns a member. Errors: IndexError. */
  M& operator[](std::size_t index) const {
    if (index >= size())
      detail::refuse_index("ModuleList", static_cast<std::int64_t>(index), size());
    return *(*members_)[index];
  }
  /** Returns an iterator over the members, as M&, in order of insertion. */
  auto begin() const { return detail::first_of(*members_); }
  /** Returns the end of the members. */
  auto end() const { return detail::end_of(*members_); }

 private:
  Shared<detail::Elements<M>> members_ = std::make_shared<detail::Elements<M>>();
};

/** Modules of one type by name, in order of insertion. It has no forward. replace() changes an
 *  element. */
template <std::derived_from<Module> M> class ModuleDict : public Model<ModuleDict<M>> {
 public:
  /** A name and a module. */
  using Entry = std::pair<std::string, M>;

  /** Constructs without members. */
  ModuleDict() { this->set_container(); }
  /** Constructs another handle to the same modules; the other one is not moved from. */
  ModuleDict(const ModuleDict&) = default;
  /** As Model::operator=. */
  ModuleDict& operator=(const ModuleDict&) = default;
  /** Constructs from entries, in their order. Errors: as insert(). */
  explicit ModuleDict(std::vector<Entry> members) : ModuleDict() {
    for (Entry& member : members) insert(member.first, std::move(member.second));
  }

  /** Inserts a member under `name`. Errors: ValueError for a name that is empty, dotted or already
   *  registered. */
  void insert(std::string_view name, M member) { add(name, std::move(member)); }
  /** Inserts a member under `name` and returns it. Errors: as Module::add. */
  M add(std::string_view name, M member) {
    members_->push_back(std::make_unique<Entry>(std::string(name), member));
    try {
      this->add_member(name, member);
    } catch (...) {
      members_->pop_back();
      throw;
    }
    return member;
  }
  /** Replaces the member `name` and returns the new one. Errors: as Module::replace. */
  M replace(std::string_view name, M member) {
    this->replace_child(name, member);
    this->refer_to(*find(name), member);
    return member;
  }

  /** Returns the number of members. */
  std::size_t size() const { return members_->size(); }
  /** Returns true if a member has this name. */
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /** Returns a member by name. Errors: ValueError with the nearest names. */
  M& operator[](std::string_view name) const {
    if (M* member = find(name)) return *member;
    detail::refuse_member(this->kind(), *this, name);
  }
  /** Returns an iterator over the entries, in order of insertion. */
  auto begin() const { return detail::first_of(*members_); }
  /** Returns the end of the entries. */
  auto end() const { return detail::end_of(*members_); }

 private:
  M* find(std::string_view name) const {
    const std::size_t* at = this->state().names.find(detail::NameKind::child, name);
    return at ? &(*members_)[*at]->second : nullptr;
  }

  Shared<detail::Elements<Entry>> members_ = std::make_shared<detail::Elements<Entry>>();
};

}  // namespace mezzo::nn
