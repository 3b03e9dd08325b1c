#include "micro.h"

#include <mezzo.h>

#include <algorithm>
#include <stdexcept>

#include "../nets/lenet.h"
#include "../nets/mlp.h"
#include "stopwatch.h"

namespace samples {

using namespace mezzo;

namespace {

struct Sizes {
  std::int64_t elements, line;  // size of arrays, and size of the normalised dimension
  std::int64_t side;            // side of square matrix products
  std::int64_t batch;           // batch of training steps
  int rounds;                   // number of rounds for a median
};
Sizes sizes_of(Size size) {
  switch (size) {
    case Size::tiny: return {1 << 14, 64, 64, 8, 1};
    case Size::small: return {1 << 24, 1024, 2048, 128, 9};
    default: return {1 << 26, 4096, 8192, 128, 9};
  }
}

/** Scope that sets the switch of search_products(). */
struct SearchScope {
  explicit SearchScope(bool on) { set_search_products(on); }
  ~SearchScope() { set_search_products(outer); }
  SearchScope(const SearchScope&) = delete;
  SearchScope& operator=(const SearchScope&) = delete;

  const bool outer = search_products();
};

class GpuMicro {
 public:
  GpuMicro(Device device, Size size, MicroResults& results)
      : device_(device), sizes_(sizes_of(size)), results_(results) {}

  void run() {
    results_.attempt("copy", [&] { measure_copy(); });
    results_.attempt("FusedAdam, f32", [&] { measure_adam(); });
    for (const DType dtype : {f16, f32})
      results_.attempt(str("norms, ", dtype), [&] { measure_norms(dtype); });
    for (const DType dtype : {f16, bf16})
      results_.attempt(str(dtype, " matmul"), [&] { measure_product(dtype); });
    results_.attempt("captured step of MLP", [&] { measure_step<Mlp>("MLP", "<= 80"); });
    results_.attempt("captured step of LeNet", [&] { measure_step<LeNet>("LeNet", ""); });
  }

 private:
  /** Returns the device seconds of one call. Queues so many calls that the cost of synchronising is
   *  negligible. */
  template <class F> double device_seconds(const F& f) const {
    const auto batch_of = [&](int calls) {
      return [&, calls] {
        for (int i = 0; i < calls; ++i) f();
        gpu::synchronize(device_);
      };
    };
    constexpr double kWanted = 0.02;
    constexpr int kMost = 1000;
    batch_of(3)();
    const int calls =
        static_cast<int>(std::clamp(kWanted / seconds(batch_of(1)), 1.0, double{kMost}));
    return median_seconds(sizes_.rounds, 1, batch_of(calls)) / calls;
  }

  Tensor random(const Shape& shape, DType dtype = f32) const {
    return randn(shape, {.device = device_}).to(dtype);
  }

  void measure_copy() {
    const NoGrad no_grad;
    const Tensor x = random({sizes_.elements});
    Tensor y = empty_like(x);
    bandwidth_ = bytes(8) / device_seconds([&] { y.copy_(x); });
    results_.push_back({"copy of " + str(sizes_.elements) + " f32", bandwidth_ * 1e-9, "GB/s", ""});
  }

  double bytes(double for_each_element) const {
    return for_each_element * static_cast<double>(sizes_.elements);
  }

  /** Measures the bandwidth of a function relative to that of copying. `bytes_of_element` is what
   *  the function reads and writes for each element. */
  template <class F>
  void measure_passes(const std::string& what, double bytes_of_element, const std::string& target,
                      const F& f) {
    if (bandwidth_ == 0) throw std::runtime_error("no copy was measured to compare with");
    const double reached = bytes(bytes_of_element) / device_seconds(f);
    results_.push_back({what, reached / bandwidth_, "of copying", target});
  }

  void measure_adam() {
    Tensor p = random({sizes_.elements}).requires_grad_();
    p.set_grad(random({sizes_.elements}));
    optim::FusedAdam adam({p}, {.lr = 1e-6});
    // Reads parameter, gradient and two moments; writes parameter and moments.
    measure_passes("FusedAdam, f32", 7 * 4, ">= 0.75", [&] { adam.step(); });
  }

