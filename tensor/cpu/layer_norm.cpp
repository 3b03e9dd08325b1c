// Kernels of layer_norm, rms_norm and their gradient.
#include "../ops/layer_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "../device/parallel.h"
#include "block_io.h"
#include "elementwise_kernel.h"
#include "moments.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** The rows of a tensor that are normalised. */
struct Rows {
  std::int64_t count = 0, length = 1;
  Rows(const Tensor& x, const Shape& dims) {
    for (const std::int64_t size : dims) length *= size;
    count = length == 0 ? 0 : x.numel() / length;
  }
  std::int64_t per_panel() const {
    return std::max<std::int64_t>(1, kElementwiseChunk / std::max<std::int64_t>(1, length));
  }
  /** Returns the number of rows whose contributions to the gradients of weight and bias are summed
   *  sequentially. */
  std::int64_t per_group() const { return std::clamp<std::int64_t>((count + 31) / 32, 16, 256); }
};

/** The values of an optional operand in the compute type; all are `absent` if it is undefined. */
template <class C> class Affine {
 public:
  Affine(const Tensor& x, std::int64_t length, C absent) {
    if (x.defined()) {
      source_ = row_major(x);
      values_ = BlockReader<C>(source_).read(0, 0, nullptr);
      if (source_.dtype() == dtype_of<C>()) return;
    }
    own_ = std::make_unique_for_overwrite<C[]>(static_cast<std::size_t>(length));
    if (x.defined())
      convert(source_.dtype(), source_.raw_data(), dtype_of<C>(), own_.get(), length);
    else
      std::fill(own_.get(), own_.get() + length, absent);
    values_ = own_.get();
  }
  const C* values() const { return values_; }

 private:
  Tensor source_;
  std::unique_ptr<C[]> own_;
  const C* values_ = nullptr;
};

/** Returns the mean and the biased variance of a row of any length. */
template <class C> typename Moments<C>::State row_moments(const C* x, std::int64_t n) {
  const Moments<C> moments;
  auto state = moments.row(x, std::min(n, kReductionChunk), 0);
  for (std::int64_t at = kReductionChunk; at < n; at += kReductionChunk)
    state = moments.combine(state, moments.row(x + at, std::min(kReductionChunk, n - at), at));
  return state;
}

template <class C> C row_sum(const C* x, std::int64_t n) {
  C total = 0;
  for (std::int64_t at = 0; at < n; at += kReductionChunk)
    total += fold_row(x + at, std::min(kReductionChunk, n - at), C(0), kPlus, kPlus);
  return total;
}

template <class C> C row_squares(const C* x, std::int64_t n) {
  const auto square = [](C a, C b) { return a + b * b; };
  C total = 0;
  for (std::int64_t at = 0; at < n; at += kReductionChunk)
    total += fold_row(x + at, std::min(kReductionChunk, n - at), C(0), square, kPlus);
  return total;
}

/** Fills the statistics with nan if the rows have no elements. */
template <class C> void fill_if_empty(const Tensor& x, Tensor& statistic) {
  if (x.numel() == 0)
    std::fill_n(statistic.data<C>(), statistic.numel(), std::numeric_limits<C>::quiet_NaN());
}

/** Computes y = (x - mean) * rstd * weight + bias per row and saves mean and rstd. A null `mean`
 *  selects rms_norm. */
template <class C>
void normalize_rows(const Tensor& input, const Tensor& weight, const Tensor& bias, Tensor& out,
                    C* mean, C* rstd, const op::RowNormAttrs& attrs) {
  const Tensor x = row_major(input);
  const Rows rows(x, attrs.dims);
  if (rows.length == 0) return;
  const BlockReader<C> reader(x);
  const BlockWriter<C> writer(out);
  const std::int64_t n = rows.length;
  const Affine<C> scale(weight, n, 1), shift(bias, n, 0);
  const C *w = scale.values(), *b = shift.values();
  const C eps = static_cast<C>(attrs.eps);
  const auto panel = [&](std::int64_t begin, std::int64_t end) {
    Scratch<C> scratch(reader.direct() && writer.direct() ? 0 : 2 * n);
    for (std::int64_t r = begin; r < end; ++r) {
      const C* values = reader.read(r * n, n, scratch.data());
      C* y = writer.target(r * n, scratch.data() + n);
      C m = 0, s = 0;
      if (mean) {
        const auto moments = row_moments(values, n);
        m = mean[r] = moments.mean;
        s = rstd[r] = C(1) / std::sqrt(moments.squares / moments.count + eps);
        for (std::int64_t i = 0; i < n; ++i) y[i] = (values[i] - m) * s * w[i] + b[i];
      } else {
        s = rstd[r] = C(1) / std::sqrt(row_squares(values, n) / static_cast<C>(n) + eps);
        for (std::int64_t i = 0; i < n; ++i) y[i] = values[i] * s * w[i];
      }
      writer.write(r * n, n, y);
    }
  };
  parallel_chunks(rows.count, rows.per_panel(), panel, 0.6 * static_cast<double>(n));
}

