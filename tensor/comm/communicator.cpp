#include "communicator.h"

#include <cxxabi.h>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <typeinfo>

#include "../core/error.h"
#include "../cpu/combine.h"
#include "../text/log.h"
#include "../text/text.h"
#include "engine.h"
#include "plans.h"

namespace mezzo::comm {

using detail::Frame;
using detail::FrameKind;
using detail::Group;
using detail::Job;

namespace {

constexpr int kOrderedRanks = 16;  // up to here a sum on the CPU adds in the order of the ranks

bool is_dense(const Tensor& x) {
  return x.is_contiguous() || x.is_contiguous(MemoryFormat::channels_last);
}

void require_dense(const char* op, const Tensor& x) {
  if (!is_dense(x))
    fail<ShapeError>(op, {.what = "the tensor has gaps between its elements",
                          .got = str(x),
                          .expected = "a dense tensor",
                          .hint = "call contiguous()"});
}

bool overlap(const Tensor& a, const Tensor& b) {
  const auto bytes = [](const Tensor& x) {
    return static_cast<std::size_t>(x.numel()) * item_size(x.dtype());
  };
  const auto* from_a = static_cast<const char*>(a.raw_data());
  const auto* from_b = static_cast<const char*>(b.raw_data());
  const std::less<> before;
  return before(from_a, from_b + bytes(b)) && before(from_b, from_a + bytes(a));
}

/** Checks an operation whose elements go from `x` to `out`: `x_blocks` * n elements to
 *  `out_blocks` * n, for some n. */
void require_pair(const char* op, const Tensor& x, const Tensor& out, std::int64_t x_blocks,
                  std::int64_t out_blocks) {
  if (x.dtype() != out.dtype())
    fail<DtypeError>(op, {.what = "the dtypes differ", .got = str(str(x), " and ", str(out))});
  if (x.device() != out.device())
    fail<DeviceError>(op, {.what = "the devices differ", .got = str(str(x), " and ", str(out))});
  if (!x.is_contiguous() || !out.is_contiguous())
    fail<ShapeError>(op, {.what = "the tensors are not both row-major",
                          .got = str(str(x), " and ", str(out)),
                          .hint = "call contiguous()"});
  if (x.numel() % x_blocks != 0 || x.numel() / x_blocks * out_blocks != out.numel())
    fail<ShapeError>(op, {.what = "the numbers of elements do not fit",
                          .got = str(str(x), " and ", str(out)),
                          .expected = str(x_blocks, " to ", out_blocks)});
  if (x.numel() > 0 && overlap(x, out))
    fail<ValueError>(op, {.what = "the result overlaps the input", .expected = "separate memory"});
}

void require_numbers(const char* op, const Tensor& x) {
  if (x.dtype() == boolean)
    fail<DtypeError>(op, {.what = "bool is not combined", .got = str(x), .hint = "use x.to(u8)"});
}

/** Logs, once per process, that GPU tensors take the way through the host. */
void log_staging(const Tensor& x) {
  static std::atomic<bool> logged{false};
  if (x.device() != cpu && !logged.exchange(true))
    log_text(Severity::info,
             "comm: tensors on the GPU are copied through host memory, because this build has no "
             "NCCL");
}

void copy_bytes(const Tensor& from, const Tensor& to) {
  if (from.numel() == 0) return;
  if (from.device() == cpu)
    std::memmove(to.raw_data(), from.raw_data(),
                 static_cast<std::size_t>(from.numel()) * item_size(from.dtype()));
  else
    to.copy_(from.view(to.shape()));
}

/** Returns the name of an exception's type as a user writes it: "OutOfMemory". */
std::string type_name(const std::exception& e) {
  int status = 0;
  char* const text = abi::__cxa_demangle(typeid(e).name(), nullptr, nullptr, &status);
  std::string name = text ? text : typeid(e).name();
  std::free(text);  // NOLINT: allocated by malloc
  for (const std::string_view prefix : {"mezzo::", "std::"})
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  return name;
}

std::string description_of(const std::exception_ptr& why) {
  if (!why) return "an exception";
  try {
    std::rethrow_exception(why);
  } catch (const std::exception& e) {
    return str(type_name(e), ": ", e.what());
  } catch (...) {
    return "an exception";
  }
}

}  // namespace

Pending::Pending(const std::shared_ptr<Job>& job) : job_(job) {}

void Pending::wait() {
  if (!job_) return;
  detail::engine()->progress->wait_for(*job_);
  const std::exception_ptr error = job_->error;
  if (error) std::rethrow_exception(error);
}

bool Pending::done() const { return !job_ || job_->finished; }

double Pending::seconds() const { return job_ ? job_->seconds : 0; }

std::uint64_t signature_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

Communicator::Communicator(detail::Engine* engine, const std::shared_ptr<Group>& group)
    : engine_(engine), group_(group) {}

int Communicator::rank() const { return group_ ? group_->rank : 0; }
int Communicator::size() const { return group_ ? group_->size : 1; }

std::shared_ptr<Job> Communicator::new_job(Frame& frame) const {
  frame.sequence = group_->operations;
  auto job = std::make_shared<Job>();
  job->frame = frame;
  job->group = group_.ptr();
  job->round = group_->round;
  return job;
}

void Communicator::submit(std::shared_ptr<Job> job) const {
  ++group_->operations;
  engine_->progress->submit(std::move(job));
}

Pending Communicator::transfer(Frame& frame, const Tensor& in, const Tensor& out,
                               std::int64_t count, const MoveOptions& options) const {
  frame.dtype = in.dtype();
  frame.count = in.numel();
  if (in.device() != cpu) {
    log_staging(in);
    const bool in_place = in.is_same(out);
    const Tensor host_in = in.detach().to(cpu);
    const Tensor host_out = in_place ? host_in : empty_tensor(out.shape(), out.dtype(), cpu);
    transfer(frame, host_in, host_out, count, options).wait();
    out.detach().copy_(host_out);
    return {};
  }
  const detail::Operands operands{in.raw_data(), out.raw_data(), count};
  const std::size_t in_frame = options.checked ? bytes_in_frame(frame, operands) : 0;
  auto job = new_job(frame);
  if (in_frame > 0) std::memcpy(job->frame.payload.data(), operands.in, in_frame);
  job->plan = plan_for(frame, operands, in_frame > 0, detail::max_count());
  job->checked = options.checked;
  job->label = options.label;
  job->in = in;
  job->out = out;
  out.impl()->storage->bump_version();
  submit(job);
  return Pending(job);
}

Pending Communicator::reduce(Frame& frame, const Tensor& in, const Tensor& out,
                             const ReduceOptions& options) const {
  const bool ordered_by_default =
      options.f32_sum || (in.device() == cpu && size() <= kOrderedRanks);
  const Order order = options.order.value_or(ordered_by_default ? Order::ranks : Order::fast);
  frame.op = options.op;
  frame.order = order == Order::fast ? 0 : options.f32_sum ? 2 : 1;
  set_factor(frame, options.factor);
  return transfer(frame, in, out, out.numel(), {options.checked, options.label});
}

namespace {
/** Multiplies the result of a reduction in a group of one. */
void apply_factor(const Tensor& x, double factor) {
  if (factor == 1) return;
  const Tensor host = x.device() == cpu ? x : x.detach().to(cpu);
  cpu_kernels::multiply(host.dtype(), factor, host.raw_data(), host.numel());
  if (host.is_same(x))
    x.impl()->storage->bump_version();
  else
    x.detach().copy_(host);
}

void require_valid(const char* op, const Tensor& x, const ReduceOptions& options) {
  if (options.factor != 1 && !is_floating(x.dtype()))
    fail<DtypeError>(
        op, {.what = "a factor needs floating-point elements", .got = str(x), .expected = "1"});
  if (options.f32_sum && options.order == Order::fast)
    fail<ValueError>(
        op, {.what = "f32_sum does not work with Order::fast", .expected = "Order::ranks"});
}
}  // namespace

Pending Communicator::all_reduce(const Tensor& x, const ReduceOptions& options) const {
  require_dense("all_reduce", x);
  require_numbers("all_reduce", x);
  require_valid("all_reduce", x, options);
  if (alone()) return apply_factor(x, options.factor), Pending();
  Frame frame{.kind = FrameKind::all_reduce};
  return reduce(frame, x, x, options);
}

Pending Communicator::reduce_scatter(const Tensor& x, const Tensor& out,
                                     const ReduceOptions& options) const {
  require_pair("reduce_scatter", x, out, size(), 1);
  require_numbers("reduce_scatter", x);
  require_valid("reduce_scatter", x, options);
  if (alone()) return copy_bytes(x, out), apply_factor(out, options.factor), Pending();
  Frame frame{.kind = FrameKind::reduce_scatter};
  return reduce(frame, x, out, options);
}

Pending Communicator::all_gather(const Tensor& x, const Tensor& out,
                                 const MoveOptions& options) const {
  require_pair("all_gather", x, out, 1, size());
  if (alone()) return copy_bytes(x, out), Pending();
  Frame frame{.kind = FrameKind::all_gather};
  return transfer(frame, x, out, x.numel(), options);
}

Pending Communicator::broadcast(const Tensor& x, int root, const MoveOptions& options) const {
  require_dense("broadcast", x);
  if (root < 0 || root >= size())
    fail<IndexError>("broadcast", {.what = "there is no such rank",
                                   .got = str("root ", root),
                                   .expected = str("0 to ", size() - 1)});
  if (alone()) return {};
  Frame frame{.kind = FrameKind::broadcast, .number = root};
  return transfer(frame, x, x, x.numel(), options);
}

Pending Communicator::all_to_all(const Tensor& x, const Tensor& out,
                                 const MoveOptions& options) const {
  require_pair("all_to_all", x, out, size(), size());
  if (alone()) return copy_bytes(x, out), Pending();
  Frame frame{.kind = FrameKind::all_to_all};
  return transfer(frame, x, out, x.numel() / size(), options);
}

void Communicator::barrier() const {
  if (alone()) return;
  Frame frame{.kind = FrameKind::barrier};
  auto job = new_job(frame);
  submit(job);
  Pending(std::move(job)).wait();
}

namespace {
Tensor number_tensor(double value) {
  const Tensor x = empty_tensor({1}, f64, cpu);
  *x.data<double>() = value;
  return x;
}
}  // namespace

double Communicator::sum(double value) const {
  if (alone()) return value;
  const Tensor x = number_tensor(value);
  all_reduce(x, {.order = Order::ranks}).wait();
  return *x.data<double>();
}

double Communicator::max(double value) const {
  if (alone()) return value;
  const Tensor x = number_tensor(value);
  all_reduce(x, {.op = Op::max}).wait();
  return *x.data<double>();
}

std::vector<double> Communicator::gather(std::span<const double> values) const {
  if (alone()) return {values.begin(), values.end()};
  const auto count = static_cast<std::int64_t>(values.size());
  const Tensor mine = empty_tensor({count}, f64, cpu),
               all = empty_tensor({count * size()}, f64, cpu);
  std::copy(values.begin(), values.end(), mine.data<double>());
  all_gather(mine, all).wait();
  return {all.data<double>(), all.data<double>() + all.numel()};
}

std::vector<std::string> Communicator::gather_text(std::string_view text) const {
  if (alone()) return {std::string(text)};
  Frame frame{.kind = FrameKind::text};
  put_length(frame, text.size());
  std::vector<std::string> texts;
  auto job = new_job(frame);
  job->plan = detail::gather_text_plan(std::string(text), texts);
  submit(job);
  Pending(std::move(job)).wait();
  return texts;
}

Communicator Communicator::split(int color, int key) const {
  if (color < 0) fail<ValueError>("split", {.what = "the color is negative", .got = str(color)});
  if (!group_) return *this;
  Frame frame{.kind = FrameKind::split};
  detail::put_split(frame, color, key);
  std::shared_ptr<Group> made;
  auto job = new_job(frame);
  job->plan = detail::split_plan(made);
  submit(job);
  Pending(job).wait();
  return Communicator(engine_, made);
}

Pending Communicator::begin_round(const Round& round) const {
  if (alone()) return {};
  Frame frame{.kind = FrameKind::round,
              .count = round.details != nullptr,
              .number = ++group_->rounds,
              .signature = round.signature};
  put_name(frame, round.kind);
  group_->round = describe(frame);
  auto job = new_job(frame);
  job->details = round.details;
  submit(job);
  return Pending(job);
}

void Communicator::end_round() const {
  if (group_) group_->round.clear();
}

void Communicator::leave_round(const std::exception_ptr& why) const {
  if (!engine_) return;
  const std::string& round = group_->round;
  engine_->progress->leave(
      str("left ", round.empty() ? "its work" : round, ": ", description_of(why)));
  end_round();
}

void Mean::add(double sum, std::int64_t count) {
  if (count < 0)
    fail<ValueError>("Mean::add", {.what = "the count is negative", .got = str(count)});
  if (count == 0) {
    if (sum == 0 || std::isnan(sum)) return;
    fail<ValueError>("Mean::add",
                     {.what = "the sum of no numbers is not 0", .got = str(sum), .expected = "0"});
  }
  sum_ += sum;
  count_ += static_cast<double>(count);
}

double Mean::value() const {
  const double mine[] = {sum_, count_};
  const std::vector<double> all = group_.gather(mine);
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    sum += all[i];
    count += all[i + 1];
  }
  return sum / count;  // NaN for 0 / 0
}

void on_all_ranks(const Communicator& ranks, std::string_view op,
                  const std::function<void()>& work) {
  if (ranks.size() == 1) return work();
  std::exception_ptr failure;
  std::string text;
  try {
    work();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    text = str("failed: ", error.what());
  }
  const std::vector<std::string> texts = ranks.gather_text(text);
  if (failure) std::rethrow_exception(failure);
  for (std::size_t r = 0; r < texts.size(); ++r)
    if (!texts[r].empty()) fail<IoError>(op, {.what = str("rank ", r, " ", texts[r])});
}

}  // namespace mezzo::comm
