// Several processes train bit for bit as one process that accumulates their batches.
#include "../support/levels.h"
#include "trainees.h"

using namespace trainees;

namespace {

struct Kind {
  std::string net, level, optimizer;
};

constexpr int kSteps = 20;

/** Bitwise equality with accumulation: sums in the gradients' dtype, without a division before. */
nn::DistributedDataParallelOptions exact() {
  return {.comm = ranks(),
          .first_bucket_mib = 0.002,
          .reduce_dtype = nn::ReduceDtype::same,
          .predivide_factor = 1,
          .order = comm::Order::ranks};
}

/** At O3 the average of 16-bit gradients would be rounded to 16 bits again: there the step divides
 *  the sum. */
bool divides_in_step(const Kind& kind) { return kind.level == "O3"; }

/** Trains in one process on the batches of all ranks, in turn. */
states::State accumulated(const Kind& kind, int batches) {
  const Trainee trainee = make(kind.net);
  const MadeOptimizer optimizer = make_optimizer(kind.optimizer, trainee.module);
  auto session = amp::initialize(trainee.module, *optimizer, quiet(kind.level));
  for (int step = 0; step < kSteps; ++step) {
    optimizer->zero_grad();
    for (int batch = 0; batch < batches; ++batch)
      amp::scale_loss(trainee.loss(static_cast<std::uint64_t>(step * batches + batch)), *optimizer,
                      {.delay_unscale = batch + 1 < batches},
                      [](const Tensor& loss) { loss.backward(); });
    (void)optimizer->step({.inv_scale = 1.0 / batches});
  }
  states::State state;
  add_state(state, trainee.module, *optimizer, session);
  return state;
}

/** Trains on the batches of this rank. */
states::State reduced(const Kind& kind, nn::DistributedDataParallelOptions options,
                      std::uint64_t seed = 1, int steps = kSteps) {
  if (divides_in_step(kind)) options.average = false;
  const Trainee trainee = make(kind.net, seed);
  const MadeOptimizer optimizer = make_optimizer(kind.optimizer, trainee.module);
  auto session = amp::initialize(trainee.module, *optimizer, quiet(kind.level));
  const nn::DistributedDataParallel<nn::Module> net(trainee.module, options);
  const int batches = ranks().size();
  for (int step = 0; step < steps; ++step) {
    optimizer->zero_grad();
    amp::scale_loss(trainee.loss(static_cast<std::uint64_t>(step * batches + ranks().rank())),
                    *optimizer, [](const Tensor& loss) { loss.backward(); });
    (void)optimizer->step({.inv_scale = divides_in_step(kind) ? 1.0 / batches : 1.0});
  }
  states::State state;
  add_state(state, trainee.module, *optimizer, session);
  return state;
}

template <class F> void for_each_kind(const F& f) {
  for (const char* net : {"mlp", "lenet", "char_gpt", "char_lstm"})
    for (const char* level : levels::names())
      for (const char* optimizer : {"SGD", "AdamW", "LAMB"}) f(Kind{net, level, optimizer});
}

}  // namespace

TEST_CASE("N ranks train bit for bit as one process that accumulates N batches") {
  for_each_kind([](const Kind& kind) {
    INFO(kind.net << ", " << kind.level << ", " << kind.optimizer << ", rank " << ranks().rank()
                  << " of " << ranks().size());
    CHECK(states::difference(accumulated(kind, ranks().size()), reduced(kind, exact())) == "");
  });
}

TEST_CASE("all ranks have the same weights, masters and moments, whatever they started with") {
  using Options = nn::DistributedDataParallelOptions;
  const std::vector<Options> all{
      {.comm = ranks()},
      {.comm = ranks(), .overlap = false},
      {.comm = ranks(), .first_bucket_mib = 0.0001, .order = comm::Order::fast},
      {.comm = ranks(), .reduce_dtype = nn::ReduceDtype::f32, .gradients_are_views = false},
      {.comm = ranks(), .average = false, .static_graph = true}};
  std::uint64_t seed = 0;
  for (const Options& options : all)
    for (const char* level : levels::names())
      for (const char* net : {"mlp", "char_gpt"}) {
        const Kind kind{net, level, "AdamW"};
        const auto mine = ++seed * 10 + static_cast<std::uint64_t>(ranks().rank());
        INFO(net << ", " << level << ", options " << &options - all.data());
        CHECK(difference_between_ranks(reduced(kind, options, mine)) == "");
      }
}

TEST_CASE("after 200 steps all ranks still have the same state") {
  for (const comm::Order order : {comm::Order::ranks, comm::Order::fast})
    for (const char* level : levels::names())
      for (const char* optimizer : {"SGD", "AdamW"}) {
        const Kind kind{"mlp", level, optimizer};
        INFO(level << ", " << optimizer << (order == comm::Order::fast ? ", fast" : ", ranks"));
        CHECK(difference_between_ranks(reduced(kind, {.comm = ranks(), .order = order},
                                               1 + static_cast<std::uint64_t>(ranks().rank()),
                                               200)) == "");
      }
}

TEST_CASE("a second training has the same bits, also with another number of threads") {
  const int before = num_threads();
  for (const char* net : {"mlp", "lenet", "char_gpt", "char_lstm"})
    for (const char* level : levels::names()) {
      const Kind kind{net, level, "AdamW"};
      INFO(net << ", " << level);
      set_num_threads(1);
      const states::State first = reduced(kind, {.comm = ranks()});
      CHECK(states::difference(first, reduced(kind, {.comm = ranks()})) == "");
      set_num_threads(2);
      CHECK(states::difference(first, reduced(kind, {.comm = ranks()})) == "");
    }
  set_num_threads(before);
}

TEST_CASE("f32 sums of 16-bit gradients reach the masters without rounding") {
  // = N scopes without delay: each adds its unrounded gradient to the master's.
  for (const char* level : {"O2", "O5"}) {
    const Kind kind{"mlp", level, "SGD"};
    const int batches = ranks().size();
    if ((batches & (batches - 1)) != 0) continue;
    amp::Options static_scale = quiet(level);
    static_scale.loss_scale = 128.0;
    const auto run = [&](bool several) {
      const Trainee copy = make(kind.net);
      const MadeOptimizer its = make_optimizer(kind.optimizer, copy.module);
      auto session = amp::initialize(copy.module, *its, static_scale);
      nn::DistributedDataParallelOptions options = exact();
      options.reduce_dtype = nn::ReduceDtype::f32;
      std::unique_ptr<nn::DistributedDataParallel<nn::Module>> net;
      if (several)
        net = std::make_unique<nn::DistributedDataParallel<nn::Module>>(copy.module, options);
      for (int step = 0; step < kSteps; ++step) {
        its->zero_grad();
        for (int batch = 0; batch < batches; ++batch) {
          if (several && batch != ranks().rank()) continue;
          amp::scale_loss(copy.loss(static_cast<std::uint64_t>(step * batches + batch)), *its,
                          [](const Tensor& loss) { loss.backward(); });
        }
        (void)its->step({.inv_scale = several ? 1.0 : 1.0 / batches});
      }
      states::State state;
      add_state(state, copy.module, *its, session);
      state.erase("loss_scaler0.unskipped");  // counts scopes
      return state;
    };
    INFO(level);
    CHECK(states::difference(run(false), run(true)) == "");
  }
}
