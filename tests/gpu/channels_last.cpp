// Channels-last nets on the device: no kernel turns arrays around between a net's input and its output, and its numbers are those of row-major ones.
#include <mezzo.h>

#include <algorithm>

#include "../emulator/dnn.h"
#include "../support/catch.h"
#include "cost.h"

using namespace mezzo;

namespace {

const Device kDevice{DeviceKind::cuda, 0};
constexpr MemoryFormat kLast = MemoryFormat::channels_last, kRows = MemoryFormat::contiguous;

/** Numbers of a few bits. */
Tensor scattered(const Shape& shape, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < checked_numel(shape, "test"); ++i)
    values.push_back(static_cast<double>(i * 7919 % 23) / 16 - 0.6);
  return tensor(values, shape).to(dtype).to(kDevice);
}

struct Net {
  Tensor first, bias, second;
  Tensor operator()(const Tensor& x) const {
    return max_pool2d(conv2d(relu(conv2d(x, first, bias, {.padding = 1})), second), 2);
  }
  std::vector<Tensor> leaves(const Tensor& x) const { return {x, first, bias, second}; }
};

/** Of channels that fill vectors, so that every copy would show as one. */
Net net_in(MemoryFormat format, DType dtype) {
  return {scattered({8, 4, 3, 3}, dtype).to(format).requires_grad_(), scattered({8}, dtype).requires_grad_(),
          scattered({8, 8, 3, 3}, dtype).to(format).requires_grad_()};
}

/** Half a residual net. */
struct NormNet {
  Net convolutions;
  Tensor weight;  // of the norms
  bool training;

  Tensor operator()(const Tensor& x) const {
    const Tensor mean = zeros({8}, {.device = kDevice}), var = mean + 1.5;
    const BatchNormOptions options{
        .running_mean = mean, .running_var = var, .weight = weight, .training = training};
    const Tensor first = batch_norm_relu(conv2d(x, convolutions.first, {}, {.padding = 1}), options);
    const Tensor second = batch_norm(conv2d(first, convolutions.second, {}, {.padding = 1}), options);
    return max_pool2d(batch_norm_relu(relu(second), options, first), 2);
  }
  std::vector<Tensor> leaves(const Tensor& x) const {
    return {x, convolutions.first, convolutions.second, weight};
  }
};

NormNet norm_net_in(MemoryFormat format, DType dtype, bool training) {
  return {net_in(format, dtype), scattered({8}, f32).requires_grad_(), training};
}

Tensor input_in(MemoryFormat format, DType dtype) {
  return scattered({2, 4, 8, 10}, dtype).to(format).requires_grad_();
}

/** The launches of a net's forward and of its backward pass; what comes out lies as what goes in. */
struct Passes {
  std::vector<std::string> forward, backward;

  template <class AnyNet> Passes(const AnyNet& net, MemoryFormat format, DType dtype) {
    const Tensor x = input_in(format, dtype);
    Tensor y, g;
    {
      const emulator::LaunchLog log;
      y = net(x);
      forward = log.names;
    }
    CHECK(y.strides() == strides_in(format, y.shape()));
    g = scattered(y.shape(), dtype).to(format);
    const emulator::LaunchLog log;
    const std::vector<Tensor> gradients = grad(TensorList(y), net.leaves(x), {}, TensorList(g));
    backward = log.names;
    for (const Tensor& gradient : gradients)
      if (gradient.dim() == 4) CHECK(gradient.strides() == strides_in(format, gradient.shape()));
  }
};

/** Copies are elementwise kernels too, and go by the same name. */
std::int64_t elementwise_in(const std::vector<std::string>& launches) {
  return std::count_if(launches.begin(), launches.end(),
                       [](const std::string& name) { return name.find("map.h") == 0; });
}

template <class AnyNet>
std::vector<std::vector<double>> results(const AnyNet& net, MemoryFormat format, DType dtype) {
  const Tensor x = input_in(format, dtype), y = net(x);
  const Tensor g = scattered(y.shape(), dtype).to(format);
  std::vector<std::vector<double>> all{y.to_vector<double>()};
  for (const Tensor& gradient : grad(TensorList(y), net.leaves(x), {}, TensorList(g)))
    all.push_back(gradient.to_vector<double>());
  return all;
}

}  // namespace

TEST_CASE("a channels-last net copies nothing between its input and its output, forward and backward",
          "[gpu][counters][format]") {
  for (const bool with_library : {true, false})
    for (const DType dtype : {f16, f32}) {
      INFO(with_library << " " << name(dtype));
      emulator::set_has_dnn(with_library);
      const Passes last(net_in(kLast, dtype), kLast, dtype), rows(net_in(kRows, dtype), kRows, dtype);
      if (with_library) CHECK(last.forward.size() == 4);
      CHECK(last.forward == rows.forward);
      CHECK(last.backward == rows.backward);
      // relu and its gradient.
      CHECK(elementwise_in(last.forward) == 1);
      CHECK(elementwise_in(last.backward) == 1);
    }
  emulator::set_has_dnn(true);
}

