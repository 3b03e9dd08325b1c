// Host side of the multi-tensor kernels: checks, dense copies where needed, packing by device.
#include "tensor_list.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "../../tensor/core/dispatch.h"
#include "../../tensor/core/late_result.h"
#include "../../tensor/device/backend.h"
#include "../../tensor/device/queues.h"
#include "../../tensor/memory/transfer.h"
#include "../../tensor/text/text.h"
#include "../scaled_gradients.h"
#include "blocks_cpu.h"

namespace mezzo::optim {

// Here and not beside the kernels, so that registering those of a device chooses none for the CPU.
ListKernels& list_kernels(DeviceKind kind) {
  static std::array<ListKernels, kNumDeviceKinds> kernels{
      {{.axpby = &axpby_on_cpu, .norm = &norm_on_cpu}}};
  return kernels[static_cast<std::size_t>(kind)];
}

namespace {

/** Returns the first tensor of a tuple that is defined. */
const Tensor& first_of(const TensorTuple& tuple) {
  return *std::find_if(tuple.begin(), tuple.end(), [](const Tensor& x) { return x.defined(); });
}

/** Returns true if all tensors are dense and have their elements in the same order. */
bool same_layout(const TensorTuple& tuple) {
  const Tensor& first = first_of(tuple);
  return std::all_of(tuple.begin(), tuple.end(),
                     [&](const Tensor& x) { return !x.defined() || same_dense_layout(first, x); });
}

void check_tuple(std::string_view op, const TensorTuple& tuple) {
  const Tensor& first = first_of(tuple);
  for (const Tensor& x : tuple) {
    if (!x.defined()) continue;
    if (!is_floating(x.dtype()))
      fail<DtypeError>(op, {.what = "expected floating-point tensors", .got = str(x)});
    if (!(x.shape() == first.shape()))
      fail<ShapeError>(
          op, {.what = "shapes differ", .got = str(first, " and ", x), .expected = "one shape"});
    if (x.device() != first.device())
      fail<DeviceError>(op, {.what = "not on the same device",
                             .got = str(first, " and ", x),
                             .hint = "use x.to(device) before the optimizer is made"});
  }
}

[[noreturn]] void fail_without_kernel(std::string_view op, Device device) {
  fail<Unsupported>(op, {.what = str("no multi-tensor kernel for ", device, " in this build"),
                         .hint = "configure with -Dcuda=enabled, or move the tensors to the CPU"});
}

/** Items that one kernel call processes. */
struct PackedList {
  Device device;
  double factor;  // AxpbyTensors::factor of all items
  std::vector<TensorListEntry> entries = {};
  std::vector<Tensor> copies = {};                          // that the kernel reads or writes
  std::vector<std::pair<Tensor, Tensor>> write_backs = {};  // from a copy to a tensor of a tuple
};

/** Tuples packed for kernels, by device and factor. The constructor allocates everything. */
class PackedLists {
 public:
  /** Bit i of `written` is set if the kernels write list i. Leaves items without elements out
   * unless `keeps_empty`. `items` has the factors; none: all are 1. Errors: as run_update, in the
   * name of `op`. */
  PackedLists(std::string_view op, std::vector<TensorTuple> tuples, unsigned written,
              bool keeps_empty = false, std::span<const AxpbyTensors> items = {})
      : tuples_(std::move(tuples)), written_(written), keeps_empty_(keeps_empty) {
    const NoGradNoCasts plain_ops;
    for (const TensorTuple& tuple : tuples_) check_tuple(op, tuple);
    for (std::size_t i = 0; i < tuples_.size(); ++i)
      add(list_for(first_of(tuples_[i]).device(), items.empty() ? 1 : items[i].factor), tuples_[i],
          i);
    for (const PackedList& list : lists_)
      if (list.device == cpu) blocks::reserve(list.entries);
  }

  /** Calls run(list) for each list, writes copies back and bumps versions. */
  template <class Run> void run(const Run& run) const {
    const NoGradNoCasts plain_ops;
    for (const PackedList& list : lists_) {
      run(list);
      for (const auto& [target, copy] : list.write_backs) target.copy_(copy);
    }
    for (const TensorTuple& tuple : tuples_)
      for (std::size_t i = 0; i < tuple.size(); ++i)
        if (tuple[i].defined() && writes(i)) tuple[i].impl()->storage->bump_version();
  }

