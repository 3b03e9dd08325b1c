// Kernel of a recurrent layer in one direction. One product computes the inputs of all steps. Then
// each step multiplies the state with the recurrent weights, which are packed once, and applies the
// gates to each panel of the product while it is in the cache.
#include "recurrent.h"

#include <cstring>
#include <optional>

#include "../../cpu/block_io.h"
#include "../../cpu/gemm.h"
#include "../../cpu/prefetch.h"
#include "recurrent_cells_cpu.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** Sums the defined biases. The hidden bias of a GRU's n is stored separately in `apart`. */
template <class T>
void combined_bias(Inputs in, op::CellKind kind, std::int64_t columns, T* sum, T* apart) {
  std::fill_n(sum, columns, T(0));
  const std::int64_t together = kind == op::CellKind::gru ? columns / 3 * 2 : columns;
  std::fill_n(apart, columns - together, T(0));
  for (const std::size_t k : {5u, 6u}) {
    if (!in[k].defined()) continue;
    const Tensor bias = row_major(in[k]);
    const Workspace<T> values(columns);
    convert(bias.dtype(), bias.raw_data(), dtype_of<T>(), values.data(), columns);
    for (std::int64_t i = 0; i < columns; ++i)
      (k == 6 && i >= together ? apart[i - together] : sum[i]) += values.data()[i];
  }
}

