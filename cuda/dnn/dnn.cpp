#include "dnn.h"

#include <mutex>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "../../tensor/core/numerics.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/text/text.h"
#include "../blas/key.h"
#include "../library_fallback.h"
#include "../runtime/device.h"
#include "../stopwatch.h"
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

std::string text_of(const Attention& a) { return a.text(); }

/** The plans of a device by problem. */
class DeviceState {
 public:
  explicit DeviceState(Device device) : device_(device) {}

  template <class Problem>
  bool run(const Problem& problem, runtime::Stream stream, const ProofTerms& terms,
           const ResultPairs& pairs) {
    const std::lock_guard lock(mutex_);
    Entry& entry = plans_[key_of(problem)];
    bool searches = std::is_same_v<Problem, Convolution> && search_products() &&
                    !Capture::current() && !entry.searched;
    if (searches) entry.plans.choose_again();
    return entry.plans.run(
        terms,
        [&](int first) {
          std::optional<Choice> found;
          if (std::exchange(searches, false)) {
            entry.searched = true;
            found = fastest_plan(problem, stream);
          }
          return found ? found : find_plan(problem, device_, first);
        },
        [&](const Choice& choice) { execute(*choice.plan, problem, device_, stream); },
        [&] { return text_of(problem); }, pairs);
  }

 private:
  struct Entry {
    LibraryAlgorithms<Choice> plans;
    bool searched = false;
  };

  /** Times the plans of a problem on its operands and returns the fastest. The results are written
   *  again and again. */
  template <class Problem>
  std::optional<Choice> fastest_plan(const Problem& problem, runtime::Stream stream) {
    constexpr int kCandidates = 16;
    std::vector<Choice> all;
    for (int first = 0; first < kCandidates;) {
      std::optional<Choice> found = find_plan(problem, device_, first);
      if (!found || (found->last_resort && !all.empty())) break;
      first = found->index + 1;
      all.push_back(std::move(*found));
    }
    auto best = gpu::fastest(all, "cuDNN", stream, [&](const Choice& choice, int times) {
      for (int i = 0; i < times; ++i) execute(*choice.plan, problem, device_, stream);
    });
    if (best) best->index = -1;
    return best;
  }

  Device device_;
  std::mutex mutex_;
  std::unordered_map<Key, Entry, KeyHash> plans_;
};

}  // namespace

bool convolve(const Convolution& c, Device device, runtime::Stream stream,
              const ResultPairs& pairs) {
  return takes(c) && per_device<DeviceState>(device, device)
                         .run(c, stream, {"cuDNN", proof_tolerance(c.x.dtype)}, pairs);
}

bool attend(const Attention& a, Device device, runtime::Stream stream) {
  return takes(a) && per_device<DeviceState>(device, device).run(a, stream, {"cuDNN", 0}, {});
}

std::string Attention::text() const {
  return str(wanted == Wanted::y ? "attention of " : "gradients of attention of ", dtype, ' ',
             Shape{entries, heads, queries, features}, " and ", keys, " keys",
             is_causal ? ", causal" : "", bias.exists() ? ", with a mask" : "",
             drops ? ", with dropout" : "");
}

}  // namespace mezzo::gpu::dnn
