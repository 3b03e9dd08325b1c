#include "joining.h"

#include <algorithm>
#include <array>

#include "../tensor/dispatch.h"
#include "../tensor/registry.h"

namespace mezzo::nn::detail {

namespace {

template <std::size_t count> bool hidden(const std::array<const OpRow*, count>& rows) {
  const ThreadHooks& hooks = thread_hooks();
  if (hooks.trace) return false;
  return !hooks.cast ||
         std::all_of(rows.begin(), rows.end(), [&](const OpRow* row) { return hooks.cast->keeps_tag(*row); });
}

}  // namespace

bool mlp_may_join() {
  static const std::array<const OpRow*, 3> rows{find_op("linear"), find_op("mlp"), find_op("relu")};
  return hidden(rows);
}

bool batch_norm_relu_may_join() {
  static const std::array<const OpRow*, 4> rows{find_op("add"), find_op("batch_norm"),
                                                find_op("batch_norm_relu"), find_op("relu")};
  return hidden(rows);
}

}  // namespace mezzo::nn::detail
