// Sequential: layers in a row; ModuleList and ModuleDict: layers to be called one by one, by number or by name.
// Sees: model.h.
// Read next: sequential.cpp.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "model.h"

namespace mezzo::nn {

/** A module that takes one tensor and returns one. */
template <class M>
concept TensorToTensor = std::derived_from<M, Module> && requires(M& module, const Tensor& x) {
  { module(x) } -> std::same_as<Tensor>;
};

class Linear;
class ReLU;
struct BatchNorm1d;
struct BatchNorm2d;
struct BatchNorm3d;

/** Calls its members in order, each on the result of the one before. Names: 0, 1, ..., for members without parameters too.
 *    nn::Sequential net{nn::Flatten{}, nn::Linear{784, 256}, nn::ReLU{}, nn::Linear{256, 10}};
 *  Linear layers with ReLU between them are called together, as mezzo::mlp, and so are a batch norm and the ReLU behind it, as
 *  mezzo::batch_norm_relu, where nobody could tell but by the time it takes: not under a trace, nor where one of these ops has been given another
 *  precision tag. An empty one returns its argument. Errors: as the members. */
class MZ_API Sequential : public Model<Sequential> {
 public:
  Sequential();
  // A lone Sequential in braces is a copy, as everywhere in C++: push_back() puts one inside another.
  template <TensorToTensor First, TensorToTensor... Rest>
  requires(sizeof...(Rest) > 0 || !std::same_as<First, Sequential>) explicit Sequential(First first,
                                                                                        Rest... rest)
      : Sequential() {
    push_back(std::move(first));
    (push_back(std::move(rest)), ...);
  }

  Tensor forward(const Tensor& x) const;

  /** Appends a member under the next number. Every handle to this module sees it. */
  template <TensorToTensor M> void push_back(M member) { add(next_name(), std::move(member)); }
  /** Appends a member under a name of its own and returns it. Errors: as Module::add. */
  template <detail::IsModule M>
  requires TensorToTensor<std::remove_cvref_t<M>> std::remove_cvref_t<M> add(std::string_view name,
                                                                             M&& member) {
    auto call = std::make_unique<Holder<std::remove_cvref_t<M>>>(member);
    reserve_call();
    auto added = add_member(name, std::forward<M>(member));
    append(std::move(call));
    return added;
  }
  /** Puts another member, of any type, in the place of the one of this name. Errors: as
   *  Module::replace. */
  template <detail::IsModule M>
  requires TensorToTensor<std::remove_cvref_t<M>> std::remove_cvref_t<M> replace(std::string_view name,
                                                                                 M&& member) {
    auto call = std::make_unique<Holder<std::remove_cvref_t<M>>>(member);
    auto replaced = replace_member(name, std::forward<M>(member));
    set_call(name, std::move(call));
    return replaced;
  }

  std::size_t size() const;
  /** A member. Errors: IndexError. */
  Module operator[](std::int64_t index) const;

 private:
  /** Calls a module whose type was forgotten. */
  struct Call {
    virtual ~Call() = default;
    Call* next_destroyed = nullptr;
    virtual Tensor operator()(const Tensor& x) = 0;
    virtual const Linear* linear() const { return nullptr; }
    virtual bool is_batch_norm() const { return false; }
    /** The call of a batch norm and that of relu. */
    virtual Tensor with_relu(const Tensor&) { return {}; }
    virtual bool is_relu() const { return false; }  // one that nothing has been attached to
  };
  template <class M> struct Holder final : Call {
    explicit Holder(M m) : module(std::move(m)) {}
    Tensor operator()(const Tensor& x) override { return module(x); }
    const Linear* linear() const override {
      if constexpr (std::same_as<M, Linear>) return &module;
      return nullptr;
    }
    static constexpr bool kIsBatchNorm =
        std::same_as<M, BatchNorm1d> || std::same_as<M, BatchNorm2d> || std::same_as<M, BatchNorm3d>;
    bool is_batch_norm() const override { return kIsBatchNorm; }
    Tensor with_relu(const Tensor& x) override {
      if constexpr (kIsBatchNorm) return batch_norm_relu(module, x, Tensor{});
      return {};
    }
    bool is_relu() const override { return std::same_as<M, ReLU> && !module.call_wrapper(); }
    M module;
  };
  struct Calls;

