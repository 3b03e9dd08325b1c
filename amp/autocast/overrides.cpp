#include "overrides.h"

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "../../tensor/core/error.h"
#include "../../tensor/core/guard_list.h"
#include "../../tensor/core/registry.h"
#include "../../tensor/text/did_you_mean.h"
#include "../../tensor/text/text.h"

namespace mezzo::amp {

namespace {

/** The registrations of the process. `count` lets an op skip the lock when there are none, the
 *  usual case. */
struct Registrations {
  std::atomic<int> count{0};
  std::mutex mutex;
  std::map<const OpInfo*, Precision> tags;
};

Registrations& registrations() {
  static Registrations instance;
  return instance;
}

thread_local policy_override* innermost = nullptr;

const OpInfo& public_op(std::string_view function, std::string_view name) {
  const OpInfo* op = find_op(name);
  if (op && !op->traits.internal) return *op;
  std::vector<std::string> names;
  for (const OpInfo* known : all_ops())
    if (!known->traits.internal) names.emplace_back(known->traits.name);
  fail<ValueError>(function, {.what = "there is no op of this name",
                              .got = str("\"", name, "\""),
                              .expected = "the name of a public op",
                              .hint = did_you_mean(name, names)});
}

void register_tag(std::string_view function, std::string_view name, Precision tag) {
  const OpInfo& op = public_op(function, name);
  Registrations& all = registrations();
  const std::lock_guard lock(all.mutex);
  all.tags.insert_or_assign(&op, tag);
  all.count = static_cast<int>(all.tags.size());
}

}  // namespace

void register_half_function(std::string_view op) {
  register_tag("amp::register_half_function", op, Precision::low);
}

void register_float_function(std::string_view op) {
  register_tag("amp::register_float_function", op, Precision::f32);
}

void register_promote_function(std::string_view op) {
  register_tag("amp::register_promote_function", op, Precision::promote);
}

void clear_registration(std::string_view op) {
  const OpInfo& info = public_op("amp::clear_registration", op);
  Registrations& all = registrations();
  const std::lock_guard lock(all.mutex);
  all.tags.erase(&info);
  all.count = static_cast<int>(all.tags.size());
}

policy_override::policy_override(std::initializer_list<std::pair<std::string_view, Precision>> tags)
    : outer_(innermost) {
  for (const auto& [name, tag] : tags)
    tags_.emplace_back(&public_op("amp::policy_override", name), tag);
  innermost = this;
}

policy_override::~policy_override() {
  close_guard(innermost, *this, &policy_override::outer_,
              "policy_override: guards must close in reverse order of opening");
}

std::shared_ptr<const OverriddenTags> OverriddenTags::here() {
  if (!innermost) return nullptr;
  const auto recorded = std::make_shared<OverriddenTags>();
  for (const policy_override* scope = innermost; scope; scope = scope->outer_) {
    recorded->tags.insert(recorded->tags.end(), scope->tags_.begin(), scope->tags_.end());
    if (scope->replaces_outer_) break;
  }
  return recorded;
}

std::unique_ptr<policy_override> OverriddenTags::restore(const OverriddenTags* recorded) {
  if (!recorded && !innermost) return nullptr;
  auto scope = std::make_unique<policy_override>(
      std::initializer_list<std::pair<std::string_view, Precision>>{});
  if (recorded) scope->tags_ = recorded->tags;
  scope->replaces_outer_ = true;
  return scope;
}

Precision effective_tag(const OpInfo& op) {
  for (const policy_override* scope = innermost; scope; scope = scope->outer_) {
    for (const auto& [named, tag] : scope->tags_)
      if (named == &op) return tag;
    if (scope->replaces_outer_) break;
  }
  Registrations& all = registrations();
  if (all.count.load(std::memory_order_acquire) == 0) return op.traits.precision;
  const std::lock_guard lock(all.mutex);
  const auto found = all.tags.find(&op);
  return found == all.tags.end() ? Precision(op.traits.precision) : found->second;
}

}  // namespace mezzo::amp
