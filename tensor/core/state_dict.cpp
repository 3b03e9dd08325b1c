#include "state_dict.h"

#include <memory>
#include <unordered_map>

#include "../text/did_you_mean.h"
#include "../text/text.h"

namespace mezzo {

namespace detail {

/** Hash for all string types, so that lookups need no std::string. */
struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

}  // namespace detail

/** The position of each name in the list of entries. */
struct TensorMap::Positions
    : std::unordered_map<std::string, std::size_t, detail::NameHash, std::equal_to<>> {};

namespace {

[[noreturn]] void refuse_unknown(std::string_view name, const TensorMap& tensors) {
  fail<ValueError>("StateDict", {.what = "no entry of this name",
                                 .got = str("\"", name, "\""),
                                 .hint = did_you_mean(name, tensors.names())});
}

}  // namespace

TensorMap::TensorMap() = default;
TensorMap::TensorMap(const TensorMap& other)
    : entries_(other.entries_),
      positions_(other.positions_ ? new Positions(*other.positions_) : nullptr) {}
TensorMap::TensorMap(TensorMap&&) noexcept = default;
TensorMap& TensorMap::operator=(const TensorMap& other) { return *this = TensorMap(other); }
TensorMap& TensorMap::operator=(TensorMap&&) noexcept = default;
TensorMap::~TensorMap() = default;

TensorMap::TensorMap(std::vector<Entry> entries)
    : entries_(std::move(entries)), positions_(new Positions) {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (const std::string& name = entries_[i].first; !positions_->emplace(name, i).second)
      fail<ValueError>("StateDict", {.what = "a name occurs twice", .got = str("\"", name, "\"")});
}

std::vector<TensorMap::Entry>::const_iterator TensorMap::find(std::string_view name) const {
  if (!positions_) return end();
  const auto at = positions_->find(name);
  return at == positions_->end() ? end() : begin() + static_cast<std::ptrdiff_t>(at->second);
}

const Tensor& TensorMap::at(std::string_view name) const {
  const auto found = find(name);
  if (found == end()) refuse_unknown(name, *this);
  return found->second;
}

Tensor& TensorMap::operator[](std::string_view name) {
  if (!positions_) positions_.reset(new Positions);
  if (const auto at = positions_->find(name); at != positions_->end())
    return entries_[at->second].second;
  entries_.emplace_back(name, Tensor{});
  try {
    positions_->emplace(name, entries_.size() - 1);
  } catch (...) {
    entries_.pop_back();
    throw;
  }
  return entries_.back().second;
}

std::size_t TensorMap::erase(std::string_view name) {
  const auto found = find(name);
  if (found == end()) return 0;
  erase(found);
  return 1;
}

void TensorMap::erase(std::vector<Entry>::const_iterator entry) {
  const auto position = static_cast<std::size_t>(entry - entries_.cbegin());
  positions_->erase(positions_->find(entry->first));
  entries_.erase(entry);
  for (auto& [other, at] : *positions_) at -= at > position ? 1 : 0;
}

std::vector<std::string> TensorMap::names() const {
  std::vector<std::string> out;
  for (const Entry& entry : entries_) out.push_back(entry.first);
  return out;
}

StateDict::StateDict() : numbers() {}
StateDict::StateDict(const StateDict& other) : tensors(other.tensors), numbers(other.numbers) {}
StateDict::StateDict(StateDict&& other) noexcept
    : tensors(std::move(other.tensors)), numbers(std::move(other.numbers)) {}
StateDict& StateDict::operator=(const StateDict& other) { return *this = StateDict(other); }
StateDict& StateDict::operator=(StateDict&& other) noexcept {
  tensors = std::move(other.tensors);
  numbers = std::move(other.numbers);
  return *this;
}
StateDict::~StateDict() { std::destroy_at(&numbers); }
StateDict::StateDict(std::vector<Entry> entries) : tensors(std::move(entries)), numbers() {}
StateDict::StateDict(std::initializer_list<Entry> entries)
    : StateDict(std::vector<Entry>(entries)) {}

Tensor StateDict::find(std::string_view name) const {
  const auto found = tensors.find(name);
  return found == tensors.end() ? Tensor{} : found->second;
}

Tensor StateDict::operator[](std::string_view name) const {
  Tensor found = find(name);
  if (!found.defined()) refuse_unknown(name, tensors);
  return found;
}

}  // namespace mezzo
