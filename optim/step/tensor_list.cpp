// Host side of the multi-tensor kernels: checks, dense copies where needed, packing by device.
#include "tensor_list.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "../../tensor/core/dispatch.h"
#include "../../tensor/memory/transfer.h"
#include "../../tensor/text/text.h"
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

/** Returns the distinct devices of the tuples, in order of appearance. */
std::vector<Device> devices_of(std::span<const TensorTuple> tuples) {
  std::vector<Device> devices;
  for (const TensorTuple& tuple : tuples) {
    const Device device = first_of(tuple).device();
    if (std::find(devices.begin(), devices.end(), device) == devices.end())
      devices.push_back(device);
  }
  return devices;
}

[[noreturn]] void fail_without_kernel(std::string_view op, Device device) {
  fail<Unsupported>(op, {.what = str("no multi-tensor kernel for ", device, " in this build"),
                         .hint = "configure with -Dcuda=enabled, or move the tensors to the CPU"});
}

}  // namespace

/** Tuples packed for kernels, by device. The constructor allocates everything. */
class PackedLists {
 public:
  /** Bit i of `written` is set if the kernels write list i. Leaves items without elements out
   * unless `keeps_empty`. Errors: as run_update, in the name of `op`. */
  PackedLists(std::string_view op, std::vector<TensorTuple> tuples, unsigned written,
              bool keeps_empty = false)
      : tuples_(std::move(tuples)), written_(written), keeps_empty_(keeps_empty) {
    const NoGradNoCasts plain_ops;
    for (const TensorTuple& tuple : tuples_) check_tuple(op, tuple);
    for (const Device device : devices_of(tuples_)) {
      List& list = lists_.emplace_back();
      list.device = device;
      for (std::size_t i = 0; i < tuples_.size(); ++i)
        if (first_of(tuples_[i]).device() == device) add(list, tuples_[i], i);
      if (device == cpu) blocks::reserve(list.entries);
    }
  }

  /** Calls run(entries, device) for each device, writes copies back and bumps versions. */
  template <class Run> void run(const Run& run) const {
    const NoGradNoCasts plain_ops;
    for (const List& list : lists_) {
      run(std::span<const TensorListEntry>(list.entries), list.device);
      for (const auto& [target, copy] : list.write_backs) target.copy_(copy);
    }
    for (const TensorTuple& tuple : tuples_)
      for (std::size_t i = 0; i < tuple.size(); ++i)
        if (tuple[i].defined() && writes(i)) tuple[i].impl()->storage->bump_version();
  }

  /** Calls f(entries, device) for each device. */
  template <class F> void each(const F& f) {
    for (List& list : lists_) f(list.entries, list.device);
  }

 private:
  struct List {
    Device device;
    std::vector<TensorListEntry> entries;
    std::vector<Tensor> copies;                          // that the kernel reads or writes
    std::vector<std::pair<Tensor, Tensor>> write_backs;  // from a copy to a tensor of a tuple
  };

  bool writes(std::size_t i) const { return (written_ >> i & 1u) != 0; }

  void add(List& list, const TensorTuple& tuple, std::size_t index) const {
    TensorListEntry entry;
    const bool flat = same_layout(tuple);
    for (std::size_t i = 0; i < tuple.size(); ++i) {
      if (!tuple[i].defined()) continue;
      Tensor dense = tuple[i];
      if (!flat && !dense.is_contiguous()) {
        dense = tuple[i].detach().contiguous();
        list.copies.push_back(dense);
        if (writes(i)) list.write_backs.emplace_back(tuple[i].detach(), dense);
      }
      entry.data[i] = dense.raw_data();
      entry.dtype[i] = dense.dtype();
      entry.numel = dense.numel();
    }
    if (entry.numel == 0 && !keeps_empty_) return;
    entry.index = index;
    list.entries.push_back(entry);
  }

  std::vector<TensorTuple> tuples_;
  unsigned written_;
  bool keeps_empty_;
  std::vector<List> lists_;
};

