// The CUDA kernels that convert class indices into weights, masks and one-hot vectors. Invalid
// classes are recorded as index errors.
#include "../../../tensor/ops/index/classes.h"

#include <limits>

#include "../../../tensor/cpu/order.h"
#include "../../attach.h"
#include "../../runtime/index_errors.h"
#include "../items.h"
#include "../lines.h"

namespace mezzo::gpu {

namespace {

template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    class_weights_kernel(const Array target, const Array weight, std::int64_t* index, C* weights,
                         std::int64_t count, std::int64_t classes, std::int64_t ignore_index,
                         IndexErrorWord* bad) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kSpreadThreads + threadIdx.x;
  if (i >= count) return;
  const std::int64_t t = target.load<std::int64_t>(i);
  const bool in_range = t >= 0 && t < classes;
  index[i] = in_range && t != ignore_index ? t : 0;
  if (t == ignore_index) {
    weights[i] = C(0);
  } else if (in_range) {
    weights[i] = weight.load_or(t, C(1));
  } else {
    note_bad(bad, i, t);
    weights[i] = std::numeric_limits<C>::quiet_NaN();
  }
}

void class_weights(Inputs in, Outputs out, const op::ClassWeights::Attrs& attrs) {
  const Tensor target = row_major(in[0]), weight = row_major(in[1]);
  const Device device = target.device();
  if (target.numel() == 0) return;
  IndexErrorWord* const bad =
      watch(device, ClassRange{attrs.op, target.shape(), attrs.classes, attrs.ignore_index});
  visit_floating_compute(attrs.dtype, [&]<class C>(std::type_identity<C>) {
    launch(&class_weights_kernel<C>,
           {.blocks = blocks_for(target.numel(), kSpreadThreads), .threads = kSpreadThreads},
           current_stream(device), Array(target), Array(weight), out[0].data<std::int64_t>(),
           out[1].data<C>(), target.numel(), attrs.classes, attrs.ignore_index, bad);
  });
}

/** End marker of a row's list of classes. */
constexpr std::int64_t kEnd = -1;

/** Marks the classes of each row. Lines are the rows; those of a block are cleared before any class
 *  is marked. */
__global__ void __launch_bounds__(kSpreadThreads)
    named_classes_kernel(const Lines __grid_constant__ rows, const Array target, bool* named,
                         IndexErrorWord* bad) {
  MZ_SHARED(std::int64_t, room, kSpreadThreads);
  const LineWalk walk(rows);
  walk.for_each([&](std::int64_t place, std::int64_t) { named[place] = false; });
  const std::int64_t end =
      walk.fold(room, rows.length, cpu_kernels::Less{}, [&](std::int64_t place, std::int64_t i) {
        return target.load<std::int64_t>(place) == kEnd ? i : rows.length;
      });
  walk.for_each([&](std::int64_t place, std::int64_t i) {
    const std::int64_t t = target.load<std::int64_t>(place);
    const bool in_range = t >= 0 && t < rows.length;
    if (!in_range && t != kEnd) note_bad(bad, place, t);
    if (in_range && i < end) named[walk.base + t] = true;
  });
}

void named_classes(Inputs in, Outputs out, const op::NamedClasses::Attrs& attrs) {
  const Tensor target = row_major(in[0]);
  if (target.numel() == 0) return;
  const Lines rows = trailing_lines(target.shape(), 1);
  IndexErrorWord* const bad =
      watch(target.device(), ClassRange{attrs.op, target.shape(), rows.length, kEnd});
  launch(&named_classes_kernel, grid_of(rows), current_stream(target.device()), rows, Array(target),
         out[0].data<bool>(), bad);
}

/** One thread per element of the result; the first of a row checks its class. */
__global__ void __launch_bounds__(kItemThreads)
    one_hot_kernel(const Array classes, std::int64_t count, std::int64_t size, std::int64_t* y,
                   IndexErrorWord* bad) {
  const std::int64_t item = item_here();
  if (item >= count) return;
  const Split at(item, size);
  const std::int64_t t = classes.load<std::int64_t>(at.quotient);
  if (at.rest == 0 && (t < 0 || t >= size)) note_bad(bad, at.quotient, t);
  y[item] = t == at.rest ? 1 : 0;
}

void one_hot(Inputs in, Outputs out, const op::OneHot::Attrs& attrs) {
  const Tensor classes = row_major(in[0]), &y = out[0];
  const TensorMeta into{y.shape(), y.dtype(), y.device()};
  IndexErrorWord* const bad = watch(y.device(), op::IndexRange{"one_hot", classes.shape(), into,
                                                               classes.dim(), 0, attrs.classes});
  launch_over(y.numel(), y.device(), &one_hot_kernel, Array(classes), y.numel(), attrs.classes,
              y.data<std::int64_t>(), bad);
}

}  // namespace

void attach_classes() {
  attach<op::ClassWeights, class_weights>();
  attach<op::NamedClasses, named_classes>();
  attach<op::OneHot, one_hot>();
}

}  // namespace mezzo::gpu
