// Overrides of the ops' precision tags: for the whole process, or for a scope on one thread.
#pragma once

#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "../../tensor/core/op.h"

namespace mezzo::amp {

/** Makes the op of this name cast its floating-point inputs to the 16-bit type wherever casts are
 *  active, whatever its own tag says. Holds for the whole process until clear_registration; the
 *  last registration wins. Errors: ValueError if no public op has that name. */
MZ_API void register_half_function(std::string_view op);
/** Like register_half_function, with casts to f32. */
MZ_API void register_float_function(std::string_view op);
/** Like register_half_function, with casts to the widest dtype among its floating-point inputs. */
MZ_API void register_promote_function(std::string_view op);
/** Removes the op's registration, if it has one. Errors: ValueError if no public op has that
 *  name. */
MZ_API void clear_registration(std::string_view op);

/** Overrides the tags of some ops on this thread until the end of the scope. An inner override
 *  takes precedence over an outer one, and any override over registrations. Scopes close in
 *  reverse order of opening.
 *    const amp::policy_override lenient{{"layer_norm", Precision::match},
 *                                       {"binary_cross_entropy", Precision::f32}};
 *  Errors: ValueError for a name that no public op has. */
class MZ_API policy_override {
 public:
  /** Opens the scope with pairs of an op's name and its tag. If a name is repeated, its first tag
   *  holds. */
  policy_override(std::initializer_list<std::pair<std::string_view, Precision>> tags);
  ~policy_override();
  policy_override(const policy_override&) = delete;
  policy_override& operator=(const policy_override&) = delete;

 private:
  friend MZ_API Precision effective_tag(const OpInfo& op);
  friend struct OverriddenTags;
  std::vector<std::pair<const OpInfo*, Precision>> tags_;
  bool replaces_outer_ = false;  // outer overrides do not hold
  policy_override* outer_;
};

/** The overrides of a thread at one time, for a computation that runs again later. */
struct MZ_API OverriddenTags {
  std::vector<std::pair<const OpInfo*, Precision>> tags;  // those of inner scopes first

  /** Returns the overrides of the calling thread; null if there are none. */
  static std::shared_ptr<const OverriddenTags> here();
  /** Opens a scope in which just these overrides hold; none for null. Returns null if that is so
   *  already. */
  static std::unique_ptr<policy_override> restore(const OverriddenTags* recorded);
};

/** Returns the tag in force for an op on this thread: that of the innermost override that names
 *  it, else the registered one, else its own. */
MZ_API Precision effective_tag(const OpInfo& op);

}  // namespace mezzo::amp
