// A backward pass of DataParallel: from the start of backward() to the gradients of the leaves.
#include <algorithm>
#include <utility>

#include "../../autograd/gradient_mark.h"
#include "../../autograd/hooks.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/core/error.h"
#include "../../tensor/ops/create.h"
#include "../../tensor/ops/elementwise/pointwise.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"
#include "broadcast_state.h"
#include "data_parallel.h"

namespace mezzo::nn {

namespace {

bool exclusively_owned(const Tensor& x) {
  return x.impl()->owners() == 1 && x.impl()->storage->owners() == 1;
}

/** Returns the tensor in the layout of the leaf's gradients: dense, in the leaf's order. */
Tensor in_layout_of(const Tensor& leaf, const Tensor& x) {
  if (same_dense_layout(x, leaf)) return x;
  return same_dense_layout(leaf, leaf) ? x.contiguous(leaf.memory_format()) : x.contiguous();
}

/** Returns a view of `numel` elements of flat memory, from `offset`, with the leaf's shape and
 *  order. */
Tensor view_shaped_as(const Tensor& leaf, const Tensor& memory, std::int64_t offset) {
  const Tensor part = memory.as_strided({leaf.numel()}, {1}, offset);
  if (leaf.is_contiguous() || !same_dense_layout(leaf, leaf)) return part.view(leaf.shape());
  return part.as_strided(leaf.shape(), leaf.strides());
}

/** Passes that are open on this thread. Only the first sends buckets before the end of backward():
 *  the operations of several would be in an order that depends on which parameters a rank uses. */
thread_local int open_passes = 0;

}  // namespace

/** Errors: StateError if a parameter has changed since construction. */
void DataParallel::require_unchanged() const {
  constexpr std::string_view kHint = "construct the wrapper anew after such changes";
  for (const Param& param : params_)
    if (param.leaf.dtype() != param.dtype || !param.leaf.requires_grad() ||
        param.leaf.device() != buckets_[param.bucket].plan.device)
      fail<StateError>(kOp, {.what = str(param.name, " has changed since the model was wrapped"),
                             .got = str(param.leaf, param.leaf.requires_grad() ? "" : ", frozen"),
                             .expected = str(param.dtype, " with gradient"),
                             .hint = std::string(kHint)});
  for (const NamedTensor& entry : frozen_)
    if (entry.tensor.requires_grad())
      fail<StateError>(kOp, {.what = str(entry.name, " was frozen when the model was wrapped"),
                             .hint = std::string(kHint)});
}

void DataParallel::begin_backward(std::span<const std::size_t> indices) {
  if (is_open_) return;
  if (*local_scopes_ > 0) {
    at_end_of_backward([this](const std::exception_ptr& failure) {
      if (failure) restore_put_aside();
      put_aside_.clear();
    });
    return;
  }
  if (grad_enabled())
    fail<Unsupported>(kOp, {.what = "create_graph = true with reduced gradients",
                            .hint = "use grad(), which reduces nothing, or no_sync()"});
  require_unchanged();
  at_end_of_backward([this](const std::exception_ptr& failure) { end_pass(failure); });
  is_open_ = true;
  sends_early_ = open_passes++ == 0;
  if (sends_early_) begin_round();
  open_pass(indices);
}

/** Begins the pass on all ranks. A rank that is a step ahead of the others, for example after
 *  no_sync() on that rank only, is found by whether there are reduced gradients already. */
void DataParallel::begin_round() {
  holds_reduced_ =
      holds_reduced_ && std::any_of(params_.begin(), params_.end(), [](const Param& param) {
        return param.earlier.defined() || (!param.unreduced && param.leaf.grad().defined());
      });
  if (options_.static_graph && statistics_.passes >= 2) return;
  const RoundText& round = holds_reduced_ ? further_round_ : first_round_;
  ranks_.begin_round({.kind = "backward", .signature = round.signature, .details = round.lines});
}

void DataParallel::open_pass(std::span<const std::size_t> indices) {
  next_sent_ = 0;
  if (std::exchange(resets_overflow_, false)) {
    overflow_.reset();
    has_checked_ = checks_;
  }
  for (Param& param : params_) {
    param.forget_dropped();
    param.expected = param.present = false;
  }
  for (Bucket& bucket : buckets_) {
    bucket.missing = 0;
    bucket.is_sent = false;
    prepare_memory(bucket);
  }
  for (const std::size_t index : indices) {
    params_[index].expected = true;
    ++buckets_[params_[index].bucket].missing;
  }
  for (Param& param : params_)
    if (!param.expected) fill_absent(param);
  if (options_.overlap && sends_early_) send_full_buckets();
}

/** Returns true if a gradient of an earlier pass is still in the bucket's memory. */
bool DataParallel::is_in_use(const Bucket& bucket) const {
  const auto known = static_cast<std::int32_t>(1 + bucket.plan.items.size());
  if (bucket.memory.impl()->storage->owners() != known) return true;
  return std::any_of(bucket.plan.items.begin(), bucket.plan.items.end(),
                     [&](std::size_t index) { return params_[index].slot.impl()->owners() != 1; });
}

void DataParallel::prepare_memory(Bucket& bucket) {
  if (bucket.plan.is_single) {
    params_[bucket.plan.items[0]].slot = {};
    return;
  }
  if (bucket.memory.defined() && !is_in_use(bucket)) return;
  bucket.memory =
      empty({bucket.plan.numel}, {.dtype = bucket.plan.dtype, .device = bucket.plan.device});
  bucket.memory.impl()->storage->set_category(MemoryCategory::gradients);
  std::int64_t offset = 0;
  for (const std::size_t index : bucket.plan.items) {
    Param& param = params_[index];
    param.slot = view_shaped_as(param.leaf, bucket.memory, offset);
    offset += param.leaf.numel();
  }
}

/** Sets the slot of a parameter that gets no gradient in this pass: to its older local gradient, or
 *  to zeros. */
void DataParallel::fill_absent(Param& param) {
  if (param.unreduced) return write(param, {});
  if (!param.slot.defined()) allocate_slot(param);
  param.slot.zero_();
}

/** Gives a parameter whose bucket has no memory a slot of its own. */
void DataParallel::allocate_slot(Param& param) const {
  const Tensor memory =
      empty({param.leaf.numel()}, {.dtype = param.reduce_dtype, .device = param.leaf.device()});
  param.slot = view_shaped_as(param.leaf, memory, 0);
}

/** Puts the gradient, plus the local one of passes before, into the slot. */
void DataParallel::write(Param& param, Tensor gradient) {
  param.present = true;
  Tensor local = param.unreduced ? in_layout_of(param.leaf, param.leaf.grad()) : Tensor{};
  if (!gradient.defined()) gradient = std::exchange(local, {});
  const bool fits = exclusively_owned(gradient) && same_dense_layout(gradient, param.leaf) &&
                    gradient.dtype() == param.reduce_dtype;
  if (buckets_[param.bucket].plan.is_single && fits)
    return adopt(param, std::move(gradient), local);
  if (!param.slot.defined()) allocate_slot(param);
  combine({in_layout_of(param.leaf, gradient), local, param.slot}, param);
}

/** Makes the gradient's own memory the slot. */
void DataParallel::adopt(Param& param, Tensor gradient, const Tensor& local) {
  combine({gradient, local, gradient}, param);
  param.slot = std::move(gradient);
}

/** Computes out = (x + y) / predivide factor, and checks for overflow if loss scaling is active. */
void DataParallel::combine(const optim::AxpbyTensors& item, const Param& param) const {
  const double factor = 1 / averaging_.predivide(param.reduce_dtype);
  const bool checks = checks_ && param.leaf.device() == overflow_.word.device();
  if (checks && item.y.defined()) {
    const optim::AxpbyTensors local{item.y, {}, {}};
    optim::check_finite({&local, 1}, overflow_);
  }
  if (item.x.is_same(item.out) && !item.y.defined() && factor == 1) {
    if (checks) optim::check_finite({&item, 1}, overflow_);
    return;
  }
  optim::axpby({&item, 1}, factor, factor, checks ? overflow_ : optim::FoundInf{});
}

bool DataParallel::receive(std::size_t index, Tensor& gradient) {
  Param& param = params_[index];
  if (!is_open_) {
    keep_local(index);
    return false;
  }
  if (param.expected) {
    write(param, std::move(gradient));
    arrive(index);
  } else {
    add_again(param, gradient);
  }
  return true;
}

/** Adds a second gradient, of a backward pass inside this one. */
void DataParallel::add_again(Param& param, const Tensor& gradient) {
  if (buckets_[param.bucket].is_sent)
    fail<StateError>(kOp, {.what = str(param.name, " gets a second gradient in one pass"),
                           .hint = "do not call backward() inside a backward pass"});
  const optim::AxpbyTensors item{in_layout_of(param.leaf, gradient), param.slot, param.slot};
  optim::axpby({&item, 1}, 1 / averaging_.predivide(param.reduce_dtype), 1);
  param.present = true;
}

void DataParallel::arrive(std::size_t index) {
  params_[index].expected = false;
  if (statistics_.passes == 0) arrivals_.push_back(index);
  --buckets_[params_[index].bucket].missing;
  if (options_.overlap && sends_early_) send_full_buckets();
}

void DataParallel::send_full_buckets() {
  for (; next_sent_ < buckets_.size() && buckets_[next_sent_].missing == 0; ++next_sent_)
    send(buckets_[next_sent_]);
}

void DataParallel::send(Bucket& bucket) {
  const Param& first = params_[bucket.plan.items.front()];
  bucket.is_sent = true;
  bucket.pending = ranks_.all_reduce(
      bucket.plan.is_single ? flat(first.slot) : bucket.memory,
      {.order = options_.order,
       .f32_sum = averaging_.sums_in_f32(first.reduce_dtype),
       .factor = averages_in_scope(first) ? 1 : averaging_.factor_after(first.reduce_dtype),
       .checked = false,
       .label = bucket.label});
}

void DataParallel::end_pass(const std::exception_ptr& failure) {
  const NoGradNoCasts plain_ops;
  if (failure) {
    ranks_.leave_round(failure);
    return reset_pass();
  }
  try {
    finish_pass();
  } catch (const CommError&) {
    reset_pass();
    throw;
  } catch (...) {
    if (is_open_) ranks_.leave_round(std::current_exception());
    reset_pass();
    throw;
  }
}

void DataParallel::close_pass() {
  if (std::exchange(is_open_, false)) --open_passes;
}

/** Drops what a failed pass has computed. The thread that communicates may still use the memory. */
void DataParallel::reset_pass() {
  close_pass();
  for (Bucket& bucket : buckets_) {
    bucket.pending = {};
    bucket.memory = {};
  }
  for (Param& param : params_) param.slot = {};
}

void DataParallel::finish_pass() {
  for (Param& param : params_)
    if (std::exchange(param.expected, false)) fill_absent(param);  // its gradient was undefined
  for (Bucket& bucket : buckets_) bucket.missing = 0;
  if (!sends_early_) begin_round();
  send_full_buckets();
  const auto computed = std::chrono::steady_clock::now();
  const std::vector<bool> used = used_anywhere();
  for (Bucket& bucket : buckets_) bucket.pending.wait();
  count_pass(std::chrono::steady_clock::now() - computed);
  const std::vector<std::size_t> order =
      statistics_.passes == 1 ? order_of_arrival() : std::vector<std::size_t>();
  ranks_.end_round();
  close_pass();
  holds_reduced_ = true;
  log_unused(used);
  for (std::size_t i = 0; i < params_.size(); ++i)
    if (used[i]) deliver(params_[i]);
  if (!order.empty()) plan(order);
  for (std::size_t i = 0; i < params_.size(); ++i)
    if (used[i]) run_post_accumulate_grad_hooks(params_[i].leaf);
}

/** Adds a pass to the statistics, at whose end it waited for so long. */
void DataParallel::count_pass(std::chrono::duration<double> waited) {
  ++statistics_.passes;
  statistics_.exposed_seconds += waited.count();
  for (const Bucket& bucket : buckets_) {
    statistics_.bytes +=
        bucket.plan.numel * static_cast<std::int64_t>(item_size(bucket.plan.dtype));
    statistics_.seconds += bucket.pending.seconds();
  }
}

/** Returns for each parameter whether a rank has a gradient for it. */
std::vector<bool> DataParallel::used_anywhere() {
  const bool all_here =
      std::all_of(params_.begin(), params_.end(), [](const Param& param) { return param.present; });
  const Tensor any_absent = full({1}, all_here ? 0 : 1);
  ranks_.all_reduce(any_absent, {.op = comm::Op::max, .checked = false, .label = "unused"}).wait();
  std::vector<bool> used(params_.size(), true);
  if (*any_absent.data<float>() == 0) return used;
  const Tensor mask = empty({static_cast<std::int64_t>(params_.size())}, {.dtype = DType::u8});
  for (std::size_t i = 0; i < params_.size(); ++i)
    mask.data<std::uint8_t>()[i] = params_[i].present ? 1 : 0;
  ranks_.all_reduce(mask, {.op = comm::Op::max, .checked = false, .label = "unused"}).wait();
  for (std::size_t i = 0; i < params_.size(); ++i) used[i] = mask.data<std::uint8_t>()[i] != 0;
  return used;
}

/** Logs once which parameters no rank has used, or refuses them. */
void DataParallel::log_unused(const std::vector<bool>& used) {
  std::string names;
  std::size_t count = 0;
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i] && ++count <= 5) names += str(count > 1 ? ", " : "", params_[i].name);
  if (count == 0) return;
  if (count > 5) names += str(" and ", count - 5, " more");
  if (options_.unused == UnusedParameters::refuse)
    fail<StateError>(kOp, {.what = "the loss does not depend on all parameters",
                           .got = str("no gradient for ", names),
                           .hint = "freeze them, or pass .unused = UnusedParameters::allow"});
  if (!std::exchange(logged_unused_, true))
    log_text(Severity::info, str(kOp, ": the loss does not depend on ", names));
}