/** The gradients of a group of rows: dx of each row, and the group's contribution to those of
 *  weight and bias, if wanted. */
template <class C> struct RowGradients {
  std::int64_t n;
  const C *w, *mean, *rstd;

  /** Computes the gradients of row r. xh, gw and product are buffers of n values. The arrays do not
   *  overlap. */
  void row(const C* g, const C* x, std::int64_t r, C* dx, C* dw, C* db, C* xh, C* gw,
           C* product) const {
    const C s = rstd[r], m = mean ? mean[r] : C(0);
    MZ_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) {
      xh[i] = (x[i] - m) * s;
      gw[i] = g[i] * w[i];
      product[i] = gw[i] * xh[i];
    }
    const C count = static_cast<C>(n);
    const C along = row_sum(product, n) / count, offset = mean ? row_sum(gw, n) / count : C(0);
    MZ_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) dx[i] = s * (gw[i] - offset - xh[i] * along);
    if (!dw) return;
    MZ_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) {
      dw[i] += g[i] * xh[i];
      db[i] += g[i];
    }
  }
};

template <class C>
void backward_rows(Inputs in, Outputs out, const op::LayerNormBackward::Attrs& attrs) {
  const Tensor g = row_major(in[0]), x = row_major(in[1]), rstd = row_major(in[4]);
  const Tensor mean = row_major(in[3]);
  const Rows rows(x, attrs.dims);
  const std::int64_t n = rows.length;
  const Affine<C> weight(in[2], n, 1);
  const RowGradients<C> gradients{n, weight.values(), mean.defined() ? mean.data<C>() : nullptr,
                                  rstd.data<C>()};
  const BlockReader<C> g_reader(g), x_reader(x);
  const BlockWriter<C> writer(out[0]);
  const std::int64_t rows_per_group = rows.per_group();
  const std::int64_t groups =
      std::max<std::int64_t>(1, (rows.count + rows_per_group - 1) / rows_per_group);
  const auto sums =
      std::make_unique<C[]>(attrs.wants_affine ? static_cast<std::size_t>(groups * 2 * n) : 0);
  const auto group = [&](std::int64_t k) {
    Scratch<C> scratch(6 * n);
    C* room = scratch.data();
    C *dw = nullptr, *db = nullptr;
    if (attrs.wants_affine) dw = sums.get() + k * 2 * n, db = dw + n;
    for (std::int64_t r = k * rows_per_group; r < std::min(rows.count, (k + 1) * rows_per_group);
         ++r) {
      const C* gv = g_reader.read(r * n, n, room);
      const C* xv = x_reader.read(r * n, n, room + n);
      C* dx = writer.target(r * n, room + 2 * n);
      gradients.row(gv, xv, r, dx, dw, db, room + 3 * n, room + 4 * n, room + 5 * n);
      writer.write(r * n, n, dx);
    }
  };
  parallel_for(groups, group, 1.0 * static_cast<double>(rows.count * n));
  if (!attrs.wants_affine) return;
  for (std::int64_t step = 1; step < groups; step *= 2)
    for (std::int64_t k = 0; k + step < groups; k += 2 * step)
      for (std::int64_t i = 0; i < 2 * n; ++i)
        sums[static_cast<std::size_t>(k * 2 * n + i)] +=
            sums[static_cast<std::size_t>((k + step) * 2 * n + i)];
  std::copy(sums.get(), sums.get() + n, out[1].data<C>());
  std::copy(sums.get() + n, sums.get() + 2 * n, out[2].data<C>());
}

}  // namespace

namespace op {

void LayerNorm::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    for (const int statistic : {1, 2}) fill_if_empty<C>(in[0], out[statistic]);
    if (in[0].numel() == 0) return;  // the length of the rows may then be huge
    normalize_rows<C>(in[0], in[1], in[2], out[0], out[1].data<C>(), out[2].data<C>(), attrs);
  });
}

void LayerNormBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[1].dtype(), [&]<class C>(std::type_identity<C>) {
    if (in[1].numel() > 0) return backward_rows<C>(in, out, attrs);
    for (const int affine : {1, 2}) std::fill_n(out[affine].data<C>(), out[affine].numel(), C(0));
  });
}

void RmsNorm::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    fill_if_empty<C>(in[0], out[1]);
    if (in[0].numel() == 0) return;
    normalize_rows<C>(in[0], in[1], {}, out[0], nullptr, out[1].data<C>(), attrs);
  });
}

}  // namespace op

}  // namespace mezzo