  std::vector<PackedList>& lists() { return lists_; }

 private:
  bool writes(std::size_t i) const { return (written_ >> i & 1u) != 0; }

  /** Returns the list of a device and a factor, which it adds if there is none. */
  PackedList& list_for(Device device, double factor) {
    for (PackedList& list : lists_)
      if (list.device == device && list.factor == factor) return list;
    PackedList& added = lists_.emplace_back(PackedList{.device = device, .factor = factor});
    if (lists_.size() == 1) added.entries.reserve(tuples_.size());
    return added;
  }

  void add(PackedList& list, const TensorTuple& tuple, std::size_t index) const {
    TensorListEntry entry;
    const bool flat = same_layout(tuple);
    for (std::size_t i = 0; i < tuple.size(); ++i) {
      if (!tuple[i].defined()) continue;
      const Tensor* dense = &tuple[i];
      if (!flat && !dense->is_contiguous()) {
        dense = &list.copies.emplace_back(tuple[i].detach().contiguous());
        if (writes(i)) list.write_backs.emplace_back(tuple[i].detach(), *dense);
      }
      entry.data[i] = dense->raw_data();
      entry.dtype[i] = dense->dtype();
      entry.numel = dense->numel();
    }
    if (entry.numel == 0 && !keeps_empty_) return;
    entry.index = index;
    list.entries.push_back(entry);
  }

  std::vector<TensorTuple> tuples_;
  unsigned written_;
  bool keeps_empty_;
  std::vector<PackedList> lists_;
};

void require_same_device(std::string_view op, const Tensor& flag, Device device) {
  if (flag.defined() && flag.device() != device)
    fail<DeviceError>(op, {.what = "not on the same device",
                           .got = str(flag, " and tensors on ", device),
                           .hint = "make one flag per device"});
}

enum AxpbyList : std::uint8_t { kX, kY, kOut };

/** Runs axpby, or only its check if `writes` is false. */
void run_axpby(std::string_view op, std::span<const AxpbyTensors> items, bool writes,
               const Factor& a, const Factor& b, const FoundInf& found_inf) {
  std::vector<TensorTuple> tuples;
  tuples.reserve(items.size());
  for (const AxpbyTensors& t : items)
    tuples.push_back(writes ? TensorTuple{t.x, t.y, t.out} : TensorTuple{t.x});
  PackedLists packed(op, std::move(tuples), 1u << kOut, false, items);
  for (PackedList& list : packed.lists()) {
    require_same_device(op, found_inf.word, list.device);
    if (!list_kernels(list.device.kind).axpby) fail_without_kernel(op, list.device);
    for (TensorListEntry& entry : list.entries) entry.index = items[entry.index].number;
  }
  packed.run([&](const PackedList& list) {
    list_kernels(list.device.kind)
        .axpby(list.entries, {a * list.factor, b, found_inf.data(), list.device});
  });
}

}  // namespace

FoundInf FoundInf::reset_on(Device device) {
  const NoCapturePool lasting;
  const FoundInf found{empty_tensor({}, DType::i64, device)};
  found.reset();
  return found;
}

NonfiniteWord FoundInf::location() const {
  NonfiniteWord value = kAllFinite;
  if (word.defined()) download(word, &value, sizeof value);
  return value;
}

void FoundInf::reset() const {
  if (!word.defined()) return;
  const CastScope no_casts(nullptr);
  word.fill_(0);
}

namespace {

PackedLists update_lists(const UpdateRow& row, std::vector<TensorTuple> tensors,
                         const UpdateCall& call) {
  PackedLists packed(row.name, std::move(tensors),
                     row.writes | (call.write_back ? 1u << kGrad : 0u), call.end != nullptr);
  for (const PackedList& list : packed.lists())
    if (!row.kernel[static_cast<std::size_t>(list.device.kind)])
      fail_without_kernel(row.name, list.device);
  return packed;
}

void run_lists(const PackedLists& packed, const UpdateRow& row, const void* settings,
               UpdateCall call) {
  packed.run([&](const PackedList& list) {
    call.device = list.device;
    row.kernel[static_cast<std::size_t>(list.device.kind)](list.entries, settings, call);
  });
}

}  // namespace

std::function<void()> prepared_update(const UpdateRow& row, std::vector<TensorTuple> tensors,
                                      const void* settings, const UpdateCall& call) {
  return [packed = update_lists(row, std::move(tensors), call), &row, settings, call] {
    run_lists(packed, row, settings, call);
  };
}

void run_update(const UpdateRow& row, std::vector<TensorTuple> tensors, const void* settings,
                const UpdateCall& call) {
  run_lists(update_lists(row, std::move(tensors), call), row, settings, call);
}

void axpby(std::span<const AxpbyTensors> items, const Factor& a, const Factor& b,
           const FoundInf& found_inf) {
  run_axpby("axpby", items, true, a, b, found_inf);
}

void check_finite(std::span<const AxpbyTensors> items, const FoundInf& found_inf) {
  run_axpby("check_finite", items, false, 1, 0, found_inf);
}

// ---- late gradients -----------------------------------------------------------------------------

namespace {

/** The late write of a source: has the gradient written that is computed from it. */
class SourceGuard final : public LateWrite {
 public:
  explicit SourceGuard(std::function<void()> write) : write_(std::move(write)) {}
  void run(Storage&) override { write_(); }

