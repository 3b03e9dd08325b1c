// Kernels of the running extremes; adjacent lines are processed together.
#include "running_extreme.h"

#include "../../cpu/line_map.h"
#include "../../cpu/order.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

/** Number of strided lines processed together, and of elements of a dense line read at a time. */
constexpr std::int64_t kTogether = 64;

template <class C, class Reaches>
void running_extreme(const Tensor& operand, Outputs out, int dim) {
  const Tensor x = row_major(operand);
  const LineShape s(x.shape(), dim);
  const BlockReader<C> reader(x);
  const BlockWriter<C> writer(out[0]);
  std::int64_t* const indices = out[1].data<std::int64_t>();
  const auto one_line = [&](std::int64_t line) {
    C row[kTogether], bests[kTogether], best{};
    std::int64_t at = 0;
    for (std::int64_t first = 0; first < s.length; first += kTogether) {
      const std::int64_t place = line * s.length + first, n = std::min(kTogether, s.length - first);
      const C* const values = reader.read(place, n, row);
      for (std::int64_t i = 0; i < n; ++i) {
        if (first + i == 0 || Reaches{}(values[i], best)) {
          best = values[i];
          at = first + i;
        }
        bests[i] = best;
        indices[place + i] = at;
      }
      writer.copy(place, n, bests);
    }
  };
  const std::int64_t tiles = (s.inner + kTogether - 1) / kTogether;
  const auto one_tile = [&](std::int64_t outer, std::int64_t column) {
    const std::int64_t width = std::min(kTogether, s.inner - column);
    C row[kTogether], best[kTogether];
    std::int64_t at[kTogether];
    for (std::int64_t k = 0; k < s.length; ++k) {
      const std::int64_t place = (outer * s.length + k) * s.inner + column;
      const C* const values = reader.read(place, width, row);
      for (std::int64_t j = 0; j < width; ++j)
        if (k == 0 || Reaches{}(values[j], best[j])) {
          best[j] = values[j];
          at[j] = k;
        }
      writer.copy(place, width, best);
      std::copy(at, at + width, indices + place);
    }
  };
  parallel_chunks(
      s.outer * tiles,
      std::max<std::int64_t>(
          1, kLinePanel / std::max<std::int64_t>(1, s.length * std::min(s.inner, kTogether))),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t)
          s.inner == 1 ? one_line(t) : one_tile(t / tiles, t % tiles * kTogether);
      },
      static_cast<double>(s.length * std::min(s.inner, kTogether)) * 2);
}

template <class Reaches> void visit(Inputs in, Outputs out, std::int64_t wanted, const char* op) {
  if (out[0].numel() == 0) return;
  const int dim = wrap_dim(wanted, in[0].dim(), op);
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    running_extreme<C, Reaches>(in[0], out, dim);
  });
}

}  // namespace

void Cummax::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit<ReachesUp>(in, out, attrs.dim, "cummax");
}

void Cummin::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit<ReachesDown>(in, out, attrs.dim, "cummin");
}

}  // namespace mezzo::op
