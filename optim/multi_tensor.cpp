// Host side of the multi-tensor kernels: checks, dense copies where needed, packing by device.
#include "multi_tensor.h"

#include <algorithm>
#include <array>

#include "../tensor/core/dispatch.h"
#include "../tensor/memory/transfer.h"
#include "../tensor/text/text.h"
#include "blocks_cpu.h"

namespace mezzo::optim {

// Here and not beside the kernels, so that registering those of a device chooses none for the CPU.
ListKernels& list_kernels(DeviceKind kind) {
  static std::array<ListKernels, kNumDeviceKinds> kernels{
      {{.axpby = &axpby_on_cpu, .norm = &norm_on_cpu}}};
  return kernels[static_cast<std::size_t>(kind)];
}

namespace {

constexpr std::size_t kLists = TensorListEntry::kMaxLists;

/** One item before packing: tensors of one shape. Bit i of `written` is set if tensor i is an
 *  output. */
struct Tuple {
  std::array<Tensor, kLists> at;
  unsigned written = 0;

  bool writes(std::size_t i) const { return (written >> i & 1u) != 0; }
};

/** Returns true if all tensors are dense and have their elements in the same order. */
bool same_dense_layout(const Tuple& tuple) {
  const Tensor* first = nullptr;
  for (const Tensor& x : tuple.at) {
    if (!x.defined()) continue;
    if (!first) first = &x;
    if (!mezzo::same_dense_layout(*first, x)) return false;
  }
  return true;
}

void check_tuple(std::string_view op, const Tuple& tuple) {
  const Tensor* first = nullptr;
  for (const Tensor& x : tuple.at) {
    if (!x.defined()) continue;
    if (!first) first = &x;
    if (!is_floating(x.dtype()))
      fail<DtypeError>(op, {.what = "expected floating-point tensors", .got = str(x)});
    if (!(x.shape() == first->shape()))
      fail<ShapeError>(op, {.what = "shapes differ",
                            .got = str(*first) + " and " + str(x),
                            .expected = "one shape"});
    if (x.device() != first->device())
      fail<DeviceError>(op, {.what = "not on the same device",
                             .got = str(*first) + " and " + str(x),
                             .hint = "use x.to(device) before the optimizer is made"});
  }
}

/** A contiguous copy of an output, written back after the kernel. */
struct WriteBack {
  Tensor copy, target;
};

/** The items of one device, ready for a kernel. */
struct Packed {
  std::vector<TensorListEntry> items;
  std::vector<Tensor> alive;           // copies that must outlive the kernel
  std::vector<WriteBack> write_backs;  // done by finish()

  void add(const Tuple& tuple, std::size_t index) {
    TensorListEntry item;
    const bool flat = same_dense_layout(tuple);
    for (std::size_t i = 0; i < kLists; ++i) {
      if (!tuple.at[i].defined()) continue;
      Tensor dense = tuple.at[i];
      if (!flat && !dense.is_contiguous()) {
        dense = tuple.at[i].detach().contiguous();
        alive.push_back(dense);
        if (tuple.writes(i)) write_backs.push_back({dense, tuple.at[i].detach()});
      }
      item.data[i] = dense.raw_data();
      item.dtype[i] = dense.dtype();
      item.numel = dense.numel();
    }
    if (item.numel == 0) return;
    item.index = index;
    items.push_back(item);
  }

