// Kernels of layer_norm, rms_norm and their gradient.
#include "layer_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "../../cpu/block_io.h"
#include "../../cpu/elementwise_kernel.h"
#include "../../cpu/moments.h"
#include "../../cpu/simd.h"
#include "../../device/parallel.h"
#include "../../math/safe_sum.h"

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

template <class C> C row_squares(const C* x, std::int64_t n) {
  const auto square = [](auto a, auto b) { return a + b * b; };
  C total = 0;
  for (std::int64_t at = 0; at < n; at += kReductionChunk)
    total += fold_row(x + at, std::min(kReductionChunk, n - at), C(0), square, kPlus);
  return total;
}

/** A row of values scaled by a power of two, with its mean and rstd. */
template <class C> struct ScaledRow {
  std::vector<C> values;
  C scale, mean = 0, rstd;

  /** Scales a row of which a sum overflowed. With `centred` the mean is subtracted. */
  ScaledRow(const C* x, std::int64_t n, C eps, bool centred)
      : values(x, x + n), scale(math::scale_of(greatest(x, n))) {
    for (C& value : values) value *= scale;
    C squares;
    if (centred) {
      const auto moments = row_moments(values.data(), n);
      mean = moments.mean;
      squares = moments.squares;
    } else {
      squares = row_squares(values.data(), n);
    }
    rstd = C(1) / std::sqrt(squares / static_cast<C>(n) + eps * scale * scale);
  }

 private:
  static C greatest(const C* x, std::int64_t n) {
    C size = 0;
    for (std::int64_t i = 0; i < n; ++i) size = kGreater(size, std::fabs(x[i]));
    return size;
  }
};

/** Computes a row of normalize_rows in the slow way, if sums of its finite values overflow. */
template <class C>
[[gnu::noinline]] void normalize_scaled(const C* x, std::int64_t n, C eps, const C* weight,
                                        const C* bias, C* y, C* mean, C* rstd) {
  const ScaledRow<C> row(x, n, eps, mean != nullptr);
  if (row.scale == C(1)) return;
  if (mean) *mean = row.mean / row.scale;
  *rstd = row.rstd * row.scale;
  for (std::int64_t i = 0; i < n; ++i)
    y[i] = (row.values[static_cast<std::size_t>(i)] - row.mean) * row.rstd * weight[i] +
           (mean ? bias[i] : C(0));
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
      C m = 0, s = 0, squares = 0;
      if (mean) {
        const auto moments = row_moments(values, n);
        m = mean[r] = moments.mean;
        squares = moments.squares;
        s = rstd[r] = C(1) / std::sqrt(squares / moments.count + eps);
        for (std::int64_t i = 0; i < n; ++i) y[i] = (values[i] - m) * s * w[i] + b[i];
      } else {
        squares = row_squares(values, n);
        s = rstd[r] = C(1) / std::sqrt(squares / static_cast<C>(n) + eps);
        for (std::int64_t i = 0; i < n; ++i) y[i] = values[i] * s * w[i];
      }
      if (!math::is_finite(squares))
        normalize_scaled(values, n, eps, w, b, y, mean ? mean + r : nullptr, rstd + r);
      writer.write(r * n, n, y);
    }
  };
  parallel_chunks(rows.count, rows.per_panel(), panel, 0.6 * static_cast<double>(n));
}

/** Rows whose gradients are computed together. */
constexpr int kRowsAtOnce = 2;

/** The values of a row: g is the incoming gradient, dx the gradient of x. */
template <class C> struct GradientRow {
  const C *g, *x;
  C* dx;
  C mean, rstd;
};