TEST_CASE("batch norms of a channels-last net copy nothing either, forward and backward",
          "[gpu][counters][format]") {
  for (const bool with_library : {true, false})
    for (const DType dtype : {f16, f32})
      for (const bool training : {true, false}) {
        INFO(with_library << " " << name(dtype) << (training ? ", training" : ", evaluation"));
        emulator::set_has_dnn(with_library);
        const Passes last(norm_net_in(kLast, dtype, training), kLast, dtype),
            rows(norm_net_in(kRows, dtype, training), kRows, dtype);
        CHECK(last.forward == rows.forward);
        CHECK(last.backward == rows.backward);
        // relu, and the statistics that the net makes; relu's gradient, and the sums of gradients that meet.
        CHECK(elementwise_in(last.forward) == 3);
        CHECK(elementwise_in(last.backward) == 4);
      }
  emulator::set_has_dnn(true);
}

TEST_CASE("a channels-last net with batch norms gives the values of a row-major one", "[gpu][format]") {
  for (const bool training : {true, false})
    for (const DType dtype : {f32, f64}) {
      INFO(name(dtype) << (training ? ", training" : ", evaluation"));
      const auto last = results(norm_net_in(kLast, dtype, training), kLast, dtype),
                 rows = results(norm_net_in(kRows, dtype, training), kRows, dtype);
      const double tolerance = dtype == f64 ? 1e-11 : 1e-3;
      for (std::size_t i = 0; i < rows.size(); ++i)
        for (std::size_t k = 0; k < rows[i].size(); ++k)
          CHECK(last[i][k] == Approx(rows[i][k]).epsilon(tolerance).margin(tolerance));
    }
}

TEST_CASE("a channels-last net gives the bits of a row-major one", "[gpu][format]") {
  for (const bool with_library : {true, false}) {
    emulator::set_has_dnn(with_library);
    for (const DType dtype : {f16, bf16, f32, f64}) {
      INFO(with_library << " " << name(dtype));
      CHECK(results(net_in(kLast, dtype), kLast, dtype) == results(net_in(kRows, dtype), kRows, dtype));
    }
  }
  emulator::set_has_dnn(true);
}

TEST_CASE("elementwise kernels take channels-last operands for flat arrays, and launch once",
          "[gpu][counters][format]") {
  const Tensor x = scattered({2, 8, 3, 5}, f16).to(kLast), bias = scattered({8, 1, 1}, f16);
  Tensor y;
  CHECK(cost_of([&] { y = relu(x * 2 + x); }).launches == 3);
  CHECK(y.is_contiguous(kLast));
  CHECK(cost_of([&] { y = x + bias; }).launches == 1);
  CHECK(y.is_contiguous(kLast));
  CHECK(y.to_vector<double>() == (x.contiguous() + bias).to_vector<double>());
}

TEST_CASE("a move between devices keeps channels-last, by one copy of bytes", "[gpu][counters][format]") {
  const Tensor x = scattered({2, 3, 4, 5}, f32).to(kLast);
  Tensor host, back;
  CHECK(cost_of([&] { host = x.to(cpu); }).launches == 0);
  CHECK(host.strides() == x.strides());
  CHECK(cost_of([&] { back = host.to(kDevice); }).launches == 0);
  CHECK(back.strides() == x.strides());
  CHECK(back.to_vector<double>() == x.to_vector<double>());
  const Tensor written = zeros({2, 3, 4, 5}, {.device = kDevice}).to(kLast);
  CHECK(cost_of([&] { written.copy_(host); }).launches == 0);
  CHECK(written.to_vector<double>() == x.to_vector<double>());
  written.zero_().copy_(host.contiguous());
  CHECK(written.to_vector<double>() == x.to_vector<double>());
}

TEST_CASE("a captured step keeps the layout of its inputs", "[gpu][graph][format]") {
  const Net net = net_in(kLast, f32);
  std::vector<bool> kept;
  gpu::CapturedStep step(
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        kept.push_back(in[0].is_contiguous(kLast));
        return {net(in[0]).detach()};
      },
      {kDevice});
  const Tensor x = input_in(kLast, f32).detach().to(cpu);
  const std::vector<double> expected = net(x.to(kDevice)).to_vector<double>();
  for (int i = 0; i < 4; ++i) CHECK(step({x})[0].to_vector<double>() == expected);
  CHECK(step.captures() == 1);
  CHECK(std::find(kept.begin(), kept.end(), false) == kept.end());
  for (int i = 0; i < 4; ++i) CHECK(step({x.contiguous()})[0].to_vector<double>() == expected);
  CHECK(step.captures() == 2);
}