/** Adds the reduced gradient to the leaf's, or makes it the leaf's. */
void DataParallel::deliver(Param& param) {
  const bool single = buckets_[param.bucket].plan.is_single;
  const Tensor present = param.leaf.grad();
  const GradientMark mark = mark_of_sum(param);
  const auto set_marked = [&](const Tensor& grad) { restore_gradient(param.leaf, grad, mark); };
  Tensor earlier = std::exchange(param.earlier, {});
  param.earlier_mark = {};
  if (!earlier.defined() && !param.unreduced) earlier = present;
  param.unreduced = false;
  Tensor sum = single ? std::exchange(param.slot, {}) : param.slot;
  if (keeps_wide(param)) {
    param.wide = earlier.defined() && param.wide.defined() ? add(param.wide, sum) : sum;
    sum = param.wide;
    return set_marked(sum.to(param.dtype));
  }
  if (param.reduce_dtype != param.dtype) sum = sum.to(param.dtype);
  if (earlier.defined()) {
    const bool stays = is_unscaled(mark.scale) && mark.part.is_same(earlier);
    if (stays) return restore_gradient(param.leaf, add(earlier, sum), mark);
    add_(earlier, sum);
    return set_marked(earlier);
  }
  const Tensor own = single || options_.gradients_are_views ? sum : sum.clone();
  own.impl()->storage->set_category(MemoryCategory::gradients);
  param.leaf.set_grad(own);
}

/** Returns all parameters in the order in which their gradients arrived on rank 0. */
std::vector<std::size_t> DataParallel::order_of_arrival() const {
  std::vector<std::size_t> order = arrivals_;
  for (std::size_t i = params_.size(); i-- > 0;)
    if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
  const Tensor numbers = empty({static_cast<std::int64_t>(order.size())}, {.dtype = DType::i64});
  std::copy(order.begin(), order.end(), numbers.data<std::int64_t>());
  ranks_.broadcast(numbers, 0, {.label = "order of the gradients"}).wait();
  std::copy_n(numbers.data<std::int64_t>(), order.size(), order.begin());
  return order;
}

}  // namespace mezzo::nn
