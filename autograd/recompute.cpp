#include "recompute.h"

#include <utility>
#include <vector>

#include "../tensor/core/dispatch.h"
#include "../tensor/random/draw.h"
#include "../tensor/text/text.h"
#include "op_node.h"

namespace mezzo {

namespace {

CastRecorder& recorder() {
  static CastRecorder instance = nullptr;
  return instance;
}

thread_local RecomputedRegion::Run* current_run = nullptr;

}  // namespace

void set_cast_recorder(CastRecorder new_recorder) { recorder() = new_recorder; }

RecomputedRegion::Run::Run(RecomputedRegion& region, bool again)
    : region_(region), outer_(current_run), again_(again) {
  current_run = this;
}

RecomputedRegion::Run::~Run() { current_run = outer_; }

RecomputedRegion* RecomputedRegion::current() {
  return current_run ? &current_run->region_ : nullptr;
}

struct RecomputedRegion::State {
  std::vector<SavedTensor> arguments = {};
  Ref<RecomputedRegion> outer = {};  // recomputes arguments that are results of an enclosing region
  Generator generator;
  std::shared_ptr<const CastRecord> casts;
  std::vector<TensorMeta> slots = {};    // of the first run
  std::vector<SavedTensor> values = {};  // of the second run

  /** Returns the arguments. Errors: StateError for one that was modified in place. */
  std::vector<Tensor> unpacked_arguments() const;
};

RecomputedRegion::RecomputedRegion(std::span<const Tensor> arguments)
    : state_(new State{.generator = default_generator(),
                       .casts = recorder() ? recorder()() : nullptr}) {
  RecomputedRegion* outer = current();
  for (const Tensor& x : arguments) {
    const SavedTensor kept =
        outer && x.defined() ? outer->keep(x) : SavedTensor{x, x.defined() ? x.version() : 0};
    if (kept.slot != SavedTensor::kHere) state_->outer = Ref<RecomputedRegion>(outer);
    state_->arguments.push_back(kept);
  }
}

RecomputedRegion::~RecomputedRegion() = default;

SavedTensor RecomputedRegion::keep(const Tensor& x) {
  const std::uint32_t slot = current_run->next_slot_++;
  if (current_run->again_) {
    if (slot < state_->slots.size()) {
      const TensorMeta& first = state_->slots[slot];
      if (!(x.shape() == first.shape) || x.dtype() != first.dtype)
        fail<StateError>("checkpoint",
                         {.what = "the function saves other tensors when it runs again",
                          .got = str(x),
                          .expected = str(first.dtype, str(first.shape)),
                          .hint = "it must do the same whenever it is called"});
    }
    if (state_->values.size() <= slot) state_->values.resize(slot + 1);
    state_->values[slot] = {x, x.version()};
    return {x, x.version()};
  }
  state_->slots.push_back({x.shape(), x.dtype(), x.device()});
  bool stays_alive = x.is_leaf() && x.requires_grad();
  for (const SavedTensor& argument : state_->arguments)
    stays_alive = stays_alive || argument.tensor.is_same(x);
  if (stays_alive) return {x, x.version()};
  return {{}, 0, slot};
}

SavedTensor RecomputedRegion::value(std::uint32_t slot) {
  const auto missing = [&] {
    return slot >= state_->values.size() || !state_->values[slot].tensor.defined();
  };
  if (missing()) compute_again();
  if (missing())
    fail<StateError>("checkpoint", {.what = "the function saves fewer tensors when it runs again",
                                    .got = str(state_->values.size()),
                                    .expected = str(state_->slots.size()),
                                    .hint = "it must do the same whenever it is called"});
  return std::exchange(state_->values[slot], SavedTensor{});
}

std::vector<Tensor> RecomputedRegion::State::unpacked_arguments() const {
  std::vector<Tensor> tensors;
  for (const SavedTensor& kept : arguments) {
    const SavedTensor x = kept.slot == SavedTensor::kHere ? kept : outer->value(kept.slot);
    if (x.tensor.defined() && x.tensor.version() != x.version)
      fail<StateError>("checkpoint",
                       {.what = "an argument was modified in place before the backward pass",
                        .got = str(x.tensor, " at version ", x.tensor.version()),
                        .expected = str("version ", x.version),
                        .hint = "use the out-of-place form"});
    tensors.push_back(x.tensor);
  }
  return tensors;
}

void RecomputedRegion::run_in_recorded_state() {
  const std::vector<Tensor> x = state_->unpacked_arguments();
  const GradMode recording(true);
  const GeneratorScope random(state_->generator);
  const Run run(*this, true);
  run_again(x);
}

void RecomputedRegion::compute_again() {
  try {
    if (state_->casts)
      state_->casts->run(
          [](void* self) { static_cast<RecomputedRegion*>(self)->run_in_recorded_state(); }, this);
    else
      run_in_recorded_state();
  } catch (...) {
    state_->values.clear();
    throw;
  }
}

}  // namespace mezzo
