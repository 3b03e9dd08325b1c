// The CUDA kernels of the optimizer updates, and of the end of checks that no update does, with the
// code that the CPU uses.
#include "updates.h"

#include <algorithm>

#include "../attach.h"
#include "elementwise.h"

namespace mezzo::gpu {

namespace {

/** Flags that one launch raises; null: none. */
struct RaisedFlags {
  static constexpr std::size_t kMost = 8;
  optim::NonfiniteWord* flags[kMost] = {};
};

__global__ void __launch_bounds__(1) step_end_kernel(const optim::StepEnd __grid_constant__ end,
                                                     const RaisedFlags __grid_constant__ raised) {
  for (optim::NonfiniteWord* const flag : raised.flags)
    if (flag) end.raise(flag);
  end.run();
}

/** A gradient times the inverse root of its second moment, as Adafactor has it. */
struct FactoredRoot {
  static constexpr OpTraits traits{
      .name = "factored_root", .precision = Precision::f32, .summary = "", .inputs = 4};
  struct Attrs {
    double eps;
  };
  template <class V> MZ_HD static V at_least(const V& x, const V& low) { return x < low ? low : x; }
  template <class V>
  MZ_HD static V forward(const V& g, const V& row, const V& column, const V& mean,
                         const Attrs& attrs) {
    const V moment = row * column / at_least(mean, static_cast<V>(attrs.eps));
    return g * math::rsqrt(at_least(moment, static_cast<V>(attrs.eps * attrs.eps)));
  }
};

}  // namespace

void factored_root(Tensor grad, const Tensor& rows, const Tensor& columns, const Tensor& mean,
                   double eps) {
  constexpr MapFns fns{.f32 = &launch_forward<FactoredRoot, float>,
                       .f64 = &launch_forward<FactoredRoot, double>,
                       .packed = &launch_packed_forward<FactoredRoot>};
  const Tensor in[] = {grad, rows, columns, mean};
  const FactoredRoot::Attrs attrs{eps};
  map_elements(fns, grad.dtype(), in, {&grad, 1}, &attrs);
}

void attach_updates() {
#define MZ_ATTACH(Update) attach_update<optim::Update>();
  MZ_FOR_EACH_UPDATE(MZ_ATTACH)
#undef MZ_ATTACH
  optim::end_kernel(DeviceKind::cuda) =
      [](const optim::StepEnd& end, std::span<optim::NonfiniteWord* const> raised, Device device) {
        do {  // the last launch does the end
          RaisedFlags some;
          const std::size_t count = std::min(raised.size(), RaisedFlags::kMost);
          std::copy_n(raised.begin(), count, some.flags);
          raised = raised.subspan(count);
          launch(&step_end_kernel, {.threads = 1}, current_stream(device),
                 raised.empty() ? end : optim::StepEnd{.found_inf = end.found_inf}, some);
        } while (!raised.empty());
      };
}

}  // namespace mezzo::gpu
