#include "sequential.h"

#include "../tensor/near_names.h"
#include "../tensor/text.h"

namespace mezzo::nn {

Sequential::Sequential() : calls_(std::make_shared<std::vector<std::unique_ptr<Call>>>()) {}

Tensor Sequential::forward(const Tensor& x) const {
  Tensor y = x;
  for (const std::unique_ptr<Call>& call : *calls_) y = (*call)(y);
  return y;
}

std::size_t Sequential::size() const { return calls_->size(); }

Module Sequential::operator[](std::int64_t index) const {
  if (index < 0 || index >= static_cast<std::int64_t>(size()))
    fail<IndexError>("Sequential", {.what = "no such member",
                                    .got = str(index),
                                    .expected = str("0..", static_cast<std::int64_t>(size()) - 1)});
  return state().children[static_cast<std::size_t>(index)].module;
}

std::string Sequential::next_name() const { return str(size()); }
void Sequential::append(std::unique_ptr<Call> call) { calls_->push_back(std::move(call)); }

void detail::refuse_member(const Module& module, std::string_view name) {
  std::vector<std::string> names;
  for (const NamedModule& child : module.children()) names.push_back(child.name);
  fail<ValueError>(module.kind(), {.what = "there is no member of this name",
                                   .got = str("\"", name, "\""),
                                   .hint = did_you_mean(name, names)});
}

}  // namespace mezzo::nn