  void finish() const {
    for (const WriteBack& back : write_backs) back.target.copy_(back.copy);
  }
};

const Tensor& first_of(const Tuple& tuple) {
  return *std::find_if(tuple.at.begin(), tuple.at.end(),
                       [](const Tensor& x) { return x.defined(); });
}

/** Returns the distinct devices of the tuples, in order of appearance. */
std::vector<Device> devices_of(std::span<const Tuple> tuples) {
  std::vector<Device> devices;
  for (const Tuple& tuple : tuples) {
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

/** Tuples packed by device. */
struct PackedLists {
  std::vector<std::pair<Device, Packed>> lists;

  explicit PackedLists(std::span<const Tuple> tuples) {
    const NoGradNoCasts plain_ops;
    for (const Device device : devices_of(tuples)) {
      Packed& packed = lists.emplace_back(device, Packed{}).second;
      for (std::size_t i = 0; i < tuples.size(); ++i)
        if (first_of(tuples[i]).device() == device) packed.add(tuples[i], i);
      if (device == cpu) blocks::reserve(packed.items);
    }
  }
};

/** Calls run(packed, device) for each device, then writes copies back and bumps versions. */
template <class Run>
void for_each_device(const PackedLists& packed, std::span<const Tuple> tuples, const Run& run) {
  const NoGradNoCasts plain_ops;
  for (const auto& [device, list] : packed.lists) {
    run(list, device);
    list.finish();
  }
  for (const Tuple& tuple : tuples)
    for (std::size_t i = 0; i < kLists; ++i)
      if (tuple.at[i].defined() && tuple.writes(i)) tuple.at[i].impl()->storage->bump_version();
}

/** Returns the settings of the packed items, in their order. */
std::vector<std::byte> pick_settings(const Packed& packed, const void* settings,
                                     std::size_t bytes) {
  std::vector<std::byte> picked(packed.items.size() * bytes);
  const std::byte* from = static_cast<const std::byte*>(settings);
  for (std::size_t i = 0; i < packed.items.size(); ++i)
    std::copy_n(from + packed.items[i].index * bytes, bytes, picked.data() + i * bytes);
  return picked;
}

void require_same_device(std::string_view op, const Tensor& flag, Device device) {
  if (flag.defined() && flag.device() != device)
    fail<DeviceError>(op, {.what = "not on the same device",
                           .got = str(flag, " and tensors on ", device),
                           .hint = "make one flag per device"});
}

/** Returns items of one tensor each, which is only read. */
std::vector<Tuple> tuples_of(std::span<const Tensor> tensors) {
  std::vector<Tuple> tuples;
  tuples.reserve(tensors.size());
  for (const Tensor& x : tensors) tuples.push_back({{x}, 0});
  return tuples;
}

/** Runs axpby, or only its check if `writes` is false. */
void run_axpby(std::string_view op, std::span<const AxpbyTensors> items, bool writes,
               const Factor& a, const Factor& b, const FoundInf& found) {
  std::vector<Tuple> tuples;
  tuples.reserve(items.size());
  for (const AxpbyTensors& t : items)
    tuples.push_back(writes ? Tuple{{t.x, t.y, t.out}, 1u << 2} : Tuple{{t.x}, 0});
  for (const Tuple& tuple : tuples) {
    check_tuple(op, tuple);
    require_same_device(op, found.word, first_of(tuple).device());
  }
  for (const Device device : devices_of(tuples))
    if (!list_kernels(device.kind).axpby) fail_without_kernel(op, device);
  PackedLists lists(tuples);
  for (auto& list : lists.lists)
    for (TensorListEntry& item : list.second.items) item.index = items[item.index].number;
  for_each_device(lists, tuples, [&](const Packed& packed, Device device) {
    list_kernels(device.kind).axpby(packed.items, {a, b, found.data(), device});
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

struct PreparedUpdate::Work {
  const UpdateRow& row;
  UpdateCall call;
  std::vector<Tuple> tuples;
  PackedLists packed;
  std::vector<std::vector<std::byte>> settings;  // of each list

  Work(const UpdateRow& which, const UpdateCall& how, std::vector<Tuple> what)
      : row(which), call(how), tuples(std::move(what)), packed(tuples) {}
};

namespace {

std::vector<Tuple> update_tuples(const UpdateRow& row, std::span<const UpdateTensors> tensors,
                                 const UpdateCall& call) {
  std::vector<Tuple> tuples;
  tuples.reserve(tensors.size());
  for (const UpdateTensors& t : tensors) {
    Tuple& tuple = tuples.emplace_back();
    tuple.at[kParam] = t.param;
    tuple.at[kGrad] = t.grad;
    tuple.at[kLowCopy] = t.low_copy;
    std::copy(t.state.begin(), t.state.end(), tuple.at.begin() + kState);
    tuple.written = row.writes | (call.write_back ? 1u << kGrad : 0u);
    check_tuple(row.name, tuple);
  }
  for (const Device device : devices_of(tuples))
    if (!row.kernel[static_cast<std::size_t>(device.kind)]) fail_without_kernel(row.name, device);
  return tuples;
}

}  // namespace

PreparedUpdate::PreparedUpdate(const UpdateRow& row, std::span<const UpdateTensors> tensors,
                               const void* settings, std::size_t settings_bytes,
                               const UpdateCall& call)
    : work_(new Work(row, call, update_tuples(row, tensors, call))) {
  for (const auto& list : work_->packed.lists)
    work_->settings.push_back(pick_settings(list.second, settings, settings_bytes));
}

PreparedUpdate::~PreparedUpdate() = default;

void PreparedUpdate::run() const {
  const std::vector<std::byte>* settings = work_->settings.data();
  for_each_device(work_->packed, work_->tuples, [&](const Packed& packed, Device device) {
    UpdateCall here = work_->call;
    here.device = device;
    work_->row.kernel[static_cast<std::size_t>(device.kind)](packed.items, settings++->data(),
                                                             here);
  });
}

void run_update(const UpdateRow& row, std::span<const UpdateTensors> tensors, const void* settings,
                std::size_t settings_bytes, const UpdateCall& call) {
  PreparedUpdate(row, tensors, settings, settings_bytes, call).run();
}

void axpby(std::span<const AxpbyTensors> items, const Factor& a, const Factor& b,
           const FoundInf& found) {
  run_axpby("axpby", items, true, a, b, found);
}

void check_finite(std::span<const AxpbyTensors> items, const FoundInf& found) {
  run_axpby("check_finite", items, false, 1, 0, found);
}

// ---- norms --------------------------------------------------------------------------------------

namespace {

/** Returns the device of the tuples; the CPU if there are none. Errors: DeviceError. */
Device common_device(std::string_view op, std::span<const Tuple> tuples) {
  const std::vector<Device> devices = devices_of(tuples);
  if (devices.size() > 1)
    fail<DeviceError>(op, {.what = "not on the same device",
                           .got = str(devices[0], " and ", devices[1]),
                           .hint = "compute the norm of each device separately"});
  return devices.empty() ? cpu : devices[0];
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

std::vector<Tuple> norm_tuples(std::span<const Tensor> tensors, const NormOptions& options) {
  constexpr std::string_view op = "norms";
  std::vector<Tuple> tuples = tuples_of(tensors);
  if (!(options.p > 0)) fail<ValueError>(op, {.what = "p must be positive", .got = str(options.p)});
  for (const Tuple& tuple : tuples) check_tuple(op, tuple);
  const Device device = common_device(op, tuples);
  require_same_device(op, options.found_inf, device);
  if (!list_kernels(device.kind).norm) fail_without_kernel(op, device);
  return tuples;
}

}  // namespace

struct PreparedNorms::Work {
  NormOptions options;
  std::vector<Tuple> tuples;
  PackedLists packed;
  Norms result;
  Tensor room;

  Work(const NormOptions& how, std::vector<Tuple> what)
      : options(how),
        tuples(std::move(what)),
        packed(tuples),
        result(new_norms(tuples.size(), common_device("norms", tuples))) {
    for (const auto& [device, list] : packed.lists)  // at most one
      if (const auto bytes = list_kernels(device.kind).norm_room) {
        const CategoryScope workspace(MemoryCategory::workspace);
        room = empty_tensor({bytes(list.items)}, DType::u8, device);
      }
  }
};

PreparedNorms::PreparedNorms(std::span<const Tensor> tensors, const NormOptions& options)
    : work_(new Work(options, norm_tuples(tensors, options))) {}

PreparedNorms::~PreparedNorms() = default;

const Norms& PreparedNorms::result() const { return work_->result; }

void PreparedNorms::run() const {
  const NormOptions& options = work_->options;
  for_each_device(work_->packed, work_->tuples, [&](const Packed& packed, Device device) {
    list_kernels(device.kind)
        .norm(packed.items,
              {options.p, options.inv_scale, work_->result.total.data<double>(),
               work_->result.each.data<double>(),
               options.found_inf.defined() ? options.found_inf.data<float>() : nullptr, device,
               work_->room.defined() ? work_->room.raw_data() : nullptr});
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
