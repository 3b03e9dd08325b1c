#include "state_dict.h"

#include <algorithm>
#include <unordered_set>

#include "../tensor/near_names.h"
#include "../tensor/text.h"

namespace mezzo::nn {

StateDict::StateDict(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::unordered_set<std::string_view> seen;
  for (const Entry& entry : entries_)
    if (!seen.insert(entry.first).second)
      fail<ValueError>("StateDict", {.what = "a name occurs twice", .got = str("\"", entry.first, "\"")});
}

StateDict::StateDict(std::initializer_list<Entry> entries) : StateDict(std::vector<Entry>(entries)) {}

void StateDict::set(std::string_view name, const Tensor& value) {
  for (Entry& entry : entries_)
    if (entry.first == name) {
      entry.second = value;
      return;
    }
  entries_.emplace_back(name, value);
}

bool StateDict::erase(std::string_view name) {
  return std::erase_if(entries_, [&](const Entry& entry) { return entry.first == name; }) > 0;
}

Tensor StateDict::find(std::string_view name) const {
  for (const Entry& entry : entries_)
    if (entry.first == name) return entry.second;
  return {};
}

Tensor StateDict::operator[](std::string_view name) const {
  Tensor found = find(name);
  if (!found.defined())
    fail<ValueError>(
        "StateDict",
        {.what = "no entry of this name", .got = str("\"", name, "\""), .hint = did_you_mean(name, names())});
  return found;
}

std::vector<std::string> StateDict::names() const {
  std::vector<std::string> out;
  for (const Entry& entry : entries_) out.push_back(entry.first);
  return out;
}

}  // namespace mezzo::nn
