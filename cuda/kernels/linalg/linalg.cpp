// The ops on matrices on the device: operands are copied to the host, the CPU kernels compute, and
// results are copied back.
#include "../../../tensor/ops/linalg/linalg.h"

#include <mutex>
#include <set>

#include "../../../tensor/core/dispatch.h"
#include "../../../tensor/core/error.h"
#include "../../../tensor/text/log.h"
#include "../../../tensor/text/text.h"
#include "../../attach.h"

namespace mezzo::gpu {

namespace {

/** Logs once for each op that it does not run on the device. */
void log_first_call(const OpInfo& info) {
  static std::mutex mutex;
  static std::set<const OpInfo*> logged;
  const std::lock_guard lock(mutex);
  if (!logged.insert(&info).second) return;
  log_text(Severity::info, str(ApiScope::outermost(info.traits.name),
                               " runs on the CPU: matrices are copied there and back, because this "
                               "build has no cuSOLVER"));
}

void on_host(const OpInfo& info, Inputs in, Outputs out, const void* attrs) {
  const NoGradNoCasts plain_copies;
  std::vector<Tensor> operands, results;
  for (const Tensor& x : in) operands.push_back(x.detach().to(cpu));
  log_first_call(info);
  for (const Tensor& y : out) results.push_back(empty_tensor(y.shape(), y.dtype(), cpu));
  info.kernel[static_cast<std::size_t>(DeviceKind::cpu)](info, operands, results, attrs);
  for (std::size_t i = 0; i < out.size(); ++i) out[i].copy_(results[i]);
}

template <class... Ops> void attach_each(type_list<Ops...>) {
  ((kernel_slot<Ops>() = on_host), ...);
}

}  // namespace

void attach_linalg() { attach_each(op::LinalgKernelOps{}); }

}  // namespace mezzo::gpu
