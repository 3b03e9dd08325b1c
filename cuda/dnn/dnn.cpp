#include "dnn.h"

#include <mutex>
#include <unordered_map>

#include "../../tensor/core/numerics.h"
#include "../../tensor/text/text.h"
#include "../blas/key.h"
#include "../library_fallback.h"
#include "../runtime/per_device.h"
#include "calls.h"

namespace mezzo::gpu::dnn {

namespace {

/** Everything that a plan depends on. */
using Key = std::vector<std::int64_t>;

Key key_of(const Convolution& c) {
  const op::ConvGeometry& g = c.geometry;
  Key key{static_cast<std::int64_t>(c.x.dtype),
          static_cast<std::int64_t>(c.wanted),
          c.dims,
          static_cast<std::int64_t>(c.format),
          c.x.batch,
          c.x.channels,
          c.y.channels,
          g.groups,
          c.bias ? 1 : 0,
          allow_tf32() ? 1 : 0,
          allow_nondeterministic() ? 1 : 0};
  for (const op::Extent& extent : {g.in, g.out, g.kernel, g.stride, g.dilation, g.pad})
    key.insert(key.end(), extent.begin(), extent.end());
  for (const void* data : {c.x.data, c.y.data, c.weight, c.bias}) key.push_back(alignment(data));
  return key;
}

Key key_of(const Attention& a) { return a.kind(); }

std::string text_of(const Convolution& c) {
  constexpr const char* kWanted[] = {"convolution", "input gradient of the convolution",
                                     "weight gradient of the convolution"};
  const op::ConvGeometry& g = c.geometry;
  return str("the ", kWanted[static_cast<std::size_t>(c.wanted)], " of ", c.x.dtype, ' ',
             Shape{c.x.batch, c.x.channels, g.in[0], g.in[1], g.in[2]}, " with ", c.y.channels,
             " kernels ", Shape{g.kernel[0], g.kernel[1], g.kernel[2]}, c.bias ? " and a bias" : "",
             ", ", name(c.format));
}

std::string text_of(const Attention& a) {
  return str(a.wanted == Attention::Wanted::y ? "attention of " : "gradients of attention of ",
             a.dtype, ' ', Shape{a.entries, a.heads, a.queries, a.features}, " and ", a.keys,
             " keys");
}

/** The plans of a device by problem. */
class DeviceState {
 public:
  explicit DeviceState(Device device) : device_(device) {}

  template <class Problem> bool run(const Problem& problem, runtime::Stream stream) {
    const std::lock_guard lock(mutex_);
    return plans_[key_of(problem)].run(
        "cuDNN", [&](int first) { return find_plan(problem, device_, first); },
        [&](const Choice& choice) { execute(*choice.plan, problem, device_, stream); },
        [&] { return text_of(problem); });
  }

 private:
  Device device_;
  std::mutex mutex_;
  std::unordered_map<Key, LibraryAlgorithms<Choice>, KeyHash> plans_;
};

}  // namespace

bool convolve(const Convolution& c, Device device, runtime::Stream stream) {
  return takes(c) && per_device<DeviceState>(device, device).run(c, stream);
}

bool attend(const Attention& a, Device device, runtime::Stream stream) {
  return takes(a) && per_device<DeviceState>(device, device).run(a, stream);
}

}  // namespace mezzo::gpu::dnn
