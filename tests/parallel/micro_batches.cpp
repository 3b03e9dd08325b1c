// Gradient accumulation: each way to add up micro-batches is bit for bit that of one process.
#include "../support/levels.h"
#include "weighted.h"

using namespace trainees;

namespace {

constexpr int kPlanSteps = 4;

/** How the micro-batches of a step before the last one run. */
enum class Way : std::uint8_t {
  local_delayed,    // under no_sync, with delay_unscale
  local,            // under no_sync; only where scopes do nothing
  reduced_delayed,  // reduced, with delay_unscale
  reduced,          // reduced and unscaled
};

struct Plan {
  std::string level;
  Way way;
  int micro_batches;
};

/** Returns whether the gradients of micro-batches are added up before they are reduced. */
bool is_local(Way way) { return way == Way::local_delayed || way == Way::local; }
bool is_delayed(Way way) { return way == Way::local_delayed || way == Way::reduced_delayed; }

/** Averages that are not exact, or would be rounded to 16 bits, are left to the step. */
bool averages(const Plan& plan) { return (size() & (size() - 1)) == 0 && plan.level != "O3"; }

std::uint64_t batch_number(const Plan& plan, int step, int of_rank, int micro_batch) {
  return static_cast<std::uint64_t>((step * size() + of_rank) * plan.micro_batches + micro_batch);
}

states::State state_of(const Trainee& trainee, optim::Optimizer& optimizer,
                       const amp::Session& session) {
  states::State state;
  add_state(state, trainee.module, optimizer, session);
  return state;
}

/** Trains on the batches of this rank. */
states::State reduced_plan(const Plan& plan) {
  const Trainee trainee = make("mlp", 1 + static_cast<std::uint64_t>(rank()));
  const MadeOptimizer optimizer = make_optimizer("SGD", trainee.module);
  auto session = amp::initialize(trainee.module, *optimizer, quiet(plan.level));
  const nn::DistributedDataParallel<nn::Module> net(trainee.module,
                                                    {.comm = ranks(),
                                                     .first_bucket_mib = 0.002,
                                                     .reduce_dtype = nn::ReduceDtype::same,
                                                     .average = averages(plan),
                                                     .predivide_factor = 1,
                                                     .order = comm::Order::ranks});
  for (int step = 0; step < kPlanSteps; ++step) {
    optimizer->zero_grad();
    for (int i = 0; i < plan.micro_batches; ++i) {
      const bool is_last = i + 1 == plan.micro_batches;
      std::optional<nn::NoSync> local;
      if (!is_last && is_local(plan.way)) local.emplace(net.no_sync());
      amp::scale_loss(trainee.loss(batch_number(plan, step, rank(), i)), *optimizer,
                      {.delay_unscale = !is_last && is_delayed(plan.way)},
                      [](const Tensor& loss) { loss.backward(); });
    }
    (void)optimizer->step({.inv_scale = averages(plan) ? 1.0 : 1.0 / size()});
  }
  return state_of(trainee, *optimizer, session);
}

/** Gradients of all parameters, or none. */
class Gradients {
 public:
  /** Takes the gradients away from the model. */
  static Gradients taken_from(const nn::Module& model) {
    Gradients taken;
    for (const Tensor& p : model.parameters()) taken.grads_.push_back(p.grad()), p.set_grad({});
    return taken;
  }
  /** Sets the model's gradients to the sum of these and its own, in this order. */
  void add_before(const nn::Module& model) const {
    const std::vector<Tensor> params = model.parameters();
    for (std::size_t i = 0; i < grads_.size(); ++i)
      if (grads_[i].defined())
        params[i].set_grad(params[i].grad().defined() ? grads_[i] + params[i].grad() : grads_[i]);
  }

 private:
  std::vector<Tensor> grads_;
};

/** A backward pass of the one process. */
struct Pass {
  int of_rank, micro_batch;
  bool delays;       // unscaling
  bool begins_part;  // of the sum: its own gradients are added up first
  bool ends_part;    // and then added to those before
};

/** Returns the passes of a step in an order in which one process adds gradients as several do. */
std::vector<Pass> passes_of(const Plan& plan) {
  std::vector<Pass> passes;
  const int n = plan.micro_batches, last = size() - 1;
  if (is_local(plan.way)) {  // a part for each rank
    for (int r = 0; r < size(); ++r)
      for (int i = 0; i < n; ++i)
        passes.push_back({r, i, r < last || i + 1 < n, i == 0, i + 1 == n});
  } else {  // a part for each micro-batch
    for (int i = 0; i < n; ++i)
      for (int r = 0; r < size(); ++r)
        passes.push_back(
            {r, i, r < last || (is_delayed(plan.way) && i + 1 < n), r == 0, r == last});
  }
  return passes;
}

/** Trains in one process on the batches of all ranks. */
states::State accumulated_plan(const Plan& plan) {
  const Trainee trainee = make("mlp", 1);
  const MadeOptimizer optimizer = make_optimizer("SGD", trainee.module);
  auto session = amp::initialize(trainee.module, *optimizer, quiet(plan.level));
  for (int step = 0; step < kPlanSteps; ++step) {
    optimizer->zero_grad();
    Gradients former;
    for (const Pass& pass : passes_of(plan))
      amp::scale_loss(trainee.loss(batch_number(plan, step, pass.of_rank, pass.micro_batch)),
                      *optimizer, {.delay_unscale = pass.delays}, [&](const Tensor& loss) {
                        if (pass.begins_part) former = Gradients::taken_from(trainee.module);
                        loss.backward();
                        if (pass.ends_part) former.add_before(trainee.module);
                      });
    (void)optimizer->step({.inv_scale = 1.0 / size()});
  }
  return state_of(trainee, *optimizer, session);
}

}  // namespace

TEST_CASE("accumulation over micro-batches is bit for bit that of one process") {
  for (const char* level : levels::names())
    for (const Way way : {Way::local_delayed, Way::local, Way::reduced_delayed, Way::reduced})
      for (const int micro_batches : {1, 2, 5}) {
        if (way == Way::local && scales(level)) continue;
        const Plan plan{level, way, micro_batches};
        INFO(level << ", way " << static_cast<int>(way) << ", " << micro_batches);
        const states::State state = reduced_plan(plan);
        CHECK(difference_between_ranks(state) == "");
        CHECK(states::difference(accumulated_plan(plan), state) == "");
      }
}
