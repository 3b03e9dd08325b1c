// The comparison of cuDNN's recurrent layers with Mezzo's own kernels.
//
// Wrong results need not be obvious: parameters at the wrong offset, or a NaN that a comparison
// drops and so hides from the loss scaler, give plausible numbers. A layer of the same kind and
// sizes but with few steps is therefore run both ways once.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "../../tensor/core/numerics.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/memory/transfer.h"
#include "../../tensor/random/philox.h"
#include "../../tensor/text/text.h"
#include "../attach.h"
#include "../library_fallback.h"
#include "recurrent.h"
#include "recurrent_library.h"

namespace mezzo::gpu {

namespace {

using op::CellKind;
using Backward = op::RecurrentLayerBackward;

constexpr std::int64_t kSteps = 3;
/** Forward results that are compared: y and the last states. The saved data is specific to each
 *  backend. */
constexpr std::size_t kForwardResults = 3;

/** Returns the largest difference of correct results relative to the largest number: some roundings
 *  of the dtype. Wrong results differ by the order of 1. */
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x1p-7;
    case DType::bf16: return 0x1p-4;
    case DType::f64: return 1e-12;
    case DType::f32:
    case DType::boolean:
    case DType::u8:
    case DType::i32:
    case DType::i64: break;  // the library takes floating dtypes only
  }
  return allow_tf32() ? 0x1p-7 : 1e-5;
}

/** A small layer of a kind, run both ways. */
template <class C> class Comparison {
 public:
  Comparison(const dnn::Recurrent& kind, Device device)
      : layer_(kind), device_(device), stream_(current_stream(device)) {
    layer_.steps = kSteps;
    layer_.training = true;
    attrs_ = {.kind = layer_.kind};
    if (!layer_.lengths.empty())
      for (std::int64_t i = 0; i < layer_.batch; ++i) attrs_.lengths.push_back(1 + i % kSteps);
    layer_.lengths.assign(attrs_.lengths.begin(), attrs_.lengths.end());
    const std::int64_t columns = op::gates_of(layer_.kind) * layer_.hidden;
    const double spread = 1 / std::sqrt(static_cast<double>(layer_.hidden));
    forward_ = {random({kSteps, layer_.batch, layer_.features}, 1),
                random({layer_.batch, layer_.size}, 1),
                is_lstm() ? random({layer_.batch, layer_.hidden}, 1) : Tensor{},
                random({columns, layer_.features}, spread),
                random({columns, layer_.size}, spread),
                random({columns}, spread),
                random({columns}, spread),
                projects() ? random({layer_.size, layer_.hidden}, spread) : Tensor{}};
  }

  bool agree() {
    const OutSpecs specs = op::RecurrentLayer::infer(forward_, attrs_);
    std::array<Tensor, 4> ours = results(specs), theirs = results(specs);
    recurrent_by_kernels(forward_, ours, attrs_);
    if (!run_by_library(layer_, forward_, theirs, attrs_)) return false;
    for (std::size_t i = 0; i < kForwardResults; ++i)
      if (!close(ours[i], theirs[i])) return false;
    return gradients_agree(ours, theirs) && nan_comes_through();
  }

 private:
  bool is_lstm() const { return layer_.kind == CellKind::lstm; }
  bool projects() const { return layer_.size != layer_.hidden; }

  std::array<Tensor, 4> results(const OutSpecs& specs) const {
    std::array<Tensor, 4> all;
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = work_tensor(specs.items[i].shape, specs.items[i].dtype, device_);
    return all;
  }

  /** Compares the gradients. Both sides use the forward results of Mezzo's kernels, but each its
   *  own saved data. */
  bool gradients_agree(const std::array<Tensor, 4>& ours, const std::array<Tensor, 4>& theirs) {
    std::array<Tensor, 11> in{forward_[0],
                              forward_[1],
                              forward_[2],
                              forward_[3],
                              forward_[4],
                              forward_[7],
                              ours[0],
                              ours[3],
                              random(ours[0].shape(), 1),
                              random(ours[1].shape(), 1),
                              is_lstm() ? random(ours[2].shape(), 1) : Tensor{}};
    Backward::Attrs attrs{attrs_, {}};
    attrs.wanted = {true, true, is_lstm(), true, true, true, true, projects()};
    const OutSpecs specs = Backward::infer(in, attrs);
    std::array<Tensor, 4> our_gradients = results(specs), their_gradients = results(specs);
    recurrent_backward_by_kernels(in, our_gradients, attrs);
    in[Backward::kKept] = theirs[3];
    if (!differentiate_by_library(layer_, in, their_gradients, attrs)) return false;
    for (std::size_t i = 0; i < our_gradients.size(); ++i)
      if (!close(our_gradients[i], their_gradients[i])) return false;
    return true;
  }

  /** Returns true if a NaN in the first element of the first sequence makes all results of its
   *  first step NaN. */
  bool nan_comes_through() {
    std::vector<C> x = values(forward_[0]);
    x[0] = std::numeric_limits<C>::quiet_NaN();
    forward_[0] = narrowed(x, forward_[0].shape());
    std::array<Tensor, 4> y = results(op::RecurrentLayer::infer(forward_, attrs_));
    if (!run_by_library(layer_, forward_, y, attrs_)) return false;
    const std::vector<C> got = values(y[0]);
    return std::all_of(got.begin(), got.begin() + layer_.size,
                       [](C value) { return std::isnan(value); });
  }

  /** Returns random numbers between -scale and scale, different ones at each call. */
  Tensor random(const Shape& shape, double scale) {
    std::vector<C> all(static_cast<std::size_t>(checked_numel(shape, "recurrent_layer")));
    const PhiloxStream stream{.seed = 0, .draw = draw_++};
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] =
          static_cast<C>((2 * uniform_f32(philox_block(stream, i / 4).word[i % 4]) - 1) * scale);
    return narrowed(all, shape);
  }

  /** Copies numbers to the device, in the layer's dtype. */
  Tensor narrowed(const std::vector<C>& all, const Shape& shape) const {
    const Tensor wide = work_tensor(shape, dtype_of<C>(), device_),
                 x = work_tensor(shape, layer_.dtype, device_);
    upload(wide, all.data(), all.size() * sizeof(C));
    move_rows<C>({Array(wide), Array(x), x.numel(), 1}, stream_);
    return x;
  }
  std::vector<C> values(const Tensor& x) const {
    std::vector<C> all(static_cast<std::size_t>(x.numel()));
    if (all.empty()) return all;
    const Tensor wide = work_tensor(x.shape(), dtype_of<C>(), device_);
    move_rows<C>({Array(x), Array(wide), x.numel(), 1}, stream_);
    download(wide, all.data(), all.size() * sizeof(C));
    return all;
  }

  bool close(const Tensor& ours, const Tensor& theirs) const {
    const std::vector<C> a = values(ours), b = values(theirs);
    double greatest = 0, difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      greatest = std::max(greatest, static_cast<double>(std::abs(a[i])));
      difference = std::max(difference, static_cast<double>(std::abs(a[i] - b[i])));
      if (std::isnan(b[i])) return false;
    }
    return difference <= tolerance(layer_.dtype) * greatest;
  }

  dnn::Recurrent layer_;
  Device device_;
  runtime::Stream stream_;
  op::RecurrentAttrs attrs_;
  std::array<Tensor, 8> forward_;
  std::uint64_t draw_ = 0;
};

