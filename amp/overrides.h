// Other precision tags for ops than their own: for the whole process, or for a scope on one thread.
// Sees: tensor/op.h.
// Read next: casting.cpp (who asks), functions.h (the same for a program's own callables).
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "../tensor/op.h"

namespace mezzo::amp {

/** From now on, wherever casts are active, the op of this name casts its floating inputs to the 16-bit type, whatever its own tag says; in the whole
 *  process, until clear_registration. The last registration wins. Errors: ValueError for a name that no public op has. */
MZ_API void register_half_function(std::string_view op);
/** The same with casts to f32. */
MZ_API void register_float_function(std::string_view op);
/** The same with casts to the widest dtype among its floating inputs. */
MZ_API void register_promote_function(std::string_view op);
/** Gives the op its own tag back; harmless where there was no registration. Errors: ValueError for a name that no public op has. */
MZ_API void clear_registration(std::string_view op);

/** Other tags for some ops on this thread until the end of the scope; an inner override wins over an outer one, any over registrations.
 *    const amp::policy_override lenient{{"layer_norm", Precision::match}, {"binary_cross_entropy", Precision::full}};
 *  Scopes close in reverse order of opening. Errors: ValueError for a name that no public op has. */
class MZ_API policy_override {
 public:
  policy_override(std::initializer_list<std::pair<std::string_view, Precision>> tags);
  ~policy_override();
  policy_override(const policy_override&) = delete;
  policy_override& operator=(const policy_override&) = delete;

 private:
  friend MZ_API Precision effective_tag(const OpRow& row);
  std::vector<std::pair<const OpRow*, Precision>> tags_;
  policy_override* outer_;
};

/** The tag that counts for an op on this thread now: of the innermost override that names it, else registered, else its own. */
MZ_API Precision effective_tag(const OpRow& row);

}  // namespace mezzo::amp
