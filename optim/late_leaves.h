// Late leaves: parameters that joined a net after optimizers were made, which may not know them.
// nn/ records them, optimizers look for them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../tensor/core/tensor.h"

namespace mezzo {

/** A parameter that joined a net. */
struct LateLeaf {
  std::string name;       // as the net calls it, such as "head.weight"
  Tensor leaf;            // the parameter
  std::string_view call;  // how it joined: "add", "add_parameter" or "replace"
};

/** Counts an optimizer as a holder of leaves. Errors: OutOfMemory; nothing has changed then. */
MZ_API void hold_leaves(std::span<const Tensor> leaves);
/** Ends what hold_leaves() has begun. */
MZ_API void release_leaves(std::span<const Tensor> leaves) noexcept;
/** Returns true if an optimizer holds a leaf; without one, if any leaf is held. */
MZ_API bool is_held(const Tensor& leaf = {});

/** Records that leaves joined the net that has the `earlier` ones, or had them until replace().
 *  Does nothing if no optimizer holds an earlier one. */
MZ_API void record_late_leaves(std::span<const Tensor> earlier, std::span<const LateLeaf> late);
/** Returns true if leaves are recorded; costs one load. */
MZ_API bool late_leaves_exist() noexcept;
/** Returns the recorded leaves that no optimizer holds, and whose net has or had an earlier leaf
 *  that `holds` accepts. Forgets all others that are held or gone. */
MZ_API std::vector<LateLeaf> late_leaves(const std::function<bool(const Tensor&)>& holds);

}  // namespace mezzo
