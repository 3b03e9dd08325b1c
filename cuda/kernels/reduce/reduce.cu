// The CUDA kernels of the reductions with one number per result.
#include "../../../tensor/ops/reduce/reduce.h"

#include "../../../tensor/cpu/order.h"
#include "../../../tensor/ops/shape/copy.h"
#include "../../attach.h"
#include "../typed.h"
#include "column_sums.h"
#include "reduce.h"

namespace mezzo::gpu {

namespace {

using namespace cpu_kernels;

/** The result of a count of nonzero elements. */
enum class Count { all, any, number };

/** Counts nonzero elements, in integers for any dtype. */
template <class C> struct Nonzeros {
  using Value = C;
  using State = std::int64_t;
  Count count;
  std::int64_t length;
  Array out;

  __device__ State identity() const { return 0; }
  __device__ State add(State n, C x, std::int64_t) const { return n + (x != C(0) ? 1 : 0); }
  __device__ State combine(State a, State b) const { return a + b; }
  __device__ void finish(std::int64_t at, State n) const {
    out.store<std::int64_t>(at, count == Count::number ? n
                                : count == Count::any  ? n > 0
                                                       : n == length);
  }
};

void count_nonzeros(Inputs in, Outputs out, const op::ReduceAttrs& attrs, Count count) {
  const std::int64_t length = op::reduced_count(in[0].shape(), attrs);
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    reduce(in[0], attrs.dims, Nonzeros<C>{count, length, Array(out[0])});
  });
}

void all(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  count_nonzeros(in, out, attrs, Count::all);
}
void any(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  count_nonzeros(in, out, attrs, Count::any);
}
void count_nonzero(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  count_nonzeros(in, out, attrs, Count::number);
}

void amax(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    reduce_packed(in[0], attrs.dims, Fold<C, Greater>{lowest<C>(), Array(out[0])});
  });
}

void amin(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    reduce_packed(in[0], attrs.dims, Fold<C, Less>{highest<C>(), Array(out[0])});
  });
}

// ---- sums of columns of packs -------------------------------------------------------------------

/** Packs or halves of packs in memory. */
template <class T, int width> struct StoredColumns {
  using Held = WordsOf<T, width>;
  const Held* packs;

  __device__ Held load(std::int64_t at) const { return packs[at]; }
  __device__ const Held& words(std::int64_t, const Held& held, bool) const { return held; }
};

/** Sums chunks of columns of packs of C, whose elements are stored as T: as C, or in 16 bits, with
 *  the sums of packs of f32. */
template <class T, class C>
__global__ void __launch_bounds__(kTeamThreads)
    packed_column_sum_kernel(const PackColumns columns, const T* x, const PackedSum sum,
                             float* partial) {
  constexpr int kWidth = kPerPack<C>;
  MZ_SHARED(float, room, kTeamThreads* kWidth);
  const StoredColumns<T, kWidth> packs{reinterpret_cast<const WordsOf<T, kWidth>*>(x)};
  sum_columns_of_packs<T, C>(columns, packs, x, sum, partial, room);
}

/** Launches packed_column_sum_kernel and returns true if it takes the sums: those of all columns of
 *  one or several matrices, of any width where the rows can be joined. Reads the 16-bit elements of
 * f32 operands that are to be converted. */
bool sum_columns(const PackView& view, const Tensor& input, std::uint32_t dims,
                 const PackedSum& sum) {
  const std::optional<PackColumns> columns = columns_of_packs(view, input.dtype());
  if (!columns) return false;
  const Tensor low = op::late_source(input);
  const bool widens = low.dtype() != input.dtype() && view.has_order_of(low);
  const Tensor x = widens ? low : view.packed();
  const Device device = x.device();
  const ReductionPlan plan = reduction_of(widens ? low : input, dims);
  visit_packed(
      x.dtype(), input.dtype(),
      [&]<class T, class C>(std::type_identity<T>, std::type_identity<C>) {
        reduce_chunks(plan, view.kept.count, columns->parts(), sum, device, [&](float* partial) {
          launch(&packed_column_sum_kernel<T, C>, columns->grid(), current_stream(device), *columns,
                 static_cast<const T*>(x.raw_data()), sum, partial);
        });
      });
  return true;
}

/** Sums rows and columns of packs; returns false for other sums. */
bool sum_packs(const Tensor& x, std::uint32_t dims, const PackedSum& sum) {
  const PackView view(x, dims);
  return reduce_rows(view, x, dims, sum) || sum_columns(view, x, dims, sum);
}

/** Sums all dimensions but the second, as for the bias of a convolution: in the planes of each
 *  image, and then over the images. Returns false for few elements, and for planes that are not
 *  rows of packs. */
bool sum_channels(const Tensor& x, std::uint32_t dims, const PackedSum& sum) {
  const std::uint32_t positions = (1u << x.dim()) - 4;
  if (x.dim() < 3 || dims != (positions | 1) || x.size(0) < 2 || x.numel() < kLeastOfImages)
    return false;
  const CategoryScope scope(MemoryCategory::workspace);
  const Tensor planes = empty_tensor({x.size(0), x.size(1)}, DType::f32, x.device());
  if (!reduce_rows(PackView(x, positions), x, positions, PackedSum{1, Array(planes)})) return false;
  if (!sum_packs(planes, 1, sum)) reduce(planes, 1, sum);
  return true;
}

void mean(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    const C count = static_cast<C>(op::reduced_count(in[0].shape(), attrs));
    const SumOf<C> mean{count, Array(out[0])};
    if constexpr (std::is_same_v<C, float>)
      if (sum_packs(in[0], attrs.dims, mean)) return;
    reduce(in[0], attrs.dims, mean);
  });
}

void sum(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    if constexpr (std::is_same_v<C, float>)
      if (const PackedSum sum{1, Array(out[0])};
          sum_packs(in[0], attrs.dims, sum) || sum_channels(in[0], attrs.dims, sum))
        return;
    fold<C, Plus>(in[0], out[0], attrs.dims, C(0));
  });
}

}  // namespace

void attach_reduce() {
  attach<op::All, all>();
  attach<op::Amax, amax>();
  attach<op::Amin, amin>();
  attach<op::Any, any>();
  attach<op::CountNonzero, count_nonzero>();
  attach<op::Mean, mean>();
  attach<op::Sum, sum>();
}

}  // namespace mezzo::gpu
