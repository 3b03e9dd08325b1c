// Kernels of the running sums and products.
#include "scan.h"

#include "../../cpu/line_map.h"
#include "../../cpu/order.h"
#include "../shape/copy.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

template <class C> void cumsum_line(const C* x, C* y, std::int64_t n, bool reversed) {
  C total = 0;
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t i = reversed ? n - 1 - k : k;
    total = kPlus(total, x[i]);
    y[i] = total;
  }
}

template <class C> void cumprod_line(const C* const* in, C* y, std::int64_t n) {
  C product = 1;
  for (std::int64_t k = 0; k < n; ++k) y[k] = product = kTimes(product, in[0][k]);
}

template <class C> void cumprod_backward_line(const C* const* in, C* gx, std::int64_t n) {
  const C *g = in[0], *x = in[1];
  C tail = 0;
  for (std::int64_t k = n - 1; k >= 0; --k)
    gx[k] = tail = g[k] + (k + 1 < n ? x[k + 1] * tail : C(0));
  C before = 1;
  for (std::int64_t k = 0; k < n; ++k) {
    gx[k] *= before;
    before *= x[k];
  }
}

// The same for `width` lines at once; element i of line j is at [i * stride + j].

template <class C>
void cumsum_columns(const C* x, C* y, std::int64_t n, std::int64_t stride, std::int64_t width,
                    bool reversed) {
  C total[kLineColumns] = {};
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t at = (reversed ? n - 1 - k : k) * stride;
    for (std::int64_t j = 0; j < width; ++j) {
      total[j] = kPlus(total[j], x[at + j]);
      y[at + j] = total[j];
    }
  }
}

template <class C>
void cumprod_columns(const C* const* in, C* y, std::int64_t n, std::int64_t stride,
                     std::int64_t width) {
  C product[kLineColumns];
  std::fill(product, product + width, C(1));
  for (std::int64_t at = 0; at < n * stride; at += stride)
    for (std::int64_t j = 0; j < width; ++j) {
      product[j] = kTimes(product[j], in[0][at + j]);
      y[at + j] = product[j];
    }
}

}  // namespace

namespace op {

void Cumprod::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    with_row_major(out[0], [&](Tensor& y) {
      map_lines_or_columns<C, 1>({row_major(in[0])}, y, attrs.dim, cumprod_line<C>,
                                 cumprod_columns<C>, 1);
    });
  });
}

void CumprodBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    map_lines<C, 2>({row_major(in[0]), row_major(in[1])}, out[0], attrs.dim,
                    cumprod_backward_line<C>, 2);
  });
}

void Cumsum::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    const auto line = [&](const C* const* x, C* y, std::int64_t n) {
      cumsum_line(x[0], y, n, attrs.reversed);
    };
    const auto columns = [&](const C* const* x, C* y, std::int64_t n, std::int64_t stride,
                             std::int64_t width) {
      cumsum_columns(x[0], y, n, stride, width, attrs.reversed);
    };
    with_row_major(out[0], [&](Tensor& y) {
      map_lines_or_columns<C, 1>({row_major(in[0])}, y, attrs.dim, line, columns, 1);
    });
  });
}

}  // namespace op

}  // namespace mezzo
