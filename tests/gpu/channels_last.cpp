// Channels-last nets on any device: values equal those of row-major nets; copies and captures keep
// the layout.
#include "channels_last.h"

#include <algorithm>

#include "../support/catch.h"
#include "need_device.h"

using namespace channels_last;

TEST_CASE("a channels-last net with batch norms gives the values of a row-major one",
          "[gpu][format]") {
  NEED_DEVICE();
  for (const bool training : {true, false})
    for (const DType dtype : {f32, f64}) {
      INFO(name(dtype) << (training ? ", training" : ", evaluation"));
      const auto last = net_results(norm_net_in(kLast, dtype, training), kLast, dtype),
                 rows = net_results(norm_net_in(kRows, dtype, training), kRows, dtype);
      const double tolerance = dtype == f64 ? 1e-11 : 1e-3;
      for (std::size_t i = 0; i < rows.size(); ++i)
        for (std::size_t k = 0; k < rows[i].size(); ++k)
          CHECK(last[i][k] == Approx(rows[i][k]).epsilon(tolerance).margin(tolerance));
    }
}

TEST_CASE("a move between devices keeps channels-last", "[gpu][format]") {
  NEED_DEVICE();
  const Tensor x = scattered({2, 3, 4, 5}, f32).to(kLast);
  const Tensor host = x.to(cpu), back = host.to(kDevice);
  CHECK(host.strides() == x.strides());
  CHECK(back.strides() == x.strides());
  CHECK(back.to_vector<double>() == x.to_vector<double>());
  const Tensor written = zeros({2, 3, 4, 5}, {.device = kDevice}).to(kLast);
  written.copy_(host);
  CHECK(written.to_vector<double>() == x.to_vector<double>());
  written.zero_().copy_(host.contiguous());
  CHECK(written.to_vector<double>() == x.to_vector<double>());
}

TEST_CASE("a captured step keeps the layout of its inputs", "[gpu][graph][format]") {
  NEED_DEVICE();
  const PlainConvNet net = net_in(kLast, f32);
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
  const std::vector<double> of_rows = net(x.contiguous().to(kDevice)).to_vector<double>();
  for (int i = 0; i < 4; ++i) CHECK(step({x.contiguous()})[0].to_vector<double>() == of_rows);
  CHECK(step.captures() == 2);
}
