// Kernels of gather, scatter and scatter_add.
#include "gather.h"

#include <cstring>

#include "../../core/dispatch.h"
#include "../../cpu/order.h"
#include "../../cpu/word.h"
#include "../../device/parallel.h"
#include "index_list_cpu.h"

namespace mezzo::op {

namespace {

using cpu_kernels::at_least_1d;
using cpu_kernels::checked_indices;
using cpu_kernels::copy_values;
using cpu_kernels::offset_table;
using cpu_kernels::start_from;
using cpu_kernels::visit_word;

/** Offsets of the elements of a tensor that the index iterates over: outer offsets, a stride along
 *  dim, inner offsets. */
struct Lines {
  std::vector<std::int64_t> outer, inner;
  std::int64_t step = 1;

  Lines(const Tensor& x, const Shape& index, int dim) : step(x.strides()[dim]) {
    const auto before = static_cast<std::size_t>(dim), after = before + 1;
    const std::span<const std::int64_t> sizes = index, strides = x.strides();
    outer = offset_table(sizes.first(before), strides.first(before));
    inner = offset_table(sizes.subspan(after), strides.subspan(after));
  }
};

/** Calls visit(x element, y element) for every index: the element of x that it selects, and the
 *  element of y at its own position. The calls for one element of x are made in index order by one
 *  thread, for any number of threads. */
template <class X, class Y, class F>
void for_each_index(const Tensor& index, int dim, X* x, const Lines& at_x, Y* y, const Lines& at_y,
                    F&& visit) {
  const std::int64_t* named = index.data<std::int64_t>();
  const std::int64_t length = index.shape()[dim], x_step = at_x.step, y_step = at_y.step;
  const auto width = static_cast<std::int64_t>(at_x.inner.size());
  const auto lines = [&](std::int64_t outer, std::int64_t from, std::int64_t to) {
    X* const x_line = x + at_x.outer[static_cast<std::size_t>(outer)];
    Y* const y_line = y + at_y.outer[static_cast<std::size_t>(outer)];
    const std::int64_t* const named_line = named + outer * length * width;
    if (width == 1 && x_step == 1 && y_step == 1) {  // a loop without multiplications
      for (std::int64_t j = 0; j < length; ++j) visit(x_line[named_line[j]], y_line[j]);
      return;
    }
    if (width == 1) {
      for (std::int64_t j = 0; j < length; ++j)
        visit(x_line[named_line[j] * x_step], y_line[j * y_step]);
      return;
    }
    const std::int64_t *const x_inner = at_x.inner.data(), *const y_inner = at_y.inner.data();
    for (std::int64_t j = 0; j < length; ++j) {
      const std::int64_t* const row = named_line + j * width;
      Y* const y_row = y_line + j * y_step;
      for (std::int64_t k = from; k < to; ++k)
        visit(x_line[row[k] * x_step + x_inner[k]], y_row[y_inner[k]]);
    }
  };
  // A line is never divided. Adjacent lines are divided into strips of a few cache lines.
  constexpr std::int64_t kStrip = 64;
  const std::int64_t strips = (width + kStrip - 1) / kStrip;
  const std::int64_t per_chunk = std::max<std::int64_t>(
      1, kElementwiseChunk / std::max<std::int64_t>(1, length * std::min(width, kStrip)));
  parallel_chunks(
      static_cast<std::int64_t>(at_x.outer.size()) * strips, per_chunk,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          lines(i / strips, i % strips * kStrip, std::min(width, i % strips * kStrip + kStrip));
      },
      static_cast<double>(length * std::min(width, kStrip)) * 1.5);
}

/** Operands of the three kernels, with at least one dimension, and the checked index. */
struct Operands {
  Tensor x, index;
  int dim;

  Operands(std::string_view op, const Tensor& tensor, const Tensor& raw_index, std::int64_t wanted)
      : x(at_least_1d(tensor)), dim(wrap_dim(wanted, tensor.dim(), op.data())) {
    const Tensor checked = checked_indices(raw_index, {op, tensor, dim, x.shape()[dim]});
    index = at_least_1d(checked);
  }
};

template <class C> void add_at(const Operands& operands, const Tensor& total, const Tensor& src) {
  const Lines at_total(total, operands.index.shape(), operands.dim),
      at_src(src, operands.index.shape(), operands.dim);
  for_each_index(operands.index, operands.dim, total.data<C>(), at_total, src.data<C>(), at_src,
                 [](C& sum, const C& value) { sum = cpu_kernels::kPlus(sum, value); });
}

}  // namespace

void Gather::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const Operands operands("gather", in[0], in[1], attrs.dim);
  const Tensor y = at_least_1d(out[0]);
  const Lines at_x(operands.x, y.shape(), operands.dim), at_y(y, y.shape(), operands.dim);
  visit_word(y.dtype(), [&]<class Word>(std::type_identity<Word>) {
    for_each_index(operands.index, operands.dim, static_cast<const Word*>(operands.x.raw_data()),
                   at_x, static_cast<Word*>(y.raw_data()), at_y,
                   [](const Word& from, Word& to) { std::memcpy(&to, &from, sizeof to); });
  });
}

void Scatter::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const CastScope no_casts(nullptr);
  if (in[1].numel() == 0) return start_from(in[0], out[0]);
  const Operands operands("scatter", out[0], in[1], attrs.dim);
  start_from(in[0], out[0]);
  const Tensor src = at_least_1d(in[2]);
  const Shape& shape = operands.index.shape();
  const Lines at_x(operands.x, shape, operands.dim), at_src(src, shape, operands.dim);
  visit_word(src.dtype(), [&]<class Word>(std::type_identity<Word>) {
    for_each_index(operands.index, operands.dim, static_cast<Word*>(operands.x.raw_data()), at_x,
                   static_cast<const Word*>(src.raw_data()), at_src,
                   [](Word& to, const Word& from) { std::memcpy(&to, &from, sizeof to); });
  });
}

void ScatterAdd::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const CastScope no_casts(nullptr);
  if (in[1].numel() == 0) return start_from(in[0], out[0]);
  Operands operands("scatter_add", out[0], in[1], attrs.dim);
  const Tensor valued[] = {in[0], in[2]};
  const DType compute = compute_dtype(promoted_dtype(valued));
  const Tensor src = at_least_1d(in[2]).to(compute);
  // Sums of narrower types run in a copy of the whole result in the compute type, which is rounded
  // once at the end.
  const bool direct = operands.x.dtype() == compute;
  const Tensor total = direct ? operands.x : empty_tensor(operands.x.shape(), compute, mezzo::cpu);
  if (direct)
    start_from(in[0], out[0]);
  else
    copy_values(at_least_1d(in[0]), total);
  if (compute == DType::f32)
    add_at<float>(operands, total, src);
  else if (compute == DType::f64)
    add_at<double>(operands, total, src);
  else
    add_at<std::int64_t>(operands, total, src);
  if (!direct) copy_values(total, operands.x);
}

}  // namespace mezzo::op