template <class E, class Units> class LayerForward {
  using T = SumOf<E>;

 public:
  LayerForward(Inputs in, Outputs out, const op::RecurrentAttrs& attrs)
      : in_(in),
        out_(out),
        plan_(in[0].shape()[0], in[0].shape()[1], attrs),
        hidden_(in[3].shape()[0] / Units::kGates),
        columns_(in[3].shape()[0]),
        size_(in[4].shape()[1]),
        recurrent_(matrix_of(in[4]), Units::kGates, hidden_, size_),
        h_(plan_.batch * size_),
        c_(plan_.batch * hidden_),
        raw_(in[7].defined() ? plan_.batch * hidden_ : 0),
        packed_(plan_.batch * steps_of<E>(std::max(size_, hidden_))),
        bias_(columns_),
        apart_(columns_) {
    if (in[7].defined()) projection_.emplace(matrix_of(in[7]), 1, size_, hidden_);
    const std::int64_t kept = plan_.rows * (columns_ + (Units::kExtra ? hidden_ : 0));
    if (out[3].numel() == 0) own_gates_ = Workspace<T>(kept);
    gates_ = out[3].numel() == 0 ? own_gates_.data() : out[3].template data<T>();
    extra_ = gates_ + plan_.rows * columns_;
    load_state(in[1], plan_, size_, h_.data());
    load_state(in[2], plan_, hidden_, c_.data());
    combined_bias(in, attrs.kind, columns_, bias_.data(), apart_.data());
  }

  void run() {
    if (!plan_.full) std::memset(out_[0].raw_data(), 0, bytes_of(out_[0]));
    Workspace<char> room;
    const Matrix x = packed_rows(in_[0], plan_, room);
    gemm(plan_.rows, columns_, in_[0].shape()[2], x, matrix_of(in_[3]).transposed(),
         {gates_, dtype_of<T>(), columns_, 1}, {1, 1, {bias_.data(), dtype_of<T>(), 0, 1}});
    for (std::int64_t k = 0; k < plan_.steps; ++k) step(plan_.time(k));
    store_state(h_.data(), plan_, size_, out_[1]);
    if (out_[2].dim() == 2) store_state(c_.data(), plan_, hidden_, out_[2]);
  }

 private:
  static constexpr std::int64_t kWidth = RegisterBlock<E>::kColumns;

  static std::size_t bytes_of(const Tensor& x) {
    return static_cast<std::size_t>(x.numel()) * item_size(x.dtype());
  }

  void step(std::int64_t time) {
    const std::int64_t n = plan_.active(time);
    if (n == 0) return;
    const RowPanels<E> rows = pack_rows<E>(h_.data(), n, size_, packed_.data());
    parallel_for(
        recurrent_.panels(), [&](std::int64_t panel) { compute_units(time, rows, panel); },
        static_cast<double>(n * columns_) * (static_cast<double>(size_) * 0.02 + 1));
    if (projection_) project(time);
  }

  /** Prefetches one panel of n rows, so that it arrives during a product. */
  MZ_ALWAYS_INLINE static void prefetch_part(const T* x, std::int64_t n, std::int64_t stride) {
    constexpr auto kItem = static_cast<std::int64_t>(sizeof(T));
    prefetch_rows(reinterpret_cast<const char*>(x), n, stride * kItem, kWidth * kItem);
  }

  /** Computes the units of one panel for all active sequences. */
  void compute_units(std::int64_t time, const RowPanels<E>& rows, std::int64_t panel) {
    const std::int64_t n = rows.rows, first = recurrent_.first_column(panel);
    const Workspace<T> sums(Units::kGates * n * kWidth);
    for (std::int64_t gate = 0; gate < Units::kGates; ++gate) {
      prefetch_part(gates_ + plan_.offset(time) * columns_ + gate * hidden_ + first, n, columns_);
      recurrent_.multiply(rows, packed_.data(), gate, panel, sums.data() + gate * n * kWidth);
    }
    for (std::int64_t i = 0; i < n; ++i) {
      T result[kMaxUnits<T>];
      const std::int64_t row = plan_.offset(time) + i, count = recurrent_.valid(panel);
      Units::forward({.n = count,
                      .gate_stride = hidden_,
                      .hidden_stride = n * kWidth,
                      .gates = gates_ + row * columns_ + first,
                      .hidden = sums.data() + i * kWidth,
                      .extra = Units::kExtra ? extra_ + row * hidden_ + first : nullptr,
                      .state = c_.data() + i * hidden_ + first,
                      .h = h_.data() + i * size_ + first,
                      .bias = apart_.data() + first,
                      .result = result,
                      .dtype = out_[0].dtype()});
      if (projection_)
        std::copy_n(result, count, raw_.data() + i * hidden_ + first);
      else
        store(time, i, first, count, result);
    }
  }

  /** Rounds part of h once and stores it in the result and the state. */
  void store(std::int64_t time, std::int64_t i, std::int64_t first, std::int64_t count,
             const T* values) {
    const Tensor& y = out_[0];
    char* to = row_address(y, plan_.tensor_row(time, i), size_) +
               first * static_cast<std::int64_t>(item_size(y.dtype()));
    T* const h = std::copy_n(values, count, h_.data() + i * size_ + first) - count;
    if constexpr (std::is_same_v<T, float>) round_to(y.dtype(), h, count);
    convert(dtype_of<T>(), h, y.dtype(), to, count);
  }

  void project(std::int64_t time) {
    const std::int64_t n = plan_.active(time);
    const RowPanels<E> rows = pack_rows<E>(raw_.data(), n, hidden_, packed_.data());
    parallel_for(
        projection_->panels(),
        [&](std::int64_t panel) {
          const Workspace<T> sums(n * kWidth);
          projection_->multiply(rows, packed_.data(), 0, panel, sums.data());
          for (std::int64_t i = 0; i < n; ++i)
            store(time, i, projection_->first_column(panel), projection_->valid(panel),
                  sums.data() + i * kWidth);
        },
        static_cast<double>(n * size_) * static_cast<double>(hidden_) * 0.02);
  }

  Inputs in_;
  Outputs out_;
  SequencePlan plan_;
  std::int64_t hidden_, columns_, size_;
  FixedOperand<E> recurrent_;
  std::optional<FixedOperand<E>> projection_;
  Workspace<T> h_, c_, raw_;
  Workspace<E> packed_;
  Workspace<T> bias_, apart_, own_gates_;
  T *gates_, *extra_;
};

}  // namespace

void op::RecurrentLayer::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const DType dtype = in[0].dtype();
  const bool large = tiles_pay(in[0].shape()[1], in[4].shape()[0], in[4].shape()[1]);
  visit_factors(
      dtype, in[4].dtype(), dtype == DType::f64, large, [&]<class E>(std::type_identity<E>) {
        visit_cell<SumOf<E>>(
            attrs.kind, [&]<class Units>(Units) { LayerForward<E, Units>(in, out, attrs).run(); });
      });
}

}  // namespace mezzo
