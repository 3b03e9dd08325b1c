#include "late_result.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "../device/capture.h"
#include "../device/queues.h"
#include "../ops/shape/copy.h"
#include "../text/text.h"
#include "dispatch.h"

namespace mezzo {

namespace {

struct LateResult;
/** The late result that this thread computes by write() in place of its kernel. */
struct Writing {
  const LateResult* late = nullptr;
  const std::function<void(Tensor& y)>* write = nullptr;
};
thread_local constinit Writing writing;

/** Computes a late result. */
struct LateResult final : LateWrite {
  void run(Storage& storage) override {
    Capture::require_prepared(texts.op, is_usable() || !Capture::current(in[0].device()),
                              texts.read);
    require_unmodified();
    Tensor y = result_over(Ref<Storage>(&storage));
    if (writing.late == this) return (*writing.write)(y);
    info->kernel[static_cast<std::size_t>(in[0].device().kind)](*info, in, {&y, 1}, attrs.get());
  }

  /** Returns the result as a tensor over a storage. */
  Tensor result_over(Ref<Storage> storage) const {
    return tensor_over(std::move(storage), dtype, shape, contiguous_strides(shape));
  }

  void require_unmodified() const {
    for (std::size_t i = 0; i < versions.size(); ++i)
      if (in[i].version() != versions[i])
        fail<StateError>(ApiScope::outermost(texts.op),
                         {.what = std::string(texts.modified),
                          .got = str(in[i], " at version ", in[i].version()),
                          .expected = str("version ", versions[i]),
                          .hint = std::string(texts.hint)});
  }

  /** Returns true if the operands are as they were. */
  bool is_unmodified() const {
    for (std::size_t i = 0; i < versions.size(); ++i)
      if (in[i].version() != versions[i]) return false;
    return true;
  }
  /** Returns true if work that is enqueued now may read the operands. */
  bool is_usable() const { return capture == Capture::current(in[0].device()); }

  const OpInfo* info = nullptr;
  std::vector<Tensor> in;
  std::shared_ptr<const void> attrs;
  LateTexts texts;
  Shape shape;
  DType dtype = DType::f32;
  std::uint64_t name = 0;
  std::vector<std::uint32_t> versions;  // of the operands that must stay
  const Capture* capture = nullptr;     // in which this was made; null: none
  Storage* result = nullptr;            // owns this object
};

/** The late results of all threads that have to be computed at a certain time. */
class LateResults final : public CaptureParticipant {
 public:
  /** Returns the object, which is never destroyed, since tensors may outlive main. */
  static const std::shared_ptr<LateResults>& all() {
    static auto& results = *new std::shared_ptr<LateResults>(new LateResults);
    return results;
  }

  void add(const std::shared_ptr<LateResult>& result) {
    const std::lock_guard lock(mutex_);
    std::erase_if(results_, [](const auto& known) { return known.expired(); });
    results_.push_back(result);
  }

  /** Computes those that `fits` accepts and that this thread can read: reading one whose operand
   *  was modified is an error. */
  template <class Fits> void compute(const Fits& fits) {
    std::vector<std::shared_ptr<LateResult>> found;
    {
      const std::lock_guard lock(mutex_);
      for (const std::weak_ptr<LateResult>& known : results_)
        if (std::shared_ptr<LateResult> late = known.lock();
            late && fits(*late) && late->is_usable() && late->is_unmodified())
          found.push_back(std::move(late));
    }
    for (const std::shared_ptr<LateResult>& late : found) (void)late->result->data();
  }

  /** Returns the one with the name; null if there is none. */
  std::shared_ptr<LateResult> find(std::uint64_t name) {
    const std::lock_guard lock(mutex_);
    for (const std::weak_ptr<LateResult>& known : results_)
      if (std::shared_ptr<LateResult> late = known.lock(); late && late->name == name) return late;
    return nullptr;
  }

