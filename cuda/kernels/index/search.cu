// The CUDA kernel of searchsorted: one thread per value.
#include "../../../tensor/ops/index/search.h"

#include "../../attach.h"
#include "../items.h"
#include "../lines.h"

namespace mezzo::gpu {

namespace {

template <class C>
__global__ void __launch_bounds__(kItemThreads)
    search_kernel(const Array sorted, const Array values, std::int64_t* y, std::int64_t count,
                  std::int64_t length, std::int64_t values_per_line, bool right) {
  const std::int64_t item = item_here();
  if (item >= count) return;
  const std::int64_t from = Split(item, values_per_line).quotient * length;
  y[item] = op::insertion_point([&](std::int64_t k) { return sorted.load<C>(from + k); }, length,
                                values.load<C>(item), right);
}

void searchsorted(Inputs in, Outputs out, const op::Searchsorted::Attrs& attrs) {
  const Tensor& y = out[0];
  if (y.numel() == 0) return;
  const op::SearchPlan plan = op::search_plan(in);
  const auto run = [&](auto kernel) {
    launch_over(y.numel(), y.device(), kernel, Array(plan.sorted), Array(plan.values),
                y.data<std::int64_t>(), y.numel(), plan.length, plan.values_per_line, attrs.right);
  };
  if (plan.compute == DType::i64)
    run(&search_kernel<std::int64_t>);
  else if (plan.compute == DType::f64)
    run(&search_kernel<double>);
  else
    run(&search_kernel<float>);
}

}  // namespace

void attach_search() { attach<op::Searchsorted, searchsorted>(); }

}  // namespace mezzo::gpu
