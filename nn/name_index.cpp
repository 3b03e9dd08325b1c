#include "name_index.h"

#include <string>
#include <unordered_map>

namespace mezzo::nn::detail {

struct NameIndex::Entries : std::unordered_map<std::string, Entry, NameHash, std::equal_to<>> {};

NameIndex::NameIndex() : entries_(new Entries) {}
NameIndex::~NameIndex() = default;

const NameIndex::Entry* NameIndex::find(std::string_view name) const {
  const auto it = entries_->find(name);
  return it == entries_->end() ? nullptr : &it->second;
}

const std::size_t* NameIndex::find(NameKind kind, std::string_view name) const {
  const Entry* entry = find(name);
  return entry && entry->kind == kind ? &entry->index : nullptr;
}

void NameIndex::add(std::string_view name, NameKind kind, std::size_t index) {
  entries_->emplace(name, Entry{kind, index});
}

void NameIndex::erase(std::string_view name) { entries_->erase(entries_->find(name)); }

}  // namespace mezzo::nn::detail