bool compare(const dnn::Recurrent& layer, Device device) {
  bool agree = false;
  try {
    visit_floating_compute(layer.dtype, [&]<class C>(std::type_identity<C>) {
      agree = dnn::recurrent_spaces(layer, device) && Comparison<C>(layer, device).agree();
    });
  } catch (const CudaError& error) {
    bool logged = false;
    report_failure("cuDNN", text_of(layer), error, logged);
    agree = false;
  }
  return agree;
}

/** Everything that the result may depend on: the distribution of on-chip weights depends on the
 *  batch, f32 products on allow_tf32(). */
using Kind = std::array<std::int64_t, 8>;
Kind kind_of(const dnn::Recurrent& r, Device device) {
  return {device.index,
          static_cast<std::int64_t>(r.kind),
          static_cast<std::int64_t>(r.dtype),
          r.features,
          r.hidden,
          r.size,
          r.batch,
          (r.persistent ? 1 : 0) | (r.lengths.empty() ? 0 : 2) |
              (r.dtype == DType::f32 && allow_tf32() ? 4 : 0)};
}

}  // namespace

std::string text_of(const dnn::Recurrent& layer) {
  return str("a recurrent layer of ", layer.dtype, ' ',
             Shape{layer.steps, layer.batch, layer.features}, " and ", layer.hidden,
             " hidden units", layer.persistent ? " kept on chip" : "");
}

namespace {

/** The results by kind. */
struct Answers {
  std::mutex mutex;
  std::map<Kind, bool> agrees;
};
Answers& answers() {
  static auto& all = *new Answers;  // never destroyed: tensors may outlive main
  return all;
}

}  // namespace

bool library_agrees(const dnn::Recurrent& layer, Device device) {
  const Kind kind = kind_of(layer, device);
  {
    const std::lock_guard lock(answers().mutex);
    if (const auto known = answers().agrees.find(kind); known != answers().agrees.end())
      return known->second;
  }
  if (Capture::current()) return false;
  const bool agrees = compare(layer, device);
  const std::lock_guard lock(answers().mutex);
  return answers().agrees.emplace(kind, agrees).first->second;
}

// Refuses the kind with and without on-chip weights: the two save different data, and a pending
// backward pass must not use one for the other.
void refuse_library(const dnn::Recurrent& layer, Device device) {
  const std::lock_guard lock(answers().mutex);
  dnn::Recurrent kind = layer;
  for (const bool persistent : {false, true}) {
    kind.persistent = persistent;
    answers().agrees[kind_of(kind, device)] = false;
  }
}

}  // namespace mezzo::gpu
