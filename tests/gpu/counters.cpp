// The cost of operations in launches, copies, allocations and synchronisations, counted by the
// emulated runtime.
#include <mezzo.h>

#include <algorithm>
#include <cmath>

#include "../../optim/step/tensor_list.h"
#include "../../tensor/memory/transfer.h"
#include "../support/catch.h"
#include "../support/optimizers.h"
#include "cost.h"
#include "device.h"

using namespace mezzo;
using testing::kDevice;

TEST_CASE("an elementwise op is one launch, including strides, broadcasting and numbers",
          "[gpu][counters]") {
  const Tensor x = ones({33, 5}, {.device = kDevice}), row = ones({5}, {.device = kDevice});
  for (int warm = 0; warm < 2; ++warm) {
    const emulator::Counters cost = cost_of([&] { x.t().to(f16) * 2.0 + row.unsqueeze(1); });
    CHECK(cost.launches == 3);
    CHECK(cost.copies == 0);
    CHECK(cost.synchronisations == 0);
    if (warm == 1) CHECK(cost.allocations == 0);
  }
}

TEST_CASE("indexing and joining are one launch", "[gpu][counters]") {
  const Tensor table = ones({33, 5}, {.device = kDevice}),
               rows = zeros({7, 2}, {.dtype = i64, .device = kDevice});
  const Tensor column = rows.select(1, 0).contiguous();
  const auto cost_is_one = [](const auto& call) {
    call();
    const emulator::Counters cost = cost_of(call);
    CHECK((cost.launches == 1 && cost.copies == 0 && cost.synchronisations == 0 &&
           cost.allocations == 0));
  };
  cost_is_one([&] { embedding(rows, table); });
  cost_is_one([&] { gather(table, 0, rows); });
  cost_is_one([&] { index_select(table, 0, column); });
  cost_is_one([&] { cat({table, table, table}, 1); });
}