/** Computes gradients of rows of n elements. The arrays do not overlap. */
template <class C> struct RowGradients {
  std::int64_t n;
  const C* w;
  bool centred;  // whether the rows' means were subtracted

  /** The means over a row of weighted gradient * normalised value and of the weighted gradient. */
  struct Means {
    C along, offset;
  };
  Means means(const GradientRow<C>& row) const {
    const C *g = row.g, *x = row.x, *weight = w;
    const C m = row.mean, s = row.rstd, count = static_cast<C>(n);
    C along = 0, offset = 0;
    for (std::int64_t at = 0; at < n; at += kReductionChunk) {
      const auto add = [=](std::int64_t i, C& a, C& b) {
        const C gw = g[at + i] * weight[at + i];
        a += gw * ((x[at + i] - m) * s);
        b += gw;
      };
      const auto [a, b] = sum_row<2, C>(std::min(kReductionChunk, n - at), add);
      along += a;
      offset += b;
    }
    return {along / count, centred ? offset / count : C(0)};
  }

  /** Computes the gradients of kRows rows, and adds their contributions to those of weight and
   *  bias, which are then read and written once for all of them. */
  template <int kRows> void rows(const GradientRow<C>* first, C* dw, C* db) const {
    GradientRow<C> row[kRows];
    Means mean[kRows];
    for (int r = 0; r < kRows; ++r) mean[r] = means(row[r] = first[r]);
    const C* weight = w;
    MZ_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) {
      C to_weight = dw[i], to_bias = db[i];
      MZ_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const C g = row[r].g[i], xh = (row[r].x[i] - row[r].mean) * row[r].rstd;
        row[r].dx[i] = row[r].rstd * (g * weight[i] - mean[r].offset - xh * mean[r].along);
        to_weight += g * xh;
        to_bias += g;
      }
      dw[i] = to_weight;
      db[i] = to_bias;
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
  const C* means = mean.defined() ? mean.data<C>() : nullptr;
  const RowGradients<C> gradients{n, weight.values(), mean.defined()};
  const BlockReader<C> g_reader(g), x_reader(x);
  const BlockWriter<C> writer(out[0]);
  const std::int64_t rows_per_group = rows.per_group();
  const std::int64_t groups =
      std::max<std::int64_t>(1, (rows.count + rows_per_group - 1) / rows_per_group);
  const auto sums = std::make_unique<C[]>(static_cast<std::size_t>(groups * 2 * n));
  const bool direct = g_reader.direct() && x_reader.direct() && writer.direct();
  const auto group = [&](std::int64_t k) {
    Scratch<C> scratch(direct ? 0 : 3 * kRowsAtOnce * n);
    C *dw = sums.get() + k * 2 * n, *db = dw + n;
    const std::int64_t end = std::min(rows.count, (k + 1) * rows_per_group);
    for (std::int64_t first = k * rows_per_group; first < end; first += kRowsAtOnce) {
      const std::int64_t count = std::min<std::int64_t>(kRowsAtOnce, end - first);
      GradientRow<C> row[kRowsAtOnce];
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t r = first + i;
        C* room = scratch.data() + 3 * i * n;
        row[i] = {g_reader.read(r * n, n, room), x_reader.read(r * n, n, room + n),
                  writer.target(r * n, room + 2 * n), means ? means[r] : C(0), rstd.data<C>()[r]};
      }
      if (count == kRowsAtOnce)
        gradients.template rows<kRowsAtOnce>(row, dw, db);
      else
        for (std::int64_t i = 0; i < count; ++i) gradients.template rows<1>(row + i, dw, db);
      for (std::int64_t i = 0; i < count; ++i) writer.write((first + i) * n, n, row[i].dx);
    }
  };
  parallel_for(groups, group, 1.0 * static_cast<double>(rows.count * n));
  if (!attrs.wants_affine) return;
  for (std::int64_t step = 1; step < groups; step *= 2)
    for (std::int64_t k = 0; k + step < groups; k += 2 * step)
      for (std::int64_t i = 0; i < 2 * n; ++i)
        sums[static_cast<std::size_t>(k * 2 * n + i)] +=
            sums[static_cast<std::size_t>((k + step) * 2 * n + i)];
  std::copy(sums.get(), sums.get() + n, static_cast<C*>(out[1].raw_data()));
  std::copy(sums.get() + n, sums.get() + 2 * n, static_cast<C*>(out[2].raw_data()));
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
    for (const int affine : {1, 2})
      std::fill_n(static_cast<C*>(out[affine].raw_data()), out[affine].numel(), C(0));
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