  void before_replay() override {}
  void after_replay() override {}
  void finish_capture() override {
    compute([](const LateResult& late) { return late.capture != nullptr; });
  }
  void abandon_capture() noexcept override {
    const std::lock_guard lock(mutex_);
    std::erase_if(results_, [](const auto& known) {
      const std::shared_ptr<LateResult> late = known.lock();
      return late && late->capture && late->is_usable();
    });
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<LateResult>> results_;
};

}  // namespace

Tensor tensor_over(Ref<Storage> storage, DType dtype, const Shape& shape, const Strides& strides,
                   std::int64_t offset) {
  const auto impl = make_ref<TensorImpl>();
  impl->storage = std::move(storage);
  impl->dtype = dtype;
  impl->shape = shape;
  impl->strides = strides;
  impl->offset = offset;
  impl->refresh();
  return Tensor(impl);
}

bool can_be_late(const Tensor& x) {
  return !x.impl()->storage->is_exposed() && !current_queue(x.device()) && !needs_single_ops();
}

Tensor late_result(const OpInfo& info, std::vector<Tensor> in, std::shared_ptr<const void> attrs,
                   const LateTexts& texts, const LateOptions& options) {
  const Tensor x = in[0];
  const OutSpec spec = info.infer(info, in, attrs.get()).items[0];
  const auto late = std::make_shared<LateResult>();
  late->info = &info;
  late->in = in;
  late->in[0] = x.detach();
  late->attrs = attrs;
  late->texts = texts;
  late->shape = spec.shape;
  late->dtype = spec.dtype;
  late->name = options.name;
  for (std::size_t i = 0; i < options.kept; ++i) late->versions.push_back(in[i].version());
  late->capture = Capture::current(x.device());
  Tensor y = late->result_over(make_ref<Storage>(
      static_cast<std::size_t>(checked_numel(spec.shape, "late_result")) * item_size(spec.dtype),
      x.device(), std::static_pointer_cast<LateWrite>(late)));
  late->result = y.impl()->storage.get();
  if (late->capture || in.size() > 1) LateResults::all()->add(late);
  if (late->capture) Capture::current()->join(LateResults::all());
  const auto needs_gradient = [](const Tensor& t) { return t.defined() && t.requires_grad(); };
  if (grad_enabled() && std::any_of(in.begin(), in.end(), needs_gradient))
    record(info, in, {&y, 1}, attrs.get());
  TraceHook* const hook = thread_hooks().trace;
  if (hook && options.traced) {
    hook->enter_forward(info);
    hook->trace(info, in, {&y, 1});
    hook->leave_forward(info);
  }
  return y;
}

std::uint64_t new_late_name() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

bool write_late_result(std::uint64_t name, const std::function<void(Tensor& y)>& write) {
  const std::shared_ptr<LateResult> late = LateResults::all()->find(name);
  if (!late || !late->is_usable() || current_queue(late->in[0].device())) return false;
  bool is_written = false;
  const std::function<void(Tensor&)> noted = [&](Tensor& y) {
    write(y);
    is_written = true;
  };
  struct Scope {
    Writing outer;
    ~Scope() { writing = outer; }
  } const scope{std::exchange(writing, Writing{late.get(), &noted})};
  (void)late->result->data();
  return is_written;
}

void compute_late_results_of(const Tensor& x) {
  LateResults::all()->compute(
      [&](const LateResult& late) { return late.in.size() > 1 && late.in[1].is_same(x); });
}

namespace {

/** Returns the late result of `info` whose memory x has; null if kernels may not read its operands
 *  instead. */
std::shared_ptr<const LateResult> late_result_of(const OpInfo& info, const Tensor& x) {
  auto late = std::dynamic_pointer_cast<LateResult>(x.impl()->storage->late_write());
  if (!late || late->info != &info || !late->is_usable() || current_queue(x.device())) return {};
  late->require_unmodified();
  return late;
}

}  // namespace

Tensor late_operand(const OpInfo& info, const Tensor& x) {
  const auto late = late_result_of(info, x);
  if (!late) return {};
  const Tensor& from = late->in[0];
  return alias(from, x.shape(), x.strides(), from.impl()->offset + x.impl()->offset);
}

std::vector<Tensor> late_operands(const OpInfo& info, const Tensor& x) {
  const auto late = late_result_of(info, x);
  if (!late || !(late->shape == x.shape()) || !x.is_contiguous()) return {};
  return late->in;
}

// ---- channels-last memory of row-major results --------------------------------------------------

Tensor late_row_major(const Tensor& x) {
  if (x.is_contiguous())
    return alias(x, x.shape(), contiguous_strides(x.shape()), x.impl()->offset);
  using op::Clone;
  return late_result(op_info<Clone>, {x},
                     std::make_shared<Clone::Attrs>(Clone::Attrs{MemoryFormat::contiguous}),
                     {.op = "contiguous",
                      .read = "a result in channels-last memory is first read in row-major order",
                      .modified = "the channels-last memory of a result was modified",
                      .hint = "call contiguous() before the capture"},
                     {.traced = false});
}

Tensor channels_last_source(const Tensor& x) {
  if (!x.impl()->storage->is_late() || !may_be_channels_last(x.dim())) return {};
  const std::vector<Tensor> in = late_operands(op_info<op::Clone>, x);
  return in.empty() ? Tensor{} : in[0];
}

bool take_channels_last(const OpInfo& info, std::span<Tensor> operands, const Shape& result) {
  if (!any_is_late(operands) || needs_single_ops()) return false;
  if (info.elementwise && !may_be_channels_last(result.rank())) return false;
  const auto fits = [&](const Tensor& x) {
    return !x.defined() || !(x.shape() == result) || x.is_contiguous(MemoryFormat::channels_last) ||
           channels_last_source(x).defined();
  };
  if (info.elementwise && !std::all_of(operands.begin(), operands.end(), fits)) return false;
  bool found = false;
  for (Tensor& x : operands) {
    Tensor source = x.defined() ? channels_last_source(x) : Tensor{};
    if (!source.defined()) continue;
    x = std::move(source);
    found = true;
  }
  return found;
}

}  // namespace mezzo
