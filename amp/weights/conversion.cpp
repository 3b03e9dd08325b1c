#include "conversion.h"

#include <unordered_map>

#include "../../autograd/node.h"
#include "../../nn/rebind.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/create.h"
#include "../../tensor/ops/elementwise/arithmetic.h"
#include "../../tensor/ops/elementwise/compare.h"
#include "../../tensor/ops/elementwise/functions.h"
#include "../../tensor/ops/elementwise/operators.h"
#include "../../tensor/ops/elementwise/selection.h"
#include "../../tensor/ops/reduce/arg_reduce.h"
#include "../../tensor/ops/reduce/reduce.h"
#include "../../tensor/ops/shape/join.h"
#include "../../tensor/text/text.h"
#include "master.h"

namespace mezzo::amp {

// ---- conversion --------------------------------------------------------------------------------

void check_incoming(const nn::Module& model) {
  for (const auto& list : {model.named_parameters(), model.named_buffers()})
    for (const nn::NamedTensor& entry : list)
      if (is_low(entry.tensor.dtype()))
        fail<DtypeError>(
            "amp::initialize",
            {.what = str("\"", entry.name, "\" of ", model.kind(), " is 16-bit already"),
             .got = str(entry.tensor),
             .expected = "f32 or f64",
             .hint = "pass the f32 model, or set allow_incoming_model_not_fp32"});
}

Conversion::Conversion(std::span<const nn::Module> models, const Options& options) {
  const std::optional<DType> dtype = options.model_dtype();
  if (!dtype) return;
  const NoGradNoCasts plain_ops;
  for (const nn::Module& model : models)
    for (const nn::Module& module : model.modules())
      plan_module(module, *dtype, options.keeps_batchnorm());
}

void Conversion::plan_module(const nn::Module& module, DType dtype, bool keep_batchnorm) {
  if (keep_batchnorm && module.keeps_f32_under_amp()) return;
  for (const auto* list : {&module.own_parameters(), &module.own_buffers()})
    for (const nn::NamedTensor& entry : *list)
      if (!entry.keep_f32) plan_tensor(entry.tensor, dtype);
}

void Conversion::plan_tensor(const Tensor& leaf, DType dtype) {
  if (!eligible(leaf.dtype()) || leaf.dtype() == dtype) return;
  if (!planned_.insert(leaf.impl()).second) return;
  const Tensor original = leaf.detach(), grad = leaf.grad();
  changes_.push_back({leaf, original, original.to(dtype), grad,
                      grad.defined() ? grad.detach().to(dtype) : Tensor{}});
}

void Conversion::apply(SessionCore& core) const {
  core.lowered.reserve(changes_.size());
  for (const Change& change : changes_) {
    rebind(change.leaf, change.converted);
    change.leaf.set_grad(change.converted_grad);
    if (!is_low(change.leaf.dtype())) continue;
    core.lowered.push_back(change.leaf);
    if (change.leaf.device() == cpu) change.leaf.impl()->storage->keep_packed();
  }
}

void Conversion::undo() const {
  for (const Change& change : changes_) {
    rebind(change.leaf, change.original);
    change.leaf.set_grad(change.grad);
  }
}

void Conversion::keep_originals(SessionCore& core) const {
  const NoGradNoCasts plain_ops;
  MasterChanges kept(core.masters);
  for (const Change& change : changes_)
    if (is_low(change.leaf.dtype())) kept.keep(change.leaf, change.original.to(f32));
  kept.commit();
}

namespace {

/** What the conversion of a tensor to 16 bits has lost, as f32[5]: the number of elements that
 *  became infinite, the largest error and magnitude, the numbers of elements that became zero and
 *  that were not zero. */
Tensor loss_numbers(const Tensor& from, const Tensor& to) {
  const Tensor x = from.to(f32), y = to.to(f32), finite = isfinite(x), kept = isfinite(y);
  const Tensor zeros = zeros_like(x);
  return stack({count_nonzero(logical_and(finite, logical_not(kept))).to(f32),
                max(abs(where(logical_and(finite, kept), x - y, zeros))),
                max(abs(where(finite, x, zeros))),
                count_nonzero(logical_and(x != 0, y == 0)).to(f32), count_nonzero(x).to(f32)});
}

/** Returns what has happened to a tensor; empty if its largest element was rounded only, and less
 *  than 1 % of the others became zero. */
std::string_view loss_text(DType dtype, std::span<const float> numbers) {
  const float unit = dtype == f16 ? 0x1p-11f : 0x1p-8f;
  if (numbers[0] > 0) return "has values that become infinite";
  if (numbers[1] > unit * numbers[2] * 1.01f) return "has only values that lose digits";
  if (numbers[3] > 0.01f * numbers[4]) return "has values that become zero";
  return {};
}

}  // namespace

std::string Conversion::losses(std::span<const nn::Module> models) const {
  const NoGradNoCasts plain_ops;
  std::vector<const Change*> lowered;
  std::vector<Tensor> numbers;
  for (const Change& change : changes_) {
    if (!is_low(change.converted.dtype()) || change.leaf.numel() == 0) continue;
    lowered.push_back(&change);
    numbers.push_back(loss_numbers(change.original, change.converted).to(cpu));
  }
  std::unordered_map<const TensorImpl*, std::string_view> found;
  for (std::size_t i = 0; i < lowered.size(); ++i)
    if (const std::string_view text =
            loss_text(lowered[i]->converted.dtype(), {numbers[i].data<float>(), 5});
        !text.empty())
      found.emplace(lowered[i]->leaf.impl(), text);
  std::string out;
  for (const nn::Module& model : models)
    for (const auto& list : {model.named_parameters(), model.named_buffers()})
      for (const nn::NamedTensor& entry : list)
        if (const auto at = found.find(entry.tensor.impl()); at != found.end()) {
          out += str(out.empty() ? "" : ", ", entry.name, " ", at->second);
          found.erase(at);
        }
  return out;
}

Restoration::Restoration(SessionCore& core) : core_(core) {
  const NoGradNoCasts plain_ops;
  for (const Tensor& leaf : core.lowered) {
    if (!is_low(leaf.dtype())) continue;  // the user has converted it to another type
    const Master* entry = core.masters.find(leaf);
    const Tensor grad =
        entry && entry->is_updated() ? masters_gradient(leaf, entry->master) : leaf.grad();
    if (grad.defined()) (void)grad_state(leaf);  // allocate it here, so that apply() does not
    originals_.push_back({leaf, entry ? Masters::reconciled(*entry) : leaf.detach().to(f32),
                          grad.defined() ? grad.detach().to(leaf.device()).to(f32) : Tensor{}});
  }
}

void Restoration::apply() const {
  for (const Original& original : originals_) {
    rebind(original.leaf, original.value);
    original.leaf.set_grad(original.grad);
  }
  core_.lowered.clear();
}

// ---- calls and states --------------------------------------------------------------------------

namespace {

/** Returns true if no other tensor shares the memory of y, except one that y is a view of and that
 *  only y refers to: then no code can write to the memory after y is destroyed. */
bool is_unshared(const Tensor& y) {
  if (!y.defined()) return false;
  const GradState* const state = find_grad_state(y);
  const bool has_base = state && state->view_base.defined();
  const bool owns_base = has_base && state->view_base.impl()->owners() == 1 &&
                         state->view_base.impl()->storage == y.impl()->storage;
  return y.impl()->owners() == 1 && y.impl()->storage->owners() == (owns_base ? 2 : 1);
}

/** Casts the inputs and outputs of a model, and makes its session decide about the ops inside. */
class ModelCasts final : public nn::CallWrapper {
 public:
  ModelCasts(std::shared_ptr<SessionCore> core, std::optional<DType> in, std::optional<DType> out)
      : core_(std::move(core)), in_(in), out_(out) {}

