#include "data_parallel.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "../../autograd/grad_mode.h"
#include "../../autograd/hooks.h"
#include "../../autograd/ops/create.h"
#include "../../autograd/ops/pointwise.h"
#include "../../tensor/comm/comm_error.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/random/generator.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"
#include "broadcast_state.h"

namespace mezzo::nn {

namespace {

constexpr std::string_view kOp = "DistributedDataParallel";

bool exclusively_owned(const Tensor& x) {
  return x.impl()->owners() == 1 && x.impl()->storage->owners() == 1;
}

/** Returns the tensor in the layout of the leaf's gradients: dense, in the leaf's order. */
Tensor laid_out_as(const Tensor& leaf, const Tensor& x) {
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

std::int64_t bytes_of(double mib) {
  return static_cast<std::int64_t>(std::min(mib * (1 << 20), 0x1p62));
}

}  // namespace

void check(const DistributedDataParallelOptions& options) {
  const auto require_positive = [](std::string_view name, double value) {
    if (!std::isfinite(value) || value <= 0)
      fail<ValueError>(kOp, {.what = str(name, " is out of range"),
                             .got = str(value),
                             .expected = "a finite number > 0"});
  };
  require_positive("bucket_mib", options.bucket_mib.value_or(1));
  require_positive("first_bucket_mib", options.first_bucket_mib);
  require_positive("predivide_factor", options.predivide_factor.value_or(1));
  if (options.triggers.empty()) return;
  if (options.bucket_mib)
    fail<ValueError>(kOp, {.what = "triggers and bucket_mib are both given",
                           .hint = "triggers decide the buckets alone"});
  if (!options.overlap)
    fail<ValueError>(kOp, {.what = "triggers need overlap", .got = "overlap = false"});
}

// ---- construction -------------------------------------------------------------------------------

DataParallel::DataParallel(const Module& model, const comm::Communicator& ranks,
                           const DistributedDataParallelOptions& options)
    : model_(model), ranks_(ranks), options_(options) {
  const NoGradNoCasts plain_ops;
  add_params(model);
  compare_ranks();
  broadcast_state(model, ranks);
  std::vector<std::size_t> order(params_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  plan(order);
  checks_ = has_checked_ = model.attached_to() != nullptr;
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
      param.leaf.set_grad(add(param.earlier, state.grad));
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

namespace {

/** Returns name, dtype, shape and order in memory: elements are sent in the order of memory. */
std::string text_of(const NamedTensor& entry) {
  const Tensor& x = entry.tensor;
  return str(entry.name, " ", x.dtype(), str(x.shape()),
             x.is_contiguous() ? "" : str(", strides ", x.strides()));
}

std::string text_of(const DistributedDataParallelOptions& o) {
  constexpr std::string_view kReduceDtypes[] = {"automatic", "same", "f32"};
  constexpr std::string_view kOrders[] = {"fast", "ranks"};
  constexpr std::string_view kBroadcasts[] = {"at_construction", "each_forward"};
  constexpr std::string_view kUnused[] = {"allow", "refuse"};
  const auto name = [](const auto& names, auto value) {
    return names[static_cast<std::size_t>(value)];
  };
  const auto number = [](const std::optional<double>& value) {
    return value ? str(*value) : std::string("none");
  };
  return str("bucket_mib = ", number(o.bucket_mib), "\nfirst_bucket_mib = ", o.first_bucket_mib,
             "\noverlap = ", o.overlap, "\nreduce_dtype = ", name(kReduceDtypes, o.reduce_dtype),
             "\naverage = ", o.average, "\npredivide_factor = ", number(o.predivide_factor),
             "\norder = ", o.order ? name(kOrders, *o.order) : "none",
             "\nbroadcast_buffers = ", name(kBroadcasts, o.broadcast_buffers),
             "\nunused = ", name(kUnused, o.unused), "\nstatic_graph = ", o.static_graph, "\n");
}

}  // namespace

/** Compares model, session and options with the other ranks. Errors: CommError with the first line
 *  that differs. */
void DataParallel::compare_ranks() const {
  std::string text;
  if (const AttachedSession* session = model_.attached_to())
    text += session->description();
  else
    text += "no session of mixed precision\n";
  for (const NamedTensor& entry : model_.named_parameters())
    text += str(text_of(entry), entry.tensor.requires_grad() ? "" : ", frozen", "\n");
  for (const NamedTensor& entry : model_.named_buffers()) text += str(text_of(entry), ", buffer\n");
  text += text_of(options_);
  require_same_lines(ranks_, kOp, std::move(text));
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

bool DataParallel::sums_in_f32(const Param& param) const {
  return options_.reduce_dtype == ReduceDtype::automatic && is_low(param.reduce_dtype) &&
         options_.order != comm::Order::fast;
}

/** Returns the divisor of gradients before the sum. */
double DataParallel::predivide(DType dtype) const {
  if (options_.predivide_factor) return *options_.predivide_factor;
  if (dtype != DType::f16 || !options_.average) return 1;
  return std::exp2(std::floor(std::log2(ranks_.size()) / 2));
}

/** Returns the factor that turns the sum into the average. */
double DataParallel::factor_after(const Param& param) const {
  return options_.average ? predivide(param.reduce_dtype) / ranks_.size() : 1;
}

/** Returns true if the end of a scale_loss scope multiplies by factor_after(), in f32, so that the
 *  average is not rounded to 16 bits. */
bool DataParallel::averages_in_scope(const Param& param) const {
  const AttachedSession* session = model_.attached_to();
  return is_low(param.reduce_dtype) && session && session->has_masters();
}

/** Returns true if the masters get the f32 sum. */
bool DataParallel::keeps_wide(const Param& param) const {
  const AttachedSession* session = model_.attached_to();
  return param.reduce_dtype != param.dtype && session && session->has_masters();
}

ReceivedGradient DataParallel::received(std::size_t index) const {
  const Param& param = params_[index];
  return {.wide = param.wide, .factor = averages_in_scope(param) ? factor_after(param) : 1};
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
  if (has_unreduced(index)) param.leaf.set_grad(param.earlier);
  param.forget();
  holds_reduced_ = false;
}

/** Forgets what belonged to a gradient that the program has removed. */
void DataParallel::Param::forget_dropped() {
  if (!leaf.grad().defined()) forget();
}

/** Prepares for a local contribution, which the engine adds to the leaf's gradient. */
void DataParallel::keep_local(std::size_t index) {
  Param& param = params_[index];
  param.forget_dropped();
  if (!param.unreduced && param.leaf.grad().defined()) {
    put_aside_.push_back(index);
    param.earlier = param.leaf.grad();
    param.leaf.set_grad({});
  }
  param.unreduced = true;
}

/** Undoes keep_local() after a pass that failed, and so added nothing to the leaves. */
void DataParallel::restore_put_aside() {
  for (const std::size_t index : put_aside_) {
    Param& param = params_[index];
    if (param.leaf.grad().defined()) continue;
    param.leaf.set_grad(std::exchange(param.earlier, {}));
    param.unreduced = false;
  }
}

// ---- a pass -------------------------------------------------------------------------------------

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
  Tensor local = param.unreduced ? laid_out_as(param.leaf, param.leaf.grad()) : Tensor{};
  if (!gradient.defined()) gradient = std::exchange(local, {});
  const bool fits = exclusively_owned(gradient) && same_dense_layout(gradient, param.leaf) &&
                    gradient.dtype() == param.reduce_dtype;
  if (buckets_[param.bucket].plan.is_single && fits)
    return adopt(param, std::move(gradient), local);
  if (!param.slot.defined()) allocate_slot(param);
  combine({laid_out_as(param.leaf, gradient), local, param.slot}, param);
}

/** Makes the gradient's own memory the slot. */
void DataParallel::adopt(Param& param, Tensor gradient, const Tensor& local) {
  combine({gradient, local, gradient}, param);
  param.slot = std::move(gradient);
}

/** Computes out = (x + y) / predivide factor, and looks for overflows if they are of interest. */
void DataParallel::combine(const optim::AxpbyTensors& item, const Param& param) const {
  const double factor = 1 / predivide(param.reduce_dtype);
  const bool checks = checks_ && param.leaf.device() == overflow_.flag.device();
  if (checks && item.y.defined()) {
    const optim::AxpbyTensors local{item.y, {}, {}};
    optim::check_finite({&local, 1}, overflow_);
  }
  if (item.x.is_same(item.out) && !item.y.defined() && factor == 1) {
    if (checks) optim::check_finite({&item, 1}, overflow_);
    return;
  }
  optim::axpby({&item, 1}, factor, factor,
               checks ? optim::CheckFinite::x : optim::CheckFinite::none,
               checks ? overflow_ : optim::FoundInf{});
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
  const optim::AxpbyTensors item{laid_out_as(param.leaf, gradient), param.slot, param.slot};
  optim::axpby({&item, 1}, 1 / predivide(param.reduce_dtype), 1, optim::CheckFinite::none, {});
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
  bucket.pending = ranks_.all_reduce(bucket.plan.is_single ? flat(first.slot) : bucket.memory,
                                     {.order = options_.order,
                                      .f32_sum = sums_in_f32(first),
                                      .factor = averages_in_scope(first) ? 1 : factor_after(first),
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
  if (!std::exchange(told_unused_, true))
    log_text(Severity::info, str(kOp, ": the loss does not depend on ", names));
}

/** Adds the reduced gradient to the leaf's, or makes it the leaf's. */
void DataParallel::deliver(Param& param) {
  const bool single = buckets_[param.bucket].plan.is_single;
  const Tensor present = param.leaf.grad();
  Tensor earlier = std::exchange(param.earlier, {});
  if (!earlier.defined() && !param.unreduced) earlier = present;
  param.unreduced = false;
  Tensor sum = single ? std::exchange(param.slot, {}) : param.slot;
  if (keeps_wide(param)) {
    param.wide = earlier.defined() && param.wide.defined() ? add(param.wide, sum) : sum;
    sum = param.wide;
    return param.leaf.set_grad(sum.to(param.dtype));
  }
  if (param.reduce_dtype != param.dtype) sum = sum.to(param.dtype);
  if (earlier.defined()) {
    add_(earlier, sum);
    return param.leaf.set_grad(earlier);
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
