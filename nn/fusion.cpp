#include "fusion.h"

#include <algorithm>
#include <array>

#include "../tensor/core/dispatch.h"
#include "../tensor/core/registry.h"

namespace mezzo::nn::detail {

namespace {

/** Returns true if no trace reads the ops' results and none of the ops has an overridden precision
 *  tag. */
template <std::size_t count> bool is_unobservable(const std::array<const OpInfo*, count>& ops) {
  const ThreadHooks& hooks = thread_hooks();
  if (needs_single_ops()) return false;
  return !hooks.cast || std::all_of(ops.begin(), ops.end(),
                                    [&](const OpInfo* op) { return hooks.cast->keeps_tag(*op); });
}

}  // namespace

bool mlp_may_fuse() {
  static const std::array<const OpInfo*, 3> ops{find_op("linear"), find_op("mlp"), find_op("relu")};
  return is_unobservable(ops);
}

bool batch_norm_relu_may_fuse() {
  static const std::array<const OpInfo*, 4> ops{find_op("add"), find_op("batch_norm"),
                                                find_op("batch_norm_relu"), find_op("relu")};
  return is_unobservable(ops);
}

bool add_layer_norm_may_fuse() {
  static const std::array<const OpInfo*, 3> ops{find_op("add"), find_op("add_layer_norm"),
                                                find_op("layer_norm")};
  return is_unobservable(ops);
}

bool self_attention_may_fuse() {
  static const std::array<const OpInfo*, 2> ops{find_op("scaled_dot_product_attention"),
                                                find_op("self_attention")};
  return is_unobservable(ops);
}

}  // namespace mezzo::nn::detail