 private:
  std::function<void()> write_;
};

}  // namespace

/** Makes the gradients of a captured step late again after each replay, which has computed them
 *  anew. */
class CapturedGradients final : public CaptureParticipant {
 public:
  explicit CapturedGradients(std::shared_ptr<LateGradients> scope) : scope_(std::move(scope)) {}

  void before_replay() override {}
  void after_replay() override {
    if (late_.empty()) return;
    const Device device = scope_->device_;  // late writes run in its main queue
    if (const DeviceQueue queue = current_queue(device))
      put_behind(find_backend(device.kind)->queues(), {device, nullptr}, {device, queue});
    bool reads_now = false;  // through an address that the program has
    for (const auto& [storage, late] : late_) {
      late->arm();
      reads_now = reads_now || storage->is_exposed();
    }
    if (reads_now) (void)late_.front().first->data();
  }
  /** Keeps those that the step itself does not write, and what they are computed from. */
  void finish_capture() override {
    scope_->capture_ = nullptr;
    for (const std::weak_ptr<LateGradient>& one : scope_->all_)
      if (const auto late = one.lock(); late && late->is_pending())
        late_.emplace_back(Ref<Storage>(late->result_), late);
  }
  void abandon_capture() noexcept override { scope_->capture_ = nullptr; }

