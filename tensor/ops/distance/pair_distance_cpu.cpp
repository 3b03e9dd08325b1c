// Kernels of the distances between all pairs of vectors, and of their gradients.
#include "pair_distance_cpu.h"

#include "../../core/dispatch.h"
#include "../../cpu/block_io.h"
#include "../../device/parallel.h"
#include "pair_distance.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** Vectors of the left operand per chunk; they are all processed while a tile is in the cache. */
constexpr std::int64_t kRows = 16;

/** Estimated cost of one coordinate of one pair, in nanoseconds. */
constexpr double kPairNs = 0.3;

/** Calls f(begin, end) for panels of rows; each row is paired with `pairs` vectors of `length`. */
template <class F>
void for_each_row_panel(std::int64_t rows, std::int64_t pairs, std::int64_t length, F&& f) {
  parallel_chunks(rows, kRows, f, kPairNs * static_cast<double>(pairs * length));
}

template <class C, class Metric>
void distances(const Metric& metric, const C* x1, const C* x2, C* y, std::int64_t p, std::int64_t r,
               std::int64_t length) {
  const Tiles<C> tiles(x2, r, length);
  for_each_row_panel(p, r, length, [&](std::int64_t begin, std::int64_t end) {
    Tiles<C>::for_each_part(0, r, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = begin; i < end; ++i)
        tiles.distances(metric, x1 + i * length, first, last, y + i * r + first);
    });
  });
}

template <class C, class Metric>
void gradients(const Metric& metric, const C* g, const C* y, const C* x1, const C* x2, C* gx,
               std::int64_t p, std::int64_t r, std::int64_t length) {
  const Tiles<C> tiles(x2, r, length);
  for_each_row_panel(p, r, length, [&](std::int64_t begin, std::int64_t end) {
    std::fill(gx + begin * length, gx + end * length, C(0));
    Tiles<C>::for_each_part(0, r, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = begin; i < end; ++i)
        tiles.add_gradient(metric, x1 + i * length, first, last, g + i * r + first,
                           y + i * r + first, gx + i * length);
    });
  });
}

template <class C, class Metric>
void triangle(const Metric& metric, const C* x, C* y, std::int64_t n, std::int64_t length) {
  const Tiles<C> tiles(x, n, length);
  for_each_row_panel(n, n / 2, length, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      Tiles<C>::for_each_part(i + 1, n, [&](std::int64_t first, std::int64_t last) {
        tiles.distances(metric, x + i * length, first, last, y + pair_place(i, first, n));
      });
  });
}

template <class C, class Metric>
void triangle_gradients(const Metric& metric, const C* g, const C* y, const C* x, C* gx,
                        std::int64_t n, std::int64_t length) {
  const Tiles<C> tiles(x, n, length);
  for_each_row_panel(n, n, length, [&](std::int64_t begin, std::int64_t end) {
    std::fill(gx + begin * length, gx + end * length, C(0));
    for (std::int64_t i = begin; i < end; ++i) {
      const auto add = [&](std::int64_t first, std::int64_t last, const C* row_g, const C* row_y) {
        tiles.add_gradient(metric, x + i * length, first, last, row_g, row_y, gx + i * length);
      };
      Tiles<C>::for_each_part(0, i, [&](std::int64_t first, std::int64_t last) {
        C column_g[kTile], column_y[kTile];  // pairs (j, i) are not contiguous
        for (std::int64_t j = first; j < last; ++j) {
          column_g[j - first] = g[pair_place(j, i, n)];
          column_y[j - first] = y[pair_place(j, i, n)];
        }
        add(first, last, column_g, column_y);
      });
      Tiles<C>::for_each_part(i + 1, n, [&](std::int64_t first, std::int64_t last) {
        add(first, last, g + pair_place(i, first, n), y + pair_place(i, first, n));
      });
    }
  });
}

/** Calls f(type, metric) with the compute type of x. */
template <class F> void with_metric(const Tensor& x, double p, F&& f) {
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C> type) {
    visit_metric<C>(p, [&](const auto& metric) { f(type, metric); });
  });
}

}  // namespace

namespace op {
void PairDistance::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const Tensor x1 = row_major(in[0]), x2 = row_major(in[1]);
  const std::int64_t p = x1.size(1), r = x2.size(1), length = x1.size(2);
  if (out[0].numel() == 0) return;
  with_metric(x1, attrs.p, [&]<class C>(std::type_identity<C>, const auto& metric) {
    for (std::int64_t b = 0; b < x1.size(0); ++b)
      distances(metric, x1.data<C>() + b * p * length, x2.data<C>() + b * r * length,
                out[0].data<C>() + b * p * r, p, r, length);
  });
}

void PairDistanceBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const Tensor g = row_major(in[0]), y = row_major(in[1]), x1 = row_major(in[2]),
               x2 = row_major(in[3]);
  const std::int64_t p = x1.size(1), r = x2.size(1), length = x1.size(2);
  if (out[0].numel() == 0) return;
  with_metric(x1, attrs.p, [&]<class C>(std::type_identity<C>, const auto& metric) {
    for (std::int64_t b = 0; b < x1.size(0); ++b)
      gradients(metric, g.data<C>() + b * p * r, y.data<C>() + b * p * r,
                x1.data<C>() + b * p * length, x2.data<C>() + b * r * length,
                out[0].data<C>() + b * p * length, p, r, length);
  });
}

void TriangleDistance::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const Tensor x = row_major(in[0]);
  if (out[0].numel() == 0) return;
  with_metric(x, attrs.p, [&]<class C>(std::type_identity<C>, const auto& metric) {
    triangle(metric, x.data<C>(), out[0].data<C>(), x.size(0), x.size(1));
  });
}

void TriangleDistanceBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const Tensor g = row_major(in[0]), y = row_major(in[1]), x = row_major(in[2]);
  if (out[0].numel() == 0) return;
  with_metric(x, attrs.p, [&]<class C>(std::type_identity<C>, const auto& metric) {
    triangle_gradients(metric, g.data<C>(), y.data<C>(), x.data<C>(), out[0].data<C>(), x.size(0),
                       x.size(1));
  });
}

}  // namespace op

}  // namespace mezzo
