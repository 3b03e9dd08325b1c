#include "state_dict.h"

#include "../tensor/text/did_you_mean.h"
#include "../tensor/text/text.h"

namespace mezzo::nn {

StateDict::StateDict(std::vector<Entry> entries) : entries_(std::move(entries)) {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (const std::string& name = entries_[i].first; !positions_.emplace(name, i).second)
      fail<ValueError>("StateDict", {.what = "a name occurs twice", .got = str("\"", name, "\"")});
}

StateDict::StateDict(std::initializer_list<Entry> entries)
    : StateDict(std::vector<Entry>(entries)) {}

void StateDict::set(std::string_view name, const Tensor& value) {
  if (const auto it = positions_.find(name); it != positions_.end()) {
    entries_[it->second].second = value;
    return;
  }
  entries_.emplace_back(name, value);
  try {
    positions_.emplace(name, entries_.size() - 1);
  } catch (...) {
    entries_.pop_back();
    throw;
  }
}

bool StateDict::erase(std::string_view name) {
  const auto it = positions_.find(name);
  if (it == positions_.end()) return false;
  const std::size_t position = it->second;
  positions_.erase(it);
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(position));
  for (auto& [other, at] : positions_) at -= at > position;
  return true;
}

Tensor StateDict::find(std::string_view name) const {
  const auto it = positions_.find(name);
  return it == positions_.end() ? Tensor{} : entries_[it->second].second;
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
