#include "state_dict.h"

#include <unordered_map>

#include "../tensor/text/did_you_mean.h"
#include "../tensor/text/text.h"
#include "name_index.h"

namespace mezzo::nn {

/** The position of each name in the list of entries. */
struct StateDict::Positions {
  std::unordered_map<std::string, std::size_t, detail::NameHash, std::equal_to<>> map;

  /** Returns the position of a name, or null if it is unknown. */
  const std::size_t* find(std::string_view name) const {
    const auto it = map.find(name);
    return it == map.end() ? nullptr : &it->second;
  }
};

StateDict::StateDict() = default;
StateDict::StateDict(const StateDict& other)
    : entries_(other.entries_),
      positions_(other.positions_ ? new Positions(*other.positions_) : nullptr) {}
StateDict::StateDict(StateDict&&) noexcept = default;
StateDict& StateDict::operator=(const StateDict& other) { return *this = StateDict(other); }
StateDict& StateDict::operator=(StateDict&&) noexcept = default;
StateDict::~StateDict() = default;

StateDict::Positions& StateDict::positions() {
  if (!positions_) positions_.reset(new Positions);
  return *positions_;
}

StateDict::StateDict(std::vector<Entry> entries) : entries_(std::move(entries)) {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (const std::string& name = entries_[i].first; !positions().map.emplace(name, i).second)
      fail<ValueError>("StateDict", {.what = "a name occurs twice", .got = str("\"", name, "\"")});
}

StateDict::StateDict(std::initializer_list<Entry> entries)
    : StateDict(std::vector<Entry>(entries)) {}

void StateDict::set(std::string_view name, const Tensor& value) {
  if (const std::size_t* at = positions().find(name)) {
    entries_[*at].second = value;
    return;
  }
  entries_.emplace_back(name, value);
  try {
    positions_->map.emplace(name, entries_.size() - 1);
  } catch (...) {
    entries_.pop_back();
    throw;
  }
}

bool StateDict::erase(std::string_view name) {
  auto& map = positions().map;
  const auto it = map.find(name);
  if (it == map.end()) return false;
  const std::size_t position = it->second;
  map.erase(it);
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(position));
  for (auto& [other, at] : map) at -= at > position;
  return true;
}

Tensor StateDict::find(std::string_view name) const {
  const std::size_t* at = positions_ ? positions_->find(name) : nullptr;
  return at ? entries_[*at].second : Tensor{};
}

Tensor StateDict::operator[](std::string_view name) const {
  Tensor found = find(name);
  if (!found.defined())
    fail<ValueError>("StateDict", {.what = "no entry of this name",
                                   .got = str("\"", name, "\""),
                                   .hint = did_you_mean(name, names())});
  return found;
}

std::vector<std::string> StateDict::names() const {
  std::vector<std::string> out;
  for (const Entry& entry : entries_) out.push_back(entry.first);
  return out;
}

}  // namespace mezzo::nn