 private:
  std::shared_ptr<LateGradients> scope_;
  std::vector<std::pair<Ref<Storage>, std::shared_ptr<LateGradient>>> late_;
};

LateGradient::LateGradient(std::shared_ptr<LateGradients> scope, const Tensor& x, bool in_place)
    : scope_(std::move(scope)),
      x_(in_place ? Tensor{} : x.detach()),
      result_(x.impl()->storage.get()),
      dtype_(x.dtype()),
      numel_(x.numel()),
      offset_(x.impl()->offset) {}

std::shared_ptr<LateGradient> LateGradient::of(const Tensor& grad) {
  auto late = std::dynamic_pointer_cast<LateGradient>(grad.impl()->storage->late_write());
  const bool is_whole =
      late && grad.numel() == late->numel_ && grad.impl()->offset == late->offset_;
  return is_whole ? late : nullptr;
}

void LateGradient::arm() {
  result_->set_late_write(shared_from_this());
  close();
}

Tensor LateGradient::open(const Tensor& grad) {
  (x_.defined() ? *x_.impl()->storage : *result_).set_late_write(nullptr);
  return x_.defined() ? x_ : grad;
}

void LateGradient::close() {
  if (x_.defined())
    x_.impl()->storage->set_late_write(guard_);
  else
    result_->set_late_write(shared_from_this());
}

void LateGradient::run(Storage&) { scope_->write(shared_from_this()); }

LateGradients::LateGradients(Device device, const Factor& factor, const Tensor& scale,
                             std::weak_ptr<void> is_current)
    : device_(device),
      factor_(factor),
      scale_(scale),
      copy_(scale.defined() ? empty_tensor({}, DType::f32, device) : Tensor{}),
      is_current_(std::move(is_current)),
      capture_(Capture::current(device)) {}

bool LateGradients::takes(const Tensor& x, const Tensor& like) const {
  // The leaf and the caller hold x.
  return x.numel() > 0 && x.device() == device_ && like.device() == device_ &&
         same_dense_layout(x, like) && !x.requires_grad() && x.impl()->owners() <= 2 &&
         x.impl()->storage->owners() == 1 && !x.impl()->storage->is_exposed() &&
         !x.impl()->storage->late_write() && !current_queue(device_);
}

std::pair<Tensor, std::shared_ptr<LateGradient>> LateGradients::add(const Tensor& x,
                                                                    const Tensor& master) {
  if (capture_ && all_.empty())
    capture_->join(std::make_shared<CapturedGradients>(shared_from_this()));
  const auto late = std::make_shared<LateGradient>(shared_from_this(), x, !master.defined());
  all_.push_back(late);
  if (!master.defined()) return {x, late};
  late->guard_ = std::make_shared<SourceGuard>([weak = std::weak_ptr(late)] {
    if (const auto alive = weak.lock()) (void)alive->result_->data();
  });
  const auto storage =
      make_ref<Storage>(static_cast<std::size_t>(master.numel()) * item_size(master.dtype()),
                        device_, std::static_pointer_cast<LateWrite>(late));
  storage->set_category(MemoryCategory::gradients);
  late->result_ = storage.get();
  late->dtype_ = master.dtype();
  late->offset_ = 0;
  return {tensor_over(storage, master.dtype(), master.shape(), master.strides()), late};
}

std::optional<AxpbyTensors> LateGradients::copy_of_scale() const {
  if (all_.empty() || !scale_.defined()) return std::nullopt;
  return AxpbyTensors{scale_, {}, copy_};
}

std::optional<Factor> LateGradients::factor() const {
  const Capture* const capture = Capture::current(device_);
  if ((capture && capture != capture_) || (scale_.defined() && is_current_.expired()))
    return std::nullopt;
  return factor_;
}

/** Writes all gradients that are late. Storage::data() of each calls this again, so that other
 *  threads wait for it until all are written. */
void LateGradients::write(const std::shared_ptr<LateGradient>& late) {
  writing_.push_back(late);
  const auto done = [this] {
    writing_.pop_back();
    if (writing_.empty()) next_ = 0;
  };
  try {
    std::shared_ptr<LateGradient> next;
    while (!next && next_ < all_.size()) {
      next = all_[next_++].lock();
      if (next && !next->is_pending()) next = nullptr;
    }
    if (next)
      (void)next->result_->data();
    else
      write_all();
  } catch (...) {
    done();
    if (late->x_.defined()) late->close();
    throw;
  }
  done();
}

/** Writes the gradients in writing_, whose memory exists. */
void LateGradients::write_all() {
  const NoGradNoCasts plain_ops;
  const Capture* const capture = Capture::current(device_);
  Capture::require_prepared("scale_loss", !capture || capture == capture_,
                            "a gradient from an earlier scope is first read");
  std::vector<AxpbyTensors> items;
  for (const auto& late : writing_) {
    const Tensor out =
        tensor_over(Ref<Storage>(late->result_), late->dtype_, {late->numel_}, {1}, late->offset_);
    const Tensor& x = late->x_;
    items.push_back({x.defined() ? alias(x, {late->numel_}, {1}, x.impl()->offset) : out, {}, out});
  }
  Factor factor = factor_;
  Tensor scale;  // of the scope
  if (!this->factor()) {
    scale = empty_tensor({}, DType::f64, device_);
    const AxpbyTensors copy{copy_, {}, scale};
    axpby({&copy, 1}, 1, 0);
    factor.divisor = scale.data<double>();
  }
  axpby(items, factor, 0);
  for (const auto& late : writing_) late->result_->take_back_version();  // not a write of the user
}

// ---- norms --------------------------------------------------------------------------------------

namespace {

bool any_f64(std::span<const Tensor> tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const Tensor& x) { return x.defined() && x.dtype() == DType::f64; });
}