  /** The layers of the mlp that begins with a member; one alone where there is none. */
  std::vector<Linear> chain_from(std::size_t index, const Tensor& x) const;
  bool relu_follows(std::size_t index) const;
  std::string next_name() const;
  void reserve_call();
  void append(std::unique_ptr<Call> call);
  void set_call(std::string_view name, std::unique_ptr<Call> call);

  std::shared_ptr<Calls> calls_;  // shared, as the list of children is
};

/** A list of modules of one type, named 0, 1, ...; what calls them is up to the module that holds
 *  it. Its elements can be swapped; replace() changes one. */
template <std::derived_from<Module> M> class ModuleList : public Model<ModuleList<M>> {
 public:
  ModuleList() { this->set_container(); }
  explicit ModuleList(std::vector<M> members) : ModuleList() {
    for (M& member : members) push_back(std::move(member));
  }

  void push_back(M member) { add(std::to_string(members_->size()), std::move(member)); }
  /** Appends a member under a name of its own and returns it. Errors: as Module::add. */
  M add(std::string_view name, M member) {
    members_->push_back(member);
    try {
      this->add_member(name, member);
    } catch (...) {
      members_->pop_back();
      throw;
    }
    this->pin(name, members_->back());
    return member;
  }
  /** Puts another member in the place of the one of this name and returns it. Errors: as
   *  Module::replace. */
  M replace(std::string_view name, M member) { return this->replace_member(name, std::move(member)); }

  std::size_t size() const { return members_->size(); }
  /** A member; unchecked, as a vector's. */
  M& operator[](std::size_t index) const { return (*members_)[index]; }
  auto begin() const { return members_->begin(); }
  auto end() const { return members_->end(); }

 private:
  std::shared_ptr<std::deque<M>> members_ = std::make_shared<std::deque<M>>();  // never move
};

/** Modules of one type under names, in the order they were put in; what calls them is up to the
 *  module that holds it. Its elements can be swapped; replace() changes one. */
template <std::derived_from<Module> M> class ModuleDict : public Model<ModuleDict<M>> {
 public:
  using Entry = std::pair<std::string, M>;

  ModuleDict() { this->set_container(); }
  explicit ModuleDict(std::vector<Entry> members) : ModuleDict() {
    for (Entry& member : members) insert(member.first, std::move(member.second));
  }

  /** Errors: ValueError for a name that is empty, dotted or taken. */
  void insert(std::string_view name, M member) { add(name, std::move(member)); }
  /** The same, returning the member. Errors: as Module::add. */
  M add(std::string_view name, M member) {
    members_->emplace_back(std::string(name), member);
    try {
      this->add_member(name, member);
    } catch (...) {
      members_->pop_back();
      throw;
    }
    this->pin(name, members_->back().second);
    return member;
  }
  /** Puts another member in the place of the one of this name and returns it. Errors: as
   *  Module::replace. */
  M replace(std::string_view name, M member) { return this->replace_member(name, std::move(member)); }

  std::size_t size() const { return members_->size(); }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /** A member. Errors: ValueError with the nearest names. */
  M& operator[](std::string_view name) const {
    if (M* member = find(name)) return *member;
    detail::refuse_member(this->kind(), *this, name);
  }
  auto begin() const { return members_->begin(); }
  auto end() const { return members_->end(); }

 private:
  M* find(std::string_view name) const {
    const std::size_t* at = this->state().names.find(detail::NameKind::child, name);
    return at ? &(*members_)[*at].second : nullptr;
  }

  std::shared_ptr<std::deque<Entry>> members_ = std::make_shared<std::deque<Entry>>();  // never move
};

}  // namespace mezzo::nn
