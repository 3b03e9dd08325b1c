#include "overrides.h"

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "../tensor/error.h"
#include "../tensor/guard_list.h"
#include "../tensor/near_names.h"
#include "../tensor/registry.h"
#include "../tensor/text.h"

namespace mezzo::amp {

namespace {

/** The registrations of the process. Ops ask for them all the time, and hardly ever is there one: then the count answers. */
struct Registrations {
  std::atomic<int> count{0};
  std::mutex mutex;
  std::map<const OpRow*, Precision> tags;
};

Registrations& registrations() {
  static Registrations instance;
  return instance;
}

thread_local policy_override* innermost = nullptr;

const OpRow& public_op(std::string_view function, std::string_view name) {
  const OpRow* row = find_op(name);
  if (row && !row->traits.internal) return *row;
  std::vector<std::string> names;
  for (const OpRow* known : all_ops())
    if (!known->traits.internal) names.emplace_back(known->traits.name);
  fail<ValueError>(function, {.what = "there is no op of this name",
                              .got = str("\"", name, "\""),
                              .expected = "the name of a public op",
                              .hint = did_you_mean(name, names)});
}

void register_tag(std::string_view function, std::string_view name, Precision tag) {
  const OpRow& row = public_op(function, name);
  Registrations& all = registrations();
  const std::lock_guard lock(all.mutex);
  all.tags.insert_or_assign(&row, tag);
  all.count = static_cast<int>(all.tags.size());
}

}  // namespace

void register_half_function(std::string_view op) {
  register_tag("amp::register_half_function", op, Precision::low);
}

void register_float_function(std::string_view op) {
  register_tag("amp::register_float_function", op, Precision::full);
}

void register_promote_function(std::string_view op) {
  register_tag("amp::register_promote_function", op, Precision::widest);
}

void clear_registration(std::string_view op) {
  const OpRow& row = public_op("amp::clear_registration", op);
  Registrations& all = registrations();
  const std::lock_guard lock(all.mutex);
  all.tags.erase(&row);
  all.count = static_cast<int>(all.tags.size());
}

policy_override::policy_override(std::initializer_list<std::pair<std::string_view, Precision>> tags)
    : outer_(innermost) {
  for (const auto& [name, tag] : tags) tags_.emplace_back(&public_op("amp::policy_override", name), tag);
  innermost = this;
}

policy_override::~policy_override() {
  close_guard(innermost, *this, &policy_override::outer_,
              "policy_override: guards must close in reverse order of opening");
}

Precision effective_tag(const OpRow& row) {
  for (const policy_override* scope = innermost; scope; scope = scope->outer_)
    for (const auto& [named, tag] : scope->tags_)
      if (named == &row) return tag;
  Registrations& all = registrations();
  if (all.count.load(std::memory_order_acquire) == 0) return row.traits.precision;
  const std::lock_guard lock(all.mutex);
  const auto found = all.tags.find(&row);
  return found == all.tags.end() ? Precision(row.traits.precision) : found->second;
}

}  // namespace mezzo::amp
