// Gradients of a recurrent layer: back through time step by step, then one product over all steps
// for the input and for each weight.
#include <cstring>
#include <optional>

#include "../../cpu/block_io.h"
#include "../../cpu/gemm.h"
#include "recurrent.h"
#include "recurrent_cells_cpu.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

using Backward = op::RecurrentLayerBackward;
using enum Backward::Operand;
using enum Backward::Parameter;
using Parameter = Backward::Parameter;
enum Result : std::size_t { kDx, kDh0, kDc0, kParameters };

template <class E, class Units> class LayerBackward {
  using T = SumOf<E>;

 public:
  LayerBackward(Inputs in, Outputs out, const op::RecurrentLayerBackward::Attrs& attrs)
      : in_(in),
        out_(out),
        wanted_(attrs.wanted),
        places_(op::parameter_places(in, attrs.wanted)),
        plan_(in[kX].shape()[0], in[kX].shape()[1], attrs.forward),
        columns_(in[kWih].shape()[0]),
        hidden_(columns_ / Units::kGates),
        size_(in[kWhh].shape()[1]),
        recurrent_(matrix_of(in[kWhh]).transposed(), 1, size_, columns_),
        gates_(in[kKept].data<T>()),
        extra_(gates_ + plan_.rows * columns_),
        h_before_(plan_.rows * size_),
        input_gates_(plan_.rows * columns_),
        hidden_gates_(kGru ? plan_.rows * columns_ : 0),
        gh_(plan_.batch * size_),
        gc_(plan_.batch * hidden_),
        c0_(plan_.batch * hidden_),
        direct_(plan_.batch * hidden_),
        packed_(plan_.batch * steps_of<E>(std::max(columns_, size_))) {
    if (in[kWhr].defined()) {
      projection_.emplace(matrix_of(in[kWhr]).transposed(), 1, hidden_, size_);
      projected_ = Workspace<T>(plan_.rows * size_);
      raw_ = Workspace<T>(plan_.rows * hidden_);
      raw_gradient_ = Workspace<T>(plan_.batch * hidden_);
    }
    load_state(in[kGh], plan_, size_, gh_.data());
    load_state(in[kGc], plan_, hidden_, gc_.data());
    load_state(in[kC0], plan_, hidden_, c0_.data());
    gather_h_before();
    if (in[kGy].defined()) gy_ = row_major(in[kGy]);
  }

  void run() {
    for (std::int64_t k = plan_.steps - 1; k >= 0; --k) step(plan_.time(k));
    if (wanted_[kDh0]) store_state(gh_.data(), plan_, size_, out_[kDh0]);
    if (wanted_[kDc0]) store_state(gc_.data(), plan_, hidden_, out_[kDc0]);
    product_gradients();
    bias_gradients();
  }

 private:
  static constexpr std::int64_t kWidth = RegisterBlock<E>::kColumns;
  static constexpr bool kGru = std::is_same_v<Units, GruUnits<T>>;
  static constexpr bool kLstm = std::is_same_v<Units, LstmUnits<T>>;

  bool wants(Parameter parameter) const { return wanted_[3 + parameter]; }
  char* address(Parameter parameter) const {
    return row_address(out_[kParameters], places_[parameter].offset, 1);
  }

  T* hidden_gates() const { return kGru ? hidden_gates_.data() : input_gates_.data(); }

  /** Collects the h at the start of each step from the results and the initial state. */
  void gather_h_before() {
    const Tensor y = row_major(in_[kY]);
    const Workspace<T> h0(plan_.batch * size_);
    load_state(in_[kH0], plan_, size_, h0.data());
    for (std::int64_t time = 0; time < plan_.steps; ++time) {
      const std::int64_t before = time + (plan_.time(0) == 0 ? -1 : 1);
      for (std::int64_t i = 0; i < plan_.active(time); ++i) {
        T* to = h_before_.data() + (plan_.offset(time) + i) * size_;
        if (plan_.previous_row(time, i) < 0)
          std::copy_n(h0.data() + i * size_, size_, to);
        else
          convert(y.dtype(), row_address(y, plan_.tensor_row(before, i), size_), dtype_of<T>(), to,
                  size_);
      }
    }
  }

  void step(std::int64_t time) {
    const std::int64_t n = plan_.active(time);
    if (n == 0) return;
    for (std::int64_t i = 0; i < n && gy_.defined(); ++i) add_incoming(time, i);
    if (projection_) unproject(time);
    parallel_for(
        n, [&](std::int64_t i) { differentiate_units(time, i); },
        static_cast<double>(n * columns_) * 2);
    const RowPanels<E> rows =
        pack_rows<E>(hidden_gates() + plan_.offset(time) * columns_, n, columns_, packed_.data());
    parallel_for(
        recurrent_.panels(), [&](std::int64_t panel) { to_step_before(rows, panel); },
        static_cast<double>(n * columns_) * static_cast<double>(size_) * 0.02);
  }

  void add_incoming(std::int64_t time, std::int64_t i) {
    T values[256];
    T* to = gh_.data() + i * size_;
    const char* from = row_address(gy_, plan_.tensor_row(time, i), size_);
    const auto item = static_cast<std::int64_t>(item_size(gy_.dtype()));
    for (std::int64_t at = 0; at < size_; at += 256) {
      const std::int64_t run = std::min<std::int64_t>(256, size_ - at);
      convert(gy_.dtype(), from + at * item, dtype_of<T>(), values, run);
      for (std::int64_t e = 0; e < run; ++e) to[at + e] += values[e];
    }
  }

  /** Computes the gradient of h before its projection, and both factors of the projection's
   *  gradient. */
  void unproject(std::int64_t time) {
    const std::int64_t n = plan_.active(time), offset = plan_.offset(time);
    std::copy_n(gh_.data(), n * size_, projected_.data() + offset * size_);
    const T* out_gate = gates_ + 3 * hidden_;
    for (std::int64_t row = offset; row < offset + n; ++row)
      for (std::int64_t u = 0; u < hidden_; ++u)
        raw_.data()[row * hidden_ + u] =
            out_gate[row * columns_ + u] * math::tanh(extra_[row * hidden_ + u]);
    const RowPanels<E> rows = pack_rows<E>(gh_.data(), n, size_, packed_.data());
    for (std::int64_t panel = 0; panel < projection_->panels(); ++panel) {
      const Workspace<T> sums(n * kWidth);
      projection_->multiply(rows, packed_.data(), 0, panel, sums.data());
      for (std::int64_t i = 0; i < n; ++i)
        std::copy_n(sums.data() + i * kWidth, projection_->valid(panel),
                    raw_gradient_.data() + i * hidden_ + projection_->first_column(panel));
    }
  }

  void differentiate_units(std::int64_t time, std::int64_t i) {
    const std::int64_t row = plan_.offset(time) + i, before = plan_.previous_row(time, i);
    Units::backward(
        {.n = hidden_,
         .gate_stride = hidden_,
         .gates = gates_ + row * columns_,
         .extra = Units::kExtra ? extra_ + row * hidden_ : nullptr,
         .c_before = !kLstm       ? nullptr
                     : before < 0 ? c0_.data() + i * hidden_
                                  : extra_ + before * hidden_,
         .h_before = h_before_.data() + row * size_,
         .gh = projection_ ? raw_gradient_.data() + i * hidden_ : gh_.data() + i * size_,
         .gc = gc_.data() + i * hidden_,
         .input_gates = input_gates_.data() + row * columns_,
         .hidden_gates = hidden_gates() + row * columns_,
         .direct = direct_.data() + i * hidden_});
  }

  /** Computes one panel of the gradient of the previous h. */
  void to_step_before(const RowPanels<E>& rows, std::int64_t panel) {
    const Workspace<T> sums(rows.rows * kWidth);
    recurrent_.multiply(rows, packed_.data(), 0, panel, sums.data());
    const std::int64_t first = recurrent_.first_column(panel);
    for (std::int64_t i = 0; i < rows.rows; ++i)
      for (std::int64_t u = 0; u < recurrent_.valid(panel); ++u)
        gh_.data()[i * size_ + first + u] =
            sums.data()[i * kWidth + u] + (kGru ? direct_.data()[i * hidden_ + first + u] : T(0));
  }

  /** Computes the gradients that are products over all steps. */
  void product_gradients() {
    Workspace<BFloat16> room, hidden_room;
    const Matrix gates = product_operand<E>(input_gates_.data(), plan_.rows, columns_, room);
    if (wanted_[kDx]) input_gradient(gates);
    weight_gradients(
        gates,
        kGru ? product_operand<E>(hidden_gates_.data(), plan_.rows, columns_, hidden_room) : gates);
  }

  void input_gradient(const Matrix& g) {
    Tensor& dx = out_[kDx];
    const std::int64_t n = dx.shape()[2];
    if (plan_.full)
      return gemm(plan_.rows, n, columns_, g, matrix_of(in_[kWih]),
                  {dx.raw_data(), dx.dtype(), n, 1});
    const Workspace<T> packed(plan_.rows * n);
    gemm(plan_.rows, n, columns_, g, matrix_of(in_[kWih]), {packed.data(), dtype_of<T>(), n, 1});
    std::memset(dx.raw_data(), 0, static_cast<std::size_t>(dx.numel()) * item_size(dx.dtype()));
    for (std::int64_t time = 0; time < plan_.steps; ++time)
      for (std::int64_t i = 0; i < plan_.active(time); ++i)
        convert(dtype_of<T>(), packed.data() + (plan_.offset(time) + i) * n, dx.dtype(),
                row_address(dx, plan_.tensor_row(time, i), n), n);
  }

  /** Computes g^T x over all rows. */
  void weight_gradient(const Matrix& g, const Matrix& x, Parameter to) const {
    const std::int64_t n = places_[to].shape[1];
    gemm(g.row, n, plan_.rows, g.transposed(), x, {address(to), out_[kParameters].dtype(), n, 1});
  }

  void weight_gradients(const Matrix& input_gates, const Matrix& hidden_gates) const {
    if (wants(kDwih)) {
      Workspace<char> room;
      weight_gradient(input_gates, packed_rows(in_[kX], plan_, room), kDwih);
    }
    Workspace<BFloat16> room, raw_room;
    if (wants(kDwhh))
      weight_gradient(hidden_gates, product_operand<E>(h_before_.data(), plan_.rows, size_, room),
                      kDwhh);
    if (wants(kDwhr))
      weight_gradient(product_operand<E>(projected_.data(), plan_.rows, size_, room),
                      product_operand<E>(raw_.data(), plan_.rows, hidden_, raw_room), kDwhr);
  }

  /** Both biases have the same gradient, except those of a GRU. */
  void bias_gradients() const {
    const Workspace<T> sums(columns_);
    if (wants(kDbih) || (wants(kDbhh) && !kGru)) sum_rows(input_gates_.data(), sums.data());
    if (wants(kDbih)) store_bias(sums.data(), kDbih);
    if (!wants(kDbhh)) return;
    if (kGru) sum_rows(hidden_gates_.data(), sums.data());
    store_bias(sums.data(), kDbhh);
  }

  void sum_rows(const T* g, T* sums) const {
    std::fill_n(sums, columns_, T(0));
    parallel_chunks(
        columns_, 256,
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t row = 0; row < plan_.rows; ++row)
            for (std::int64_t j = begin; j < end; ++j) sums[j] += g[row * columns_ + j];
        },
        static_cast<double>(plan_.rows) * 0.1);
  }

  void store_bias(const T* sums, Parameter to) const {
    convert(dtype_of<T>(), sums, out_[kParameters].dtype(), address(to), columns_);
  }

  Inputs in_;
  Outputs out_;
  std::array<bool, 8> wanted_;
  std::array<op::ParameterPlace, 5> places_;
  SequencePlan plan_;
  std::int64_t columns_, hidden_, size_;
  FixedOperand<E> recurrent_;
  std::optional<FixedOperand<E>> projection_;
  const T *gates_, *extra_;
  Workspace<T> h_before_, input_gates_, hidden_gates_, gh_, gc_, c0_, direct_;
  Workspace<E> packed_;
  Workspace<T> projected_, raw_, raw_gradient_;
  Tensor gy_;
};

}  // namespace

void op::RecurrentLayerBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const DType dtype = in[kX].dtype();
  const bool large = tiles_pay(in[kX].shape()[1], in[kWhh].shape()[0], in[kWhh].shape()[1]);
  visit_factors(dtype, in[kWhh].dtype(), dtype == DType::f64, large,
                [&]<class E>(std::type_identity<E>) {
                  visit_cell<SumOf<E>>(attrs.forward.kind, [&]<class Units>(Units) {
                    LayerBackward<E, Units>(in, out, attrs).run();
                  });
                });
}

}  // namespace mezzo
