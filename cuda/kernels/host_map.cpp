#include "host_map.h"

#include "../runtime/device.h"

namespace mezzo::gpu {

namespace {

/** Describes an operand, with strides in the order of the format. */
MapOperand describe(const Tensor& x, const Shape& shape, MemoryFormat format) {
  MapOperand operand;
  if (!x.defined()) return operand;
  operand.dtype = x.dtype();
  if (x.device() == cpu) {
    operand.layout = MapOperand::Layout::number;
    operand.is_real = is_floating(x.dtype());
    if (operand.is_real)
      operand.real = x.item<double>();
    else
      operand.integer = x.item<std::int64_t>();
    return operand;
  }
  operand.layout = MapOperand::Layout::tensor;
  operand.data = x.raw_data();
  const int lead = shape.rank() - x.dim();
  for (int place = 0; place < shape.rank(); ++place) {
    const int i = dim_at(format, shape.rank(), place) - lead;
    if (i >= 0 && x.shape()[i] != 1) operand.strides[place] = x.strides()[i];
  }
  return operand;
}

template <class F> void for_each_tensor(Map& map, F&& visit) {
  for (MapOperand& x : map.in)
    if (x.layout == MapOperand::Layout::tensor) visit(x);
  for (MapOperand& x : map.out)
    if (x.layout == MapOperand::Layout::tensor) visit(x);
}

/** Returns true if dimensions `outer` and `inner`, the latter of `size` elements, can be merged in
 *  all operands. */
bool run_on(Map& map, int outer, int inner, std::int64_t size) {
  bool all = true;
  for_each_tensor(map,
                  [&](const MapOperand& x) { all &= x.strides[outer] == x.strides[inner] * size; });
  return all;
}

/** Drops dimensions of size 1 and merges neighbours. */
void collapse(Map& map, const Shape& shape, MemoryFormat format) {
  const auto move = [&map](int to, int from) {
    for_each_tensor(map, [&](MapOperand& x) { x.strides[to] = x.strides[from]; });
  };
  for (int place = 0; place < shape.rank(); ++place) {
    const std::int64_t size = shape[dim_at(format, shape.rank(), place)];
    if (size == 1) continue;
    const int last = map.rank - 1;
    if (map.rank > 0 && run_on(map, last, place, size)) {
      map.sizes[last] *= size;
      move(last, place);
      continue;
    }
    map.sizes[map.rank] = size;
    move(map.rank++, place);
  }
  if (map.rank == 0) {
    map.sizes[map.rank++] = 1;
    for_each_tensor(map, [](MapOperand& x) { x.strides[0] = 0; });
  }
}

/** Returns true if every run of `length` elements of the operand can be loaded as vectors. */
bool has_vectors(const Map& map, const MapOperand& x, int length) {
  if (x.strides[map.rank - 1] != 1) return false;
  const auto bytes = static_cast<std::int64_t>(item_size(x.dtype)) * length;
  const std::int64_t alignment = bytes < 16 ? bytes : 16;
  if (reinterpret_cast<std::uintptr_t>(x.data) % static_cast<std::uintptr_t>(alignment) != 0)
    return false;
  for (int i = 0; i + 1 < map.rank; ++i)
    if (x.strides[i] % length != 0) return false;
  return true;
}

Map map_of(Inputs in, Outputs out, MapOrder order) {
  Map map;
  Shape shape;
  MemoryFormat format = MemoryFormat::contiguous;
  for (const Tensor& y : out)
    if (y.defined()) {
      shape = y.shape();
      map.count = y.numel();
      if (order == MapOrder::as_written) format = y.memory_format();
    }
  for (std::size_t i = 0; i < in.size(); ++i) map.in[i] = describe(in[i], shape, format);
  for (std::size_t i = 0; i < out.size(); ++i) map.out[i] = describe(out[i], shape, format);
  collapse(map, shape, format);
  map.whole_runs = map.rank == 1 || map.sizes[map.rank - 1] % kRun == 0;
  for_each_tensor(map,
                  [&](MapOperand& x) { x.vectors = map.whole_runs && has_vectors(map, x, kRun); });
  return map;
}

Device device_of(Outputs out) {
  for (const Tensor& y : out)
    if (y.defined()) return y.device();
  return cpu;
}

/** Makes the map one of packs and returns true, or returns false: see MapFns::packed. */
bool make_packs(Map& map) {
  const int last = map.rank - 1;
  constexpr std::int64_t kMostRuns = 0x7FFFFFFF;  // of a Divider
  if (map.sizes[last] % kMapPack != 0 || (map.rank > 1 && map.count / kRun > kMostRuns))
    return false;
  bool fits = true, has_16_bits = false;
  for_each_tensor(map, [&](const MapOperand& x) {
    const bool is_16_bits = x.dtype == DType::f16 || x.dtype == DType::bf16;
    has_16_bits |= is_16_bits;
    fits &= is_16_bits || x.dtype == DType::f32 || x.dtype == DType::boolean;
    fits &= x.strides[last] == 0 || has_vectors(map, x, kMapPack);
  });
  for (const MapOperand& y : map.out) fits &= !y.present() || y.strides[last] == 1;
  if (!fits) return false;
  for (MapOperand& x : map.in)
    if (x.layout == MapOperand::Layout::tensor && x.strides[last] == 0)
      x.layout = MapOperand::Layout::repeated;
  constexpr std::int64_t kWarpElements = 32 * kMapPack;
  map.halves_apart = !has_16_bits && (map.rank == 1 || map.sizes[last] % kWarpElements == 0);
  if (map.rank > 1)
    for (int i = 0; i < map.rank; ++i)
      map.runs[i] = Divider(static_cast<std::uint32_t>(map.sizes[i] / (i == last ? kRun : 1)));
  return true;
}

}  // namespace

void map_elements(const MapFns& fns, DType compute, Inputs in, Outputs out, const void* attrs,
                  MapOrder order) {
  Map map = map_of(in, out, order);
  if (map.count == 0) return;
  MapFns::Fn fn = compute == DType::f32 ? fns.f32 : compute == DType::f64 ? fns.f64 : fns.i64;
  if (compute == DType::f32 && fns.packed && make_packs(map)) fn = fns.packed;
  fn(map, attrs, current_stream(device_of(out)));
}

}  // namespace mezzo::gpu
