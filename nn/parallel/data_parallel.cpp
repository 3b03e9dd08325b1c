#include "data_parallel.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "../../autograd/leaf_lock.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/elementwise/pointwise.h"
#include "../../tensor/random/generator.h"
#include "../../tensor/text/text.h"
#include "broadcast_state.h"
#include "compare_ranks.h"

namespace mezzo::nn {

namespace {

std::int64_t bytes_of(double mib) {
  return static_cast<std::int64_t>(std::min(mib * (1 << 20), 0x1p62));
}

}  // namespace

// ---- construction -------------------------------------------------------------------------------

DataParallel::DataParallel(const Module& model, const comm::Communicator& ranks,
                           const DistributedDataParallelOptions& options)
    : model_(model), ranks_(ranks), options_(options), averaging_(options, ranks.size()) {
  const NoGradNoCasts plain_ops;
  add_params(model);
  compare_ranks(model, ranks, options);
  broadcast_state(model, ranks);
  std::vector<std::size_t> order(params_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  plan(order);
  const AttachedSession* const session = model.attached_to();
  checks_ = has_checked_ = session && session->checks_gradients();
  if (options.own_random_streams) use_own_random_stream(default_generator(), ranks.rank());
  if (!params_.empty()) overflow_ = optim::FoundInf::reset_on(params_[0].leaf.device());
  for (std::size_t i = 0; i < params_.size(); ++i) {
    GradState& state = grad_state(params_[i].leaf);
    state.receiver = this;
    state.receiver_index = i;
  }
}

DataParallel::~DataParallel() {
  const NoGradNoCasts plain_ops;
  for (Param& param : params_) {
    GradState& state = grad_state(param.leaf);
    state.receiver = nullptr;
    param.slot = {};
    if (param.unreduced && state.grad.defined() && param.earlier.defined())
      restore_gradient(param.leaf, add(param.earlier, state.grad), mark_of_sum(param));
    const Tensor grad = state.grad;
    if (grad.defined() && grad.impl()->storage->owners() > 1) param.leaf.set_grad(grad.clone());
  }
}

void DataParallel::add_params(const Module& model) {
  for (const NamedTensor& entry : model.named_parameters()) {
    const Tensor& leaf = entry.tensor;
    if (!leaf.requires_grad()) {
      frozen_.push_back(entry);
      continue;
    }
    if (gradient_receiver(leaf))
      fail<StateError>(kOp, {.what = "another wrapper reduces a gradient of this model",
                             .got = entry.name,
                             .hint = "close() the other wrapper first"});
    const bool wide = options_.reduce_dtype == ReduceDtype::f32 && is_low(leaf.dtype());
    params_.push_back({.name = entry.name,
                       .leaf = leaf,
                       .dtype = leaf.dtype(),
                       .reduce_dtype = wide ? DType::f32 : leaf.dtype()});
  }
  for (const Tensor& trigger : options_.triggers)
    if (std::none_of(params_.begin(), params_.end(),
                     [&](const Param& param) { return param.leaf.is_same(trigger); }))
      fail<ValueError>(
          kOp, {.what = "a trigger is no trained parameter of the model", .got = str(trigger)});
}

void DataParallel::plan(std::span<const std::size_t> order) {
  std::vector<BucketItem> items;
  for (const Param& param : params_) {
    const bool is_trigger =
        std::any_of(options_.triggers.begin(), options_.triggers.end(),
                    [&](const Tensor& trigger) { return trigger.is_same(param.leaf); });
    items.push_back({param.reduce_dtype, param.leaf.device(), param.leaf.numel(), is_trigger});
  }
  const bool on_cpu = params_.empty() || params_[0].leaf.device() == cpu;
  buckets_.clear();
  for (BucketPlan& plan :
       plan_buckets(items, order,
                    {.first_bytes = bytes_of(options_.first_bucket_mib),
                     .bytes = bytes_of(options_.bucket_mib.value_or(on_cpu ? 4 : 25)),
                     .by_items = !options_.triggers.empty()})) {
    for (const std::size_t index : plan.items) params_[index].bucket = buckets_.size();
    buckets_.push_back({.plan = std::move(plan)});
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i].label = label_of(i);
  const std::string text = plan_text();
  const auto round_of = [&](std::string_view line) {
    auto lines = std::make_shared<const std::string>(str(line, text));
    return RoundText{lines, comm::signature_of(*lines)};
  };
  first_round_ = round_of("the first pass after zero_grad()\n");
  further_round_ = round_of("a further pass, which adds to reduced gradients\n");
}

/** Returns "bucket 3 of 7 (fc1.weight ... conv2.weight)". */
std::string DataParallel::label_of(std::size_t bucket) const {
  const std::vector<std::size_t>& items = buckets_[bucket].plan.items;
  std::string names = params_[items.front()].name;
  if (items.size() > 1) names += " ... " + params_[items.back()].name;
  return str("bucket ", bucket + 1, " of ", buckets_.size(), " (", names, ")");
}

std::string DataParallel::plan_text() const {
  std::string text;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    text += str("bucket ", i + 1, ": ", buckets_[i].plan.dtype, " x ", buckets_[i].plan.numel, ":");
    for (const std::size_t index : buckets_[i].plan.items) text += " " + params_[index].name;
    text += "\n";
  }
  return text;
}

void DataParallel::before_forward() const {
  if (options_.broadcast_buffers != BroadcastBuffers::each_forward || *local_scopes_ > 0) return;
  const NoGradNoCasts plain_ops;
  for (const NamedTensor& buffer : model_.named_buffers())
    ranks_.broadcast(flat(buffer.tensor), 0, {.label = buffer.name}).wait();
}

// ---- averaging ----------------------------------------------------------------------------------

bool DataParallel::has_masters() const {
  const AttachedSession* session = model_.attached_to();
  return session && session->has_masters();
}

/** Returns true if the end of a scale_loss scope multiplies by Averaging::factor_after(), in f32,
 * so that the average is not rounded to 16 bits. */
bool DataParallel::averages_in_scope(const Param& param) const {
  return is_low(param.reduce_dtype) && has_masters();
}

/** Returns true if the masters get the f32 sum. */
bool DataParallel::keeps_wide(const Param& param) const {
  return param.reduce_dtype != param.dtype && has_masters();
}

ReceivedGradient DataParallel::received(std::size_t index) const {
  const Param& param = params_[index];
  return {.wide = param.wide,
          .factor = averages_in_scope(param) ? averaging_.factor_after(param.reduce_dtype) : 1};
}

// ---- agreement ----------------------------------------------------------------------------------

std::vector<double> DataParallel::gather(std::span<const double> numbers) {
  return ranks_.gather(numbers);
}

std::optional<bool> DataParallel::found_local_overflow() {
  checks_ = resets_overflow_ = true;
  if (!has_checked_) return std::nullopt;
  return overflow_.raised();
}

// ---- local gradients ----------------------------------------------------------------------------

bool DataParallel::has_unreduced(std::size_t index) const {
  return params_[index].unreduced && params_[index].leaf.grad().defined();
}

void DataParallel::drop_local(std::size_t index) {
  Param& param = params_[index];
  if (has_unreduced(index)) restore_gradient(param.leaf, param.earlier, param.earlier_mark);
  param.forget();
  holds_reduced_ = false;
}

/** Drops the state of a gradient that the program has removed. */
void DataParallel::Param::forget_dropped() {
  if (!leaf.grad().defined()) forget();
}

/** Returns the mark of the sum of the leaf's gradient and of the one put aside: the same on every
 *  rank, whether or not the rank has a local gradient. */
GradientMark DataParallel::mark_of_sum(const Param& param) {
  GradientMark mark = gradient_mark(param.leaf);
  const auto is_delayed = [&] { return mark.scale == GradientScale::delayed; };
  if (param.earlier.defined() && !is_delayed()) mark = param.earlier_mark;
  return is_delayed() || is_unscaled(mark.scale) ? mark : GradientMark{};
}

/** Prepares for a local contribution, which the engine adds to the leaf's gradient. */
void DataParallel::keep_local(std::size_t index) {
  Param& param = params_[index];
  param.forget_dropped();
  if (!param.unreduced && param.leaf.grad().defined()) {
    put_aside_.push_back(index);
    param.earlier = param.leaf.grad();
    param.earlier_mark = gradient_mark(param.leaf);
    param.leaf.set_grad({});
    // The parameter stays marked, as on ranks without a local contribution.
    GradState& state = grad_state(param.leaf);
    const auto lock = locked(state);
    state.mark = param.earlier_mark;
  }
  param.unreduced = true;
}

/** Undoes keep_local() after a pass that failed, and so added nothing to the leaves. */
void DataParallel::restore_put_aside() {
  for (const std::size_t index : put_aside_) {
    Param& param = params_[index];
    if (param.leaf.grad().defined()) continue;
    restore_gradient(param.leaf, std::exchange(param.earlier, {}),
                     std::exchange(param.earlier_mark, {}));
    param.unreduced = false;
  }
}

bool Averaging::sums_in_f32(DType dtype) const {
  return options_.reduce_dtype == ReduceDtype::automatic && is_low(dtype) &&
         options_.order != comm::Order::fast;
}

/** By default f16 gradients are divided by about sqrt(ranks) before the sum, so that it overflows
 *  later and the gradients do not become subnormal. */
double Averaging::predivide(DType dtype) const {
  if (options_.predivide_factor) return *options_.predivide_factor;
  if (dtype != DType::f16 || !options_.average) return 1;
  return std::exp2(std::floor(std::log2(ranks_) / 2));
}

double Averaging::factor_after(DType dtype) const {
  return options_.average ? predivide(dtype) / ranks_ : 1;
}

}  // namespace mezzo::nn
