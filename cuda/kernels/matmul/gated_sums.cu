// The kernel of gated_sums.h: packed_column_sum_kernel of packs that are computed first.
#include "gated_sums.h"

#include "../low_table.h"
#include "../reduce/column_sums.h"

namespace mezzo::gpu {

namespace {

/** Packs of g, which are stored when they have passed through an activation: gradient(saved, g). */
template <class Gradient> struct GatedPacks {
  struct Held {
    PackWords saved, g;
  };
  const PackWords* saved;
  PackWords* g;
  Gradient gradient;

  __device__ Held load(std::int64_t at) const { return {saved[at], g[at]}; }
  __device__ PackWords words(std::int64_t at, const Held& held, bool exists) const {
    const PackWords rounded = gradient(held.saved, held.g);
    if (exists) store_words(g + at, rounded);
    return rounded;
  }
};

/** Multiplies packs of g by the derivative at `saved`, the result or the operand of the activation,
 *  and sums chunks of their columns. */
template <class Op, class T>
__global__ void __launch_bounds__(kTeamThreads)
    gated_column_sum_kernel(const PackColumns columns, const AttrsOf<Op> attrs,
                            const PackWords* saved, PackWords* g, const PackedSum sum,
                            float* partial) {
  MZ_SHARED(float, room, kTeamThreads* kPerPack<T>);
  with_attrs<Op>(attrs, [&](auto get) {
    const auto gradient = [&](const PackWords& x, const PackWords& incoming) {
      return gradient_low_pack<Op, T>(get(), x, incoming);
    };
    sum_columns_of_packs<T, T>(columns, GatedPacks<decltype(gradient)>{saved, g, gradient},
                               reinterpret_cast<const T*>(g), sum, partial, room);
  });
}

/** The same by a table of derivatives, in bf16. */
template <class Op>
__global__ void __launch_bounds__(kTeamThreads)
    gated_table_sum_kernel(const PackColumns columns, const AttrsOf<Op> attrs,
                           const PackWords* saved, PackWords* g, const PackedSum sum,
                           float* partial) {
  using T = BFloat16;
  MZ_SHARED(float, table, LowTable<T>::kEntries);
  MZ_SHARED(float, room, kTeamThreads* kPerPack<T>);
  fill_derivatives<Op, T>(attrs, table);
  const auto gradient = [&](const PackWords& x, const PackWords& incoming) {
    return gradient_by_table<Op, T>(attrs, table, x, incoming);
  };
  sum_columns_of_packs<T, T>(columns, GatedPacks<decltype(gradient)>{saved, g, gradient},
                             reinterpret_cast<const T*>(g), sum, partial, room);
}

/** Returns the kernel for a gradient of so many elements. */
template <class Op, class T> auto kernel_for(std::int64_t elements) {
  if constexpr (kHasTable<Op> && std::is_same_v<T, BFloat16>)
    if (elements >= kTableElements) return &gated_table_sum_kernel<Op>;
  return &gated_column_sum_kernel<Op, T>;
}

}  // namespace

bool gate_and_sum_columns(Tensor& g, const Tensor& y_or_sums, MlpActivation activation,
                          Tensor& sums) {
  if (activation != MlpActivation::relu && !is_gelu(activation)) return false;
  const std::int64_t width = g.size(-1);
  if (width == 0 || y_or_sums.dtype() != g.dtype()) return false;
  const Tensor matrix = alias(g, {g.numel() / width, width}, {width, 1}, g.impl()->offset);
  constexpr std::uint32_t kRows = 1;
  const PackView view(matrix, kRows);
  const auto columns = columns_of_packs(view, g.dtype());
  if (!columns || !view.has_order_of(g) || !view.has_order_of(y_or_sums)) return false;
  const Device device = g.device();
  visit_packed(g.dtype(), [&]<class T>(std::type_identity<T>) {
    const PackedSum sum{1, Array(sums)};
    reduce_chunks(reduction_of(matrix, kRows), width, columns->parts(), sum, device,
                  [&](float* partial) {
                    const auto gate = [&]<class Op>(const AttrsOf<Op>& attrs) {
                      launch(kernel_for<Op, T>(g.numel()), columns->grid(), current_stream(device),
                             *columns, attrs, static_cast<const PackWords*>(y_or_sums.raw_data()),
                             static_cast<PackWords*>(g.raw_data()), sum, partial);
                    };
                    if (activation == MlpActivation::relu)
                      gate.template operator()<op::Relu>({});
                    else
                      gate.template operator()<op::Gelu>(op::gelu_attrs(activation));
                  });
  });
  return true;
}

}  // namespace mezzo::gpu