TEST_CASE("scans of one long line are two launches of CUB", "[gpu][counters]") {
  const NoGrad no_grad;
  const Tensor x = ones({20'000}, {.dtype = i32, .device = kDevice});
  const auto launches = [](const auto& call) {
    const emulator::LaunchLog log;
    call();
    return log.names;
  };
  const std::vector<std::string> by_cub{"CUB", "CUB"};
  CHECK(launches([&] { cumsum(x, 0); }) == by_cub);
  CHECK(launches([&] { cummax(x, 0); }) == by_cub);
  CHECK(launches([&] { cumsum(x.to(f32), 0); }).size() == 1 + 3);  // with the conversion
}

TEST_CASE("a selection is two launches and one read of the host", "[gpu][counters]") {
  const NoGrad no_grad;
  const Tensor x = ones({20'000}, {.dtype = bf16, .device = kDevice}), mask = x > 0;
  const auto check = [](const auto& call) {
    call();
    const emulator::Counters cost = cost_of(call);
    CHECK(cost.launches == 2);
    CHECK(cost.synchronisations == 1);
  };
  check([&] { nonzero(x); });
  check([&] { nonzero(mask); });
  check([&] { masked_select(x, mask); });
}

TEST_CASE("steps of LAMB and Adafactor take few launches", "[gpu][counters]") {
  const auto launches = [](auto& optimizer, const std::vector<Tensor>& params) {
    for (const Tensor& p : params) p.set_grad(ones_like(p.detach()));
    optimizer.step();
    return cost_of([&] { optimizer.step(); }).launches;
  };
  const auto matrices = [](int count) {
    std::vector<Tensor> out;
    for (int i = 0; i < count; ++i)
      out.push_back(ones({16, 8}, {.device = kDevice, .requires_grad = true}));
    return out;
  };
  for (const int count : {1, 5}) {
    const std::vector<Tensor> params = matrices(count);
    optim::FusedLAMB lamb(params);
    // gradients' norms in three, directions, norms, steps; four fills of norms
    CHECK(launches(lamb, params) == 3 + 1 + 1 + 1 + 4);
    optim::Adafactor adafactor(params);
    // each matrix: squares, three means, two copies, direction
    CHECK(launches(adafactor, params) == 9 + 7 * count);
  }
}

TEST_CASE("topk of long lines cuts them in one launch, for any number of lines",
          "[gpu][counters]") {
  const NoGrad no_grad;
  for (const std::int64_t lines : {1, 5}) {
    const Tensor x = rand({lines, 20'000}, {.device = kDevice});
    // 20,000 entries, then 250, which are sorted; the entries are made before and the results
    // written after
    CHECK(cost_of([&] { topk(x, 50); }).launches == 4);
    CHECK(cost_of([&] { kthvalue(x, 7); }).launches == 4);
  }
}

TEST_CASE("a gradient of several operands is one launch", "[gpu][counters]") {
  const Tensor a = ones({7}, {.device = kDevice, .requires_grad = true}),
               b = ones({7}, {.device = kDevice, .requires_grad = true});
  const Tensor y = a / b, g = ones({7}, {.device = kDevice});
  const emulator::Counters cost =
      cost_of([&] { grad(std::span(&y, 1), std::vector{a, b}, {}, std::span(&g, 1)); });
  CHECK(cost.launches == 1);
  CHECK(cost.synchronisations == 0);
}

TEST_CASE("gradients of slices are written into one tensor", "[gpu][counters]") {
  const Tensor x = ones({3, 8, 5}, {.device = kDevice, .requires_grad = true});
  const std::vector<Tensor> parts{x.select(0, 0), x.select(0, 1), x.select(0, 2)};
  const Tensor g = ones({8, 5}, {.device = kDevice});
  const std::vector<Tensor> incoming{g, g, g};
  for (int warm = 0; warm < 2; ++warm) {
    const emulator::Counters cost =
        cost_of([&] { grad(parts, {x}, {.retain_graph = true}, incoming); });
    CHECK(cost.launches == 4);  // zeros, the first slice, and two slices that are added in place
    if (warm == 1) CHECK(cost.allocations == 0);
  }
}

TEST_CASE("metrics do not wait for the device", "[gpu][counters]") {
  const Tensor scores = randn({6, 4}).to(f16).to(kDevice),
               classes = (arange(6).to(i64) % 4).to(kDevice), words = randn({2, 3, 5}).to(kDevice),
               next = zeros({2, 3}, i64, kDevice), numbers = randn({6}).to(kDevice),
               bits = (numbers > 0).to(i64), marks = (scores > 0).to(i64);
  metrics::Accuracy accuracy({.num_classes = 4, .top_k = 2, .ignore_index = 3});
  metrics::ConfusionMatrix matrix({.num_classes = 4});
  metrics::F1Score f1;
  metrics::Recall recall({.num_labels = 4});
  metrics::AUROC auroc({.num_classes = 4});
  metrics::MeanMetric mean;
  metrics::Perplexity perplexity({.ignore_index = 1});
  metrics::R2Score r2;
  // The first op of the process that checks indices sets up the flags for it, and waits once.
  metrics::ConfusionMatrix({.num_classes = 4}).update(scores, classes);
  for (int batch = 0; batch < 3; ++batch) {
    CHECK(cost_of([&] { accuracy.update(scores, classes); }).synchronisations == 0);
    CHECK(cost_of([&] { matrix.update(scores, classes); }).synchronisations == 0);
    CHECK(cost_of([&] { f1.update(numbers, bits); }).synchronisations == 0);
    CHECK(cost_of([&] { recall.update(scores, marks); }).synchronisations == 0);
    CHECK(cost_of([&] { auroc.update(scores, classes); }).synchronisations == 0);
    CHECK(cost_of([&] { mean.update(numbers); }).synchronisations == 0);
    CHECK(cost_of([&] { perplexity.update(words, next); }).synchronisations == 0);
    CHECK(cost_of([&] { r2.update(numbers, scores.select(1, 0).to(f32)); }).synchronisations == 0);
  }
  CHECK(sum(matrix.compute()).item() == 18);
  CHECK(matrix.compute().device() == cpu);
  for (const Tensor& y : {accuracy.compute(), f1.compute(), recall.compute(), auroc.compute(),
                          mean.compute(), perplexity.compute(), r2.compute()}) {
    CHECK(y.device() == cpu);
    CHECK(std::isfinite(y.item()));
  }
}

TEST_CASE("moving is one copy, and only moves to the host synchronise", "[gpu][counters]") {
  const Tensor x = ones({3, 4});
  const emulator::Counters there = cost_of([&] { x.to(kDevice); });
  CHECK((there.copies == 1 && there.launches == 0 && there.synchronisations == 0));
  const Tensor y = x.to(kDevice);
  y.to(cpu);  // reads error flags that other tests' kernels may have set
  const emulator::Counters back = cost_of([&] { y.to(cpu); });
  CHECK((back.copies == 1 && back.launches == 0 && back.synchronisations == 1));
}

TEST_CASE("the products of recurrent layers run in the library, in 16 bits but for the time steps",
          "[gpu][counters]") {
  constexpr std::int64_t kSteps = 5;
  for (const DType dtype : {f32, f16, bf16}) {
    const nn::LSTM layer(12, 16);
    layer.to(kDevice);
    layer.to(dtype);
    const Tensor x = randn({kSteps, 3, 12}).to(dtype).to(kDevice).requires_grad_();
    const emulator::LaunchLog log;
    const auto products = [&] {
      return std::count(log.names.begin(), log.names.end(), "cuBLASLt");
    };
    const Tensor y = layer(x).output;
    const std::int64_t of_steps = dtype == f32 ? kSteps : 0;
    CHECK(products() == 1 + of_steps);  // one for all inputs, then one per step
    const std::int64_t forward = products();
    sum(y).backward();
    CHECK(products() - forward == of_steps + 3);  // then one each for x and the two weights
  }
}

TEST_CASE("tanh gelu is fused into the products of a 16-bit mlp as relu is", "[gpu][counters]") {
  const auto launches_of = [&](DType dtype, MlpActivation activation) {
    manual_seed(2);
    const auto random = [&](const Shape& shape) {
      return randn(shape).to(dtype).to(kDevice).requires_grad_();
    };
    const Tensor x = random({16, 24}), v = random({32, 24}), a = random({32}), w = random({8, 32}),
                 b = random({8});
    std::int64_t launches = 0;
    for (int warm = 0; warm < 2; ++warm) {
      Tensor y;
      launches = cost_of([&] { y = mlp(x, {v, w}, {a, b}, {.activation = activation}); }).launches;
      const Tensor g = ones_like(y);
      launches += cost_of([&] {
                    grad(std::span(&y, 1), std::vector{x, v, a, w, b}, {}, std::span(&g, 1));
                  }).launches;
    }
    return launches;
  };
  for (const DType dtype : {f16, bf16}) {
    // The sums of the last bias's gradient; those of the first, which Mezzo's gradient of an
    // activation computes.
    const int sums = dtype == bf16 ? 1 : 0;
    CHECK(launches_of(dtype, MlpActivation::relu) == 7 + sums);  // with the gradient of relu
    CHECK(launches_of(dtype, MlpActivation::gelu_tanh) == 6 + 2 * sums);
    CHECK(launches_of(dtype, MlpActivation::gelu) == 8 + sums);
  }
  CHECK(launches_of(f32, MlpActivation::gelu_tanh) == 8);
}

TEST_CASE(
    "a batch norm in training, with or without relu, is one launch each way, or two where channels "
    "are large",
    "[gpu][counters]") {
  struct Expected {
    Shape shape;
    std::int64_t launches;
    MemoryFormat format = MemoryFormat::contiguous;
  };
  constexpr MemoryFormat kLast = MemoryFormat::channels_last;
  // In channels-last, a block computes up to 32 channels.
  for (const bool with_relu : {false, true})
    for (const Expected& e : {Expected{{8, 3, 50, 50}, 1},
                              {{64, 3}, 1},
                              {{2, 2, 260, 256}, 2},
                              {{5000, 33}, 2},
                              {{8, 3, 50, 50}, 1, kLast},
                              {{2, 33, 8, 3, 5}, 1, kLast},
                              {{2, 40, 70, 64}, 1},
                              {{2, 40, 70, 64}, 2, kLast}}) {
      const Tensor x = rand(e.shape, {.device = kDevice}).to(e.format).requires_grad_(),
                   w = ones({e.shape[1]}, {.device = kDevice}),
                   mean = zeros({e.shape[1]}, {.device = kDevice}),
                   count = zeros({}, {.dtype = i64, .device = kDevice});
      const BatchNormOptions options{
          .running_mean = mean, .weight = w, .training = true, .num_batches_tracked = count};
      Tensor y;
      const auto forward = [&] {
        y = with_relu ? batch_norm_relu(x, options, x) : batch_norm(x, options);
      };
      CHECK(cost_of(forward).launches == e.launches);
      const Tensor g = ones_like(y);
      // The residual is x itself, so its two gradients are added.
      const emulator::Counters back =
          cost_of([&] { grad(std::span(&y, 1), std::vector{x}, {}, std::span(&g, 1)); });
      CHECK(back.launches == e.launches + (with_relu ? 1 : 0));
      CHECK(back.synchronisations == 0);
    }
}

TEST_CASE("the tensors of a group share its settings in a launch of an optimizer", "[gpu][optim]") {
  const auto tensors = [](int count) {
    std::vector<Tensor> all;
    for (int i = 0; i < count; ++i) {
      all.push_back(rand({3}, {.device = kDevice}).requires_grad_());
      all.back().set_grad(ones_like(all.back()));
    }
    return all;
  };
  // 43 items and one group are the most of a short list, 367 and two groups those of a long one
  for (const auto& [count, launches] : {std::pair{20, 1}, {43, 1}, {183, 1}, {200, 2}}) {
    optim::Adam optimizer(tensors(count));
    optimizer.add_param_group(tensors(count), {.lr = 0.5});
    optimizer.step();
    CHECK(cost_of([&] { optimizer.step(); }).launches == launches);
  }
}

TEST_CASE("an optimizer step of many tensors is one launch without synchronisation",
          "[gpu][optim]") {
  std::vector<Tensor> params;
  for (const std::int64_t n : {3, 4096, 70001, 0})
    params.push_back(rand({n}, {.device = kDevice}).requires_grad_());
  optim::AdamW optimizer(params);
  for (const Tensor& p : params) p.set_grad(ones_like(p));
  optimizer.step();
  const emulator::Counters cost = cost_of([&] { optimizer.step(); });
  CHECK(cost.launches == 1);
  CHECK(cost.copies == 0);
  CHECK(cost.synchronisations == 0);
  CHECK(cost.allocations == 0);
}

namespace {

/** What the steps of one optimizer leave: values and the steps of each parameter. */
struct OptimizerOutcome {
  std::vector<std::vector<double>> values;
  std::vector<std::int64_t> steps;
  std::int64_t counts = 0;  // launches that only count a step
};

/** Takes steps of which some are skipped, each without the gradients of some parameters. */
OptimizerOutcome counted(const optimizers::Factory& make, const std::vector<Tensor>& start,
                         Device device) {
  std::vector<Tensor> params;
  for (const Tensor& x : start) params.push_back(x.to(device).clone().requires_grad_());
  const optimizers::Made optimizer = make(params);
  const auto found = optim::FoundInf::reset_on(device);
  const emulator::LaunchLog log;
  manual_seed(8);
  for (int step = 0; step < 6; ++step) {
    for (std::size_t i = 0; i < params.size(); ++i) {
      const Tensor grad = randn(params[i].shape()).to(params[i].dtype()).to(device);
      params[i].set_grad(step > 0 && i % 5 == 2 && step % 2 == 0 ? Tensor{} : grad);
    }
    if (step == 0) {
      optimizer->step();
      continue;
    }
    if (step == 2 || step == 3) {
      const optim::NonfiniteWord word = optim::kUnknownLocation;
      upload(found.word, &word, sizeof word);
    } else {
      found.reset();
    }
    const optim::StepResult result = optimizer->step({}, found);
    if (step > 3) CHECK(result == optim::StepResult::stepped);
    if (step == 3) CHECK(result == optim::StepResult::skipped);
  }
  CHECK(optimizer->consecutive_skips() == 0);
  OptimizerOutcome out;
  for (const optim::Slot& slot : optimizer->slots(0)) {
    out.steps.push_back(slot.steps);
    out.values.push_back(slot.param.detach().to(cpu).to(f64).to_vector<double>());
  }
  out.counts = std::count_if(log.names.begin(), log.names.end(), [](const std::string& name) {
    return name.starts_with("updates.cu:");  // the place of the launch
  });
  return out;
}

}  // namespace

TEST_CASE("the last update of a step counts it, with empty tensors, dtypes and lists of any number",
          "[gpu][optim]") {
  manual_seed(4);
  std::vector<Tensor> mixed, empty;
  for (int i = 0; i < 100; ++i)
    mixed.push_back(
        randn({i % 7 == 3 ? 0 : 1 + 131 * (i % 4) * (i % 40)}).to(i % 3 == 1 ? f64 : f32));
  mixed.push_back(randn({3, 0, 5}));
  for (const std::int64_t n : {0, 0}) empty.push_back(randn({n}));
  for (const optimizers::Kind& kind : optimizers::kinds())
    for (const std::vector<Tensor>& start : {mixed, empty}) {
      INFO(kind.name << " of " << start.size());
      const OptimizerOutcome here = counted(kind.make, start, cpu),
                             there = counted(kind.make, start, kDevice);
      CHECK(there.counts == 0);
      CHECK(there.steps == here.steps);
      CHECK(here.steps[0] == 4);
      if (!kind.measures_norms) CHECK(there.values == here.values);
    }
  const std::vector<Tensor> matrices{randn({5, 3}), randn({0, 3}), randn({2, 9})};
  const auto muon = optimizers::factory<optim::Muon>(optim::MuonOptions{});
  const OptimizerOutcome here = counted(muon, matrices, cpu),
                         there = counted(muon, matrices, kDevice);
  CHECK(there.counts == 0);
  CHECK(there.steps == here.steps);
}
