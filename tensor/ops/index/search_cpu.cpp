// Kernel of searchsorted: a binary search per value.
#include "search.h"

#include "../../device/parallel.h"

namespace mezzo::op {

namespace {

template <class C> void search(const SearchPlan& plan, const Tensor& out, bool right) {
  const Tensor sorted = plan.sorted.to(plan.compute), values = plan.values.to(plan.compute);
  const C *const line = sorted.data<C>(), *const x = values.data<C>();
  std::int64_t* const y = out.data<std::int64_t>();
  constexpr std::int64_t kChunk = 4096;
  parallel_chunks(
      out.numel(), kChunk,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const C* const from = line + i / plan.values_per_line * plan.length;
          y[i] = insertion_point([&](std::int64_t k) { return from[k]; }, plan.length, x[i], right);
        }
      },
      20);
}

}  // namespace

void Searchsorted::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (out[0].numel() == 0) return;
  SearchPlan plan = search_plan(in);
  if (plan.compute == DType::i64)
    search<std::int64_t>(plan, out[0], attrs.right);
  else if (plan.compute == DType::f64)
    search<double>(plan, out[0], attrs.right);
  else
    search<float>(plan, out[0], attrs.right);
}

}  // namespace mezzo::op