/** Returns the tensors as lists; throws unless they are on one device. */
PackedLists norm_lists(std::span<const Tensor> tensors, const NormOptions& options) {
  constexpr std::string_view op = "norms";
  std::vector<TensorTuple> tuples;
  tuples.reserve(tensors.size());
  for (const Tensor& x : tensors) tuples.push_back(TensorTuple{x});
  if (!(options.p > 0)) fail<ValueError>(op, {.what = "p must be positive", .got = str(options.p)});
  PackedLists packed(op, std::move(tuples), 0);
  const std::vector<PackedList>& lists = packed.lists();
  if (lists.size() > 1)
    fail<DeviceError>(op, {.what = "not on the same device",
                           .got = str(lists[0].device, " and ", lists[1].device),
                           .hint = "compute the norm of each device separately"});
  const Device device = lists.empty() ? cpu : lists[0].device;
  if (!list_kernels(device.kind).norm) fail_without_kernel(op, device);
  require_same_device(op, options.found_inf, device);
  return packed;
}

/** Allocates the norms of this many tensors, filled with zeros. */
Norms new_norms(std::size_t tensors, Device device) {
  const CastScope no_casts(nullptr);
  const Norms result{
      empty_tensor({}, DType::f64, device),
      empty_tensor({static_cast<std::int64_t>(tensors)}, DType::f64, device),
  };
  result.total.fill_(0);
  result.each.fill_(0);
  return result;
}

Tensor workspace_for(PackedLists& packed) {
  for (const PackedList& list : packed.lists())
    if (const auto bytes = list_kernels(list.device.kind).norm_workspace) {
      const CategoryScope category(MemoryCategory::workspace);
      return empty_tensor({bytes(list.entries)}, DType::u8, list.device);
    }
  return {};
}

void run_norms(const PackedLists& packed, const NormOptions& options, const Norms& result,
               const Tensor& workspace) {
  packed.run([&](const PackedList& list) {
    list_kernels(list.device.kind)
        .norm(
            list.entries,
            {options.p, options.inv_scale, result.total.data<double>(), result.each.data<double>(),
             options.found_inf.defined() ? options.found_inf.data<float>() : nullptr, list.device,
             workspace.defined() ? workspace.raw_data() : nullptr});
  });
}

}  // namespace

std::pair<Norms, std::function<void()>> prepared_norms(std::span<const Tensor> tensors,
                                                       UpdateCall* update) {
  PackedLists packed = norm_lists(tensors, {});
  const Norms result = new_norms(tensors.size(), tensors.empty() ? cpu : tensors[0].device());
  const Tensor workspace = workspace_for(packed);
  // Sums of squares of f64 may leave its range.
  const bool by_update = update && workspace.defined() && !any_f64(tensors);
  if (by_update)
    update->norms = {result.each.data<double>(), static_cast<double*>(workspace.raw_data()),
                     static_cast<std::int64_t>(tensors.size() / 2)};
  return {result, [packed = std::move(packed), result, workspace, by_update] {
            if (!by_update) run_norms(packed, {}, result, workspace);
          }};
}

Norms norms(std::span<const Tensor> tensors, const NormOptions& options) {
  PackedLists packed = norm_lists(tensors, options);
  const Norms result = new_norms(tensors.size(), tensors.empty() ? cpu : tensors[0].device());
  run_norms(packed, options, result, workspace_for(packed));
  return result;
}

Tensor clip_by_norm(std::span<const Tensor> grads, double max_norm, Factor& factor, double p) {
  const CastScope no_casts(nullptr);
  const Tensor norm = norms(grads, {.p = p, .inv_scale = factor}).total;
  factor.norm = norm.data<double>();
  factor.max_norm = max_norm;
  factor.norm_is_f32 = !any_f64(grads);
  return norm;
}

Tensor total_norm(std::span<const Tensor> tensors, const NormOptions& options) {
  const CastScope no_casts(nullptr);
  return norms(tensors, options).total.to(any_f64(tensors) ? DType::f64 : DType::f32);
}

}  // namespace mezzo::optim