  void begin() override { ThreadCasts::here().enter_model(core_); }
  void end() noexcept override { ThreadCasts::here().leave_model(); }
  Tensor cast_in(const Tensor& x) const override { return cast(x, in_, "model input", false); }
  Tensor cast_out(const Tensor& y) const override {
    return cast(y, out_, "model output", is_unshared(y));
  }
  std::optional<DType> dtype_in() const override { return in_; }
  std::optional<DType> dtype_out() const override { return out_; }

 private:
  Tensor cast(const Tensor& x, std::optional<DType> dtype, std::string_view where,
              bool late) const {
    if (!dtype) return x;
    CastState uncached;
    uncached.prints = core_->prints_casts;
    return cast_eligible(x, *dtype, uncached, {where, "model"}, late);
  }

  std::shared_ptr<SessionCore> core_;
  std::optional<DType> in_, out_;
};

/** Saves 16-bit tensors as f32, from their masters if they have one, and loads into both. */
class Fp32State final : public nn::StateRule {
 public:
  explicit Fp32State(std::shared_ptr<SessionCore> core) : core_(std::move(core)) {}

  Tensor save(const Tensor& tensor) const override {
    if (!is_low(tensor.dtype())) return tensor;
    const Master* entry = core_->masters.find(tensor);
    return entry ? Masters::reconciled(*entry) : tensor.detach().to(f32);
  }

  void stage(const Tensor& tensor, const Tensor& value, PendingWrites& writes) const override {
    const Master* entry = core_->masters.find(tensor);
    if (!entry) return writes.add(tensor, value);
    const Tensor wide = value.to(f32);
    writes.add(entry->master, wide);
    writes.add(tensor, wide);
  }

  void loaded(const Tensor& tensor) const noexcept override {
    if (Master* entry = core_->masters.find(tensor)) entry->in_step();
  }

 private:
  std::shared_ptr<SessionCore> core_;
};

}  // namespace

void attach_models(const std::shared_ptr<SessionCore>& core) {
  const Options& p = core->options;
  const std::optional<DType> in = p.model_dtype();
  const std::optional<DType> out = p.cast_model_outputs ? p.cast_model_outputs
                                   : in                 ? std::optional(f32)
                                                        : std::nullopt;
  const auto wrapper = std::make_shared<ModelCasts>(core, in, out);
  const auto rule = in ? std::make_shared<const Fp32State>(core) : nullptr;
  for (const nn::Module& model : core->models)
    for (const nn::Module& module : model.modules()) core->modules.push_back(module);
  for (const nn::Module& model : core->models) model.set_call_wrapper(wrapper);
  for (const nn::Module& module : core->modules) {
    module.set_state_rule(rule);
    module.set_attached_to(core.get());
  }
}

void detach_models(SessionCore& core) noexcept {
  // The wrappers and rules reference the core: the caller must hold a reference of its own.
  for (const nn::Module& model : core.models) model.set_call_wrapper(nullptr);
  for (const nn::Module& module : core.modules) {
    module.set_state_rule(nullptr);
    module.set_attached_to(nullptr);
  }
  core.modules.clear();
  core.models.clear();
}

}  // namespace mezzo::amp