  void measure_norms(DType dtype) {
    const auto item = static_cast<double>(item_size(dtype));
    const std::int64_t lines = sizes_.elements / sizes_.line;
    const Tensor x = random({lines, sizes_.line}, dtype).requires_grad_(),
                 g = random(x.shape(), dtype);
    const Tensor weight = ones({sizes_.line}, {.dtype = dtype, .device = device_}),
                 bias = zeros({sizes_.line}, {.dtype = dtype, .device = device_});
    const std::string kind = ", " + std::string(name(dtype));
    const auto layer_norms = [&] {
      return layer_norm(x, {sizes_.line}, {.weight = weight, .bias = bias});
    };
    const auto rms_norms = [&] { return rms_norm(x, {sizes_.line}, {.weight = weight}); };
    const auto forward = [&](const auto& f) {
      return [&] {
        const NoGrad no_grad;
        f();
      };
    };
    measure_passes("layer_norm" + kind, 2 * item, ">= 0.75", forward(layer_norms));
    measure_passes("rms_norm" + kind, 2 * item, ">= 0.75", forward(rms_norms));
    const Tensor y = layer_norms();
    measure_passes("  gradient of layer_norm" + kind, 3 * item, ">= 0.75", [&] {
      grad(TensorList(y), TensorList(x), {.retain_graph = true}, TensorList(g));
    });
    const Tensor images = x.detach().view({lines / 16, 16, sizes_.line});
    // The input is read twice, because the statistics come first and it does not fit into caches.
    measure_passes("batch_norm in training" + kind, 3 * item, ">= 0.75",
                   forward([&] { return batch_norm(images, {.training = true}); }));
  }

  void measure_product(DType dtype) {
    const NoGrad no_grad;
    const std::int64_t n = sizes_.side;
    const Tensor a = random({n, n}, dtype), b = random({n, n}, dtype);
    const auto product = [&] { matmul(a, b); };
    const auto device_seconds_with = [&](bool search) {
      const SearchScope scope(search);
      return device_seconds(product);
    };
    const double guessed = device_seconds_with(false), best = device_seconds_with(true);
    const auto side = static_cast<double>(n);
    const std::string what = std::string(name(dtype)) + " matmul " + str(n) + "^3";
    results_.push_back({what, 2 * side * side * side / guessed * 1e-12, "TFLOP/s", ""});
    results_.push_back({"  against the fastest algorithm", best / guessed, "x", ">= 0.97"});
  }

  /** Measures a captured training step with FusedAdam, including the copy of its inputs. */
  template <class Net> void measure_step(const std::string& net_name, const std::string& target) {
    for (const std::string level : {"O0", "O2"}) {
      Net net;
      net.to(device_);
      optim::FusedAdam adam(net.parameters(), {.lr = 1e-4});
      const auto session = amp::initialize(net, adam, {.opt_level = level, .verbosity = 0});
      gpu::CapturedStep step(
          [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
            adam.zero_grad();
            const Tensor loss = cross_entropy(net(in[0]), in[1]);
            amp::scale_loss(loss, adam, [](const Tensor& scaled) { scaled.backward(); });
            adam.step();
            return {loss};
          },
          {device_});
      const std::vector<Tensor> in{random({sizes_.batch, 1, 28, 28}),
                                   zeros({sizes_.batch}, {.dtype = i64, .device = device_})};
      for (int i = 0; i < 16; ++i) step(in);  // initial overflows delay the capture
      results_.push_back(
          {"captured step of " + net_name + ", batch " + str(sizes_.batch) + ", " + level,
           1e6 * device_seconds([&] { step(in); }), "us", target});
    }
  }

  Device device_;
  Sizes sizes_;
  double bandwidth_ = 0;  // of copying, in bytes per second
  MicroResults& results_;
};

}  // namespace

void run_gpu_micro(Device device, Size size, MicroResults& results) {
  GpuMicro(device, size, results).run();
}

}  // namespace samples