namespace {

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
  PackedLists lists(op, std::move(tuples), 1u << kOut);
  lists.each([&](std::span<TensorListEntry> entries, Device device) {
    require_same_device(op, found_inf.word, device);
    if (!list_kernels(device.kind).axpby) fail_without_kernel(op, device);
    for (TensorListEntry& entry : entries) entry.index = items[entry.index].number;
  });
  lists.run([&](std::span<const TensorListEntry> entries, Device device) {
    list_kernels(device.kind).axpby(entries, {a, b, found_inf.data(), device});
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

PreparedUpdate::PreparedUpdate(const UpdateRow& row, std::vector<TensorTuple> tensors,
                               const void* settings, const UpdateCall& call)
    : row_(&row),
      settings_(settings),
      call_(call),
      lists_(new PackedLists(row.name, std::move(tensors),
                             row.writes | (call.write_back ? 1u << kGrad : 0u),
                             call.end != nullptr)) {
  lists_->each([&](std::span<TensorListEntry>, Device device) {
    if (!row.kernel[static_cast<std::size_t>(device.kind)]) fail_without_kernel(row.name, device);
  });
}

PreparedUpdate::~PreparedUpdate() = default;

void PreparedUpdate::run() const {
  lists_->run([this](std::span<const TensorListEntry> entries, Device device) {
    UpdateCall here = call_;
    here.device = device;
    row_->kernel[static_cast<std::size_t>(device.kind)](entries, settings_, here);
  });
}

void run_update(const UpdateRow& row, std::vector<TensorTuple> tensors, const void* settings,
                const UpdateCall& call) {
  PreparedUpdate(row, std::move(tensors), settings, call).run();
}

void axpby(std::span<const AxpbyTensors> items, const Factor& a, const Factor& b,
           const FoundInf& found_inf) {
  run_axpby("axpby", items, true, a, b, found_inf);
}

void check_finite(std::span<const AxpbyTensors> items, const FoundInf& found_inf) {
  run_axpby("check_finite", items, false, 1, 0, found_inf);
}

// ---- norms --------------------------------------------------------------------------------------

namespace {

/** Returns the tensors as lists; throws unless they are on one device. */
PackedLists norm_lists(std::span<const Tensor> tensors, const NormOptions& options) {
  constexpr std::string_view op = "norms";
  std::vector<TensorTuple> tuples;
  tuples.reserve(tensors.size());
  for (const Tensor& x : tensors) tuples.push_back(TensorTuple{x});
  if (!(options.p > 0)) fail<ValueError>(op, {.what = "p must be positive", .got = str(options.p)});
  PackedLists lists(op, std::move(tuples), 0);
  std::optional<Device> first;
  lists.each([&](std::span<TensorListEntry>, Device device) {
    if (first)
      fail<DeviceError>(op, {.what = "not on the same device",
                             .got = str(*first, " and ", device),
                             .hint = "compute the norm of each device separately"});
    first = device;
    if (!list_kernels(device.kind).norm) fail_without_kernel(op, device);
  });
  require_same_device(op, options.found_inf, first.value_or(cpu));
  return lists;
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

}  // namespace

PreparedNorms::PreparedNorms(std::span<const Tensor> tensors, const NormOptions& options)
    : options_(options),
      lists_(new PackedLists(norm_lists(tensors, options))),
      result_(new_norms(tensors.size(), tensors.empty() ? cpu : tensors[0].device())) {
  lists_->each([this](std::span<TensorListEntry> entries, Device device) {
    const auto bytes = list_kernels(device.kind).norm_workspace;
    if (!bytes) return;
    const CategoryScope category(MemoryCategory::workspace);
    workspace_ = empty_tensor({bytes(entries)}, DType::u8, device);
  });
}

PreparedNorms::~PreparedNorms() = default;

void PreparedNorms::run() const {
  lists_->run([this](std::span<const TensorListEntry> entries, Device device) {
    float* const found_inf =
        options_.found_inf.defined() ? options_.found_inf.data<float>() : nullptr;
    list_kernels(device.kind)
        .norm(entries, {options_.p, options_.inv_scale, result_.total.data<double>(),
                        result_.each.data<double>(), found_inf, device,
                        workspace_.defined() ? workspace_.raw_data() : nullptr});
  });
}

Norms norms(std::span<const Tensor> tensors, const NormOptions& options) {
  const PreparedNorms work(tensors, options);
  work.run();
  return work.result();
}

Tensor total_norm(std::span<const Tensor> tensors, const NormOptions& options) {
  const bool wide = std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) {
    return x.defined() && x.dtype() == DType::f64;
  });
  const CastScope no_casts(nullptr);
  return norms(tensors, options).total.to(wide ? DType::f64 : DType::f32);
}

}  // namespace mezzo::optim
