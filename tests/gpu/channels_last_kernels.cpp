// Channels-last nets on the emulated device: no kernel converts layouts between a net's input and
// output, and the bits are those of row-major nets.
#include <algorithm>

#include "../emulator/dnn.h"
#include "../support/catch.h"
#include "channels_last.h"
#include "cost.h"
#include "unverified.h"

using namespace channels_last;

namespace {

/** The launches of a net's forward and backward pass. Checks that the output has the input's
 *  layout. */
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

/** Counts elementwise launches and copies. */
std::int64_t elementwise_in(const std::vector<std::string>& launches) {
  return std::count_if(launches.begin(), launches.end(), [](const std::string& name) {
    return name.find("map.h") == 0 || name.find("map_packs.h") == 0 ||
           name.find("transpose.h") == 0;
  });
}

/** Returns the names with one name for the kernels of batch norm, which depend on the layout. */
std::vector<std::string> plain(std::vector<std::string> names) {
  for (std::string& name : names)
    if (name.starts_with("channels.h") || name.starts_with("channel_rows.h")) name = "batch norm";
  return names;
}

}  // namespace

TEST_CASE(
    "a channels-last net copies nothing between its input and its output, forward and backward",
    "[gpu][counters][format]") {
  const Unverified scope;
  for (const bool with_library : {true, false})
    for (const DType dtype : {f16, f32}) {
      INFO(with_library << " " << name(dtype));
      emulator::set_has_dnn(with_library);
      const Passes last(net_in(kLast, dtype), kLast, dtype),
          rows(net_in(kRows, dtype), kRows, dtype);
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
  const Unverified scope;
  for (const bool with_library : {true, false})
    for (const DType dtype : {f16, f32})
      for (const bool training : {true, false}) {
        INFO(with_library << " " << name(dtype) << (training ? ", training" : ", evaluation"));
        emulator::set_has_dnn(with_library);
        const Passes last(norm_net_in(kLast, dtype, training), kLast, dtype),
            rows(norm_net_in(kRows, dtype, training), kRows, dtype);
        CHECK(plain(last.forward) == plain(rows.forward));
        CHECK(last.backward == rows.backward);
        // relu and the net's statistics; relu's gradient and the sums of gradients.
        CHECK(elementwise_in(last.forward) == 2);
        CHECK(elementwise_in(last.backward) == 4);
      }
  emulator::set_has_dnn(true);
}

TEST_CASE("a channels-last net gives the bits of a row-major one", "[gpu][format]") {
  for (const bool with_library : {true, false}) {
    emulator::set_has_dnn(with_library);
    for (const DType dtype : {f16, bf16, f32, f64}) {
      INFO(with_library << " " << name(dtype));
      CHECK(net_results(net_in(kLast, dtype), kLast, dtype) ==
            net_results(net_in(kRows, dtype), kRows, dtype));
    }
  }
  emulator::set_has_dnn(true);
}

TEST_CASE("elementwise kernels treat channels-last operands as flat arrays and launch once",
          "[gpu][counters][format]") {
  const Tensor x = scattered({2, 8, 3, 5}, f16).to(kLast), bias = scattered({8, 1, 1}, f16);
  Tensor y;
  CHECK(cost_of([&] { y = relu(x * 2 + x); }).launches == 3);
  CHECK(y.is_contiguous(kLast));
  CHECK(cost_of([&] { y = x + bias; }).launches == 1);
  CHECK(y.is_contiguous(kLast));
  CHECK(y.to_vector<double>() == (x.contiguous() + bias).to_vector<double>());
}

TEST_CASE("a move between devices keeps channels-last, with a single byte copy",
          "[gpu][counters][format]") {
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
