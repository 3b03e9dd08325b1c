#include "recurrent_plan_cpu.h"

#include <cstring>

#include "../../cpu/block_io.h"

namespace mezzo::cpu_kernels {

Matrix packed_rows(const Tensor& given, const SequencePlan& plan, Workspace<char>& room) {
  const Tensor x = row_major(given);
  const std::int64_t n = x.shape()[2];
  const auto bytes = n * static_cast<std::int64_t>(item_size(x.dtype()));
  const bool in_place = plan.full && x.is_same(given);
  if (in_place) return {x.raw_data(), x.dtype(), n, 1};
  room = Workspace<char>(plan.rows * bytes);
  for (std::int64_t time = 0; time < plan.steps; ++time)
    for (std::int64_t i = 0; i < plan.active(time) && bytes > 0; ++i)
      std::memcpy(room.data() + (plan.offset(time) + i) * bytes,
                  row_address(x, plan.tensor_row(time, i), n), static_cast<std::size_t>(bytes));
  return {room.data(), x.dtype(), n, 1};
}

template <class E>
FixedOperand<E>::FixedOperand(const Matrix& x, std::int64_t blocks, std::int64_t columns,
                              std::int64_t terms)
    : panels_(columns),
      depth_(steps_of<E>(terms)),
      room_(blocks * panels_.count * kWidth * depth_) {
  parallel_for(
      blocks * panels_.count,
      [&](std::int64_t index) {
        const std::int64_t block = index / panels_.count, panel = index % panels_.count;
        Matrix from = x;
        from.data =
            static_cast<const char*>(x.data) + (block * columns + panel * kWidth) * x.row *
                                                   static_cast<std::int64_t>(item_size(x.dtype));
        pack_column_panel(
            from, panels_.valid(panel), terms,
            PackedPanel(room_.data() + index * kWidth * depth_, panels_.packed_width(panel)));
      },
      static_cast<double>(blocks * columns * terms) * 0.3);
}

template <class T>
void load_state(const Tensor& given, const SequencePlan& plan, std::int64_t n, T* to) {
  if (!given.defined()) {
    std::fill_n(to, plan.batch * n, T(0));
    return;
  }
  const Tensor x = row_major(given);
  for (std::int64_t i = 0; i < plan.batch; ++i)
    convert(x.dtype(), row_address(x, plan.sequence(i), n), dtype_of<T>(), to + i * n, n);
}

template <class T>
void store_state(const T* from, const SequencePlan& plan, std::int64_t n, const Tensor& x) {
  for (std::int64_t i = 0; i < plan.batch; ++i)
    convert(dtype_of<T>(), from + i * n, x.dtype(), row_address(x, plan.sequence(i), n), n);
}

template class FixedOperand<float>;
template class FixedOperand<double>;
#if defined(__AVX512BF16__)
template class FixedOperand<BFloat16Pair>;
template class FixedOperand<BFloat16Line>;
#endif
template void load_state(const Tensor&, const SequencePlan&, std::int64_t, float*);
template void load_state(const Tensor&, const SequencePlan&, std::int64_t, double*);
template void store_state(const float*, const SequencePlan&, std::int64_t, const Tensor&);
template void store_state(const double*, const SequencePlan&, std::int64_t, const Tensor&);

}  // namespace mezzo::cpu_kernels
