// The CUDA kernels of a recurrent layer's gradients: backward through time, in one launch
// (recurrent_persistent.h) or step by step, then one product over all steps for each weight and for
// the input.
#include "../../../tensor/core/row_major.h"
#include "../../../tensor/ops/matmul/linear_chain.h"
#include "../../../tensor/ops/recurrent/recurrent_formulas_cpu.h"
#include "../../attach.h"
#include "recurrent.h"
#include "recurrent_library.h"
#include "recurrent_persistent.h"

namespace mezzo::gpu {

namespace {

using namespace cpu_kernels;
using op::CellKind;
using Operand = op::RecurrentLayerBackward::Operand;
using Parameter = op::RecurrentLayerBackward::Parameter;

/** One step of the active sequences. Rows are those of the step unless stated otherwise. */
template <class C> struct BackStep {
  CellKind kind;
  std::int64_t running, hidden, size;
  const C *gates, *extra;
  // The state before the step: rows of an earlier step, for the `earlier` sequences active there,
  // or the initial state.
  std::int64_t earlier, earlier_row;  // row in y
  const C* c_earlier;
  Array y, h0;  // h0, in batch order
  const C* c0;  // c0, in plan order
  const std::int64_t* order;
  Array gy;  // gradients of y, from row `row` on
  std::int64_t row;
  const C* gh;  // gradient of h from the following step; with a projection, of h before it
  C *gc, *direct;
  Array input_gates, hidden_gates, h_before;  // results

  __device__ std::int64_t sequence(std::int64_t i) const { return order ? order[i] : i; }
  __device__ C earlier_h(std::int64_t i, std::int64_t column) const {
    if (i < earlier) return y.load<C>((earlier_row + sequence(i)) * size + column);
    return h0.data ? h0.load<C>(sequence(i) * size + column) : C(0);
  }
};

template <class C>
__device__ void differentiate(const BackStep<C>& s, std::int64_t i, std::int64_t u, C gh) {
  const std::int64_t gate = s.hidden, unit = i * gate + u;
  switch (s.kind) {
    case CellKind::rnn_tanh:
      s.input_gates.store(unit, rnn_backward<C, false>(s.gates[unit], gh));
      return;
    case CellKind::rnn_relu:
      s.input_gates.store(unit, rnn_backward<C, true>(s.gates[unit], gh));
      return;
    case CellKind::gru: {
      const std::int64_t at = i * gate * 3 + u;
      const C* const a = s.gates + at;
      const GruGradients<C> g =
          gru_backward<C>({a[0], a[gate], a[2 * gate], s.extra[unit]}, s.earlier_h(i, u), gh);
      for (const Array& to : {s.input_gates, s.hidden_gates}) {
        to.store(at, g.r);
        to.store(at + gate, g.z);
      }
      s.input_gates.store(at + 2 * gate, g.n);
      s.hidden_gates.store(at + 2 * gate, g.hidden_n);
      s.direct[unit] = g.direct;
      return;
    }
    default: {
      const std::int64_t at = i * gate * 4 + u;
      const C* const a = s.gates + at;
      const C before = i < s.earlier ? s.c_earlier[unit] : s.c0[unit];
      const LstmGradients<C> g = lstm_backward(a[0], a[gate], a[2 * gate], a[3 * gate],
                                               s.extra[unit], before, gh, s.gc[unit]);
      s.input_gates.store(at, g.i);
      s.input_gates.store(at + gate, g.f);
      s.input_gates.store(at + 2 * gate, g.g);
      s.input_gates.store(at + 3 * gate, g.o);
      s.gc[unit] = g.c;
    }
  }
}

/** One thread per unit and per element of h; a projection makes their numbers differ. */
template <class C>
__global__ void __launch_bounds__(kMoveThreads)
    back_step_kernel(const BackStep<C> __grid_constant__ s, bool projects) {
  const std::int64_t width = s.hidden > s.size ? s.hidden : s.size;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kMoveThreads + threadIdx.x;
  if (index >= s.running * width) return;
  std::int64_t u;
  const std::int64_t i = divided(index, width, u);
  if (u < s.size) s.h_before.template store<C>(i * s.size + u, s.earlier_h(i, u));
  if (u >= s.hidden) return;
  C gh = s.gh[i * s.hidden + u];
  if (!projects && s.gy.data) gh += s.gy.template load<C>((s.row + s.sequence(i)) * s.hidden + u);
  differentiate(s, i, u, gh);
}

/** Computes the operands of the projection's gradient: the gradient of its result, and its
 *  input. */
template <class C>
__global__ void __launch_bounds__(kMoveThreads)
    project_back_kernel(const BackStep<C> __grid_constant__ s, const Array projected,
                        const Array raw) {
  const std::int64_t width = s.hidden > s.size ? s.hidden : s.size;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kMoveThreads + threadIdx.x;
  if (index >= s.running * width) return;
  std::int64_t u;
  const std::int64_t i = divided(index, width, u);
  if (u < s.size) {
    const std::int64_t at = i * s.size + u;
    const C incoming =
        s.gy.data ? s.gy.template load<C>((s.row + s.sequence(i)) * s.size + u) : C(0);
    projected.store(at, s.gh[at] + incoming);
  }
  if (u < s.hidden)
    raw.store(i * s.hidden + u,
              lstm_result(s.gates[(i * 4 + 3) * s.hidden + u], s.extra[i * s.hidden + u]));
}

/** The gradients with compute type C. */
template <class C> class LayerBackward {
 public:
  LayerBackward(Inputs in, Outputs out, const op::RecurrentLayerBackward::Attrs& attrs)
      : in_(in),
        out_(out),
        wanted_(attrs.wanted),
        places_(op::parameter_places(in, attrs.wanted)),
        kind_(attrs.forward.kind),
        device_(in[Operand::kX].device()),
        stream_(current_stream(device_)),
        plan_(in[Operand::kX].shape()[0], in[Operand::kX].shape()[1], attrs.forward, device_),
        columns_(in[Operand::kWih].shape()[0]),
        hidden_(columns_ / op::gates_of(kind_)),
        size_(in[Operand::kWhh].shape()[1]),
        y_(row_major(in[Operand::kY])),
        h0_(row_major(in[Operand::kH0])),
        kept_(row_major(in[Operand::kKept])),
        gy_(row_major(in[Operand::kGy])),
        h_before_(narrow({plan_.rows, size_})),
        input_gates_(narrow({plan_.rows, columns_})),
        hidden_gates_(is_gru() ? narrow({plan_.rows, columns_}) : input_gates_),
        gh_(wide({plan_.batch, size_})),
        gc_(wide({plan_.batch, hidden_})),
        c0_(wide({plan_.batch, hidden_})),
        direct_(wide({plan_.batch, is_gru() ? hidden_ : 0})) {
    if (projects()) {
      projected_ = narrow({plan_.rows, size_});
      raw_ = narrow({plan_.rows, hidden_});
      raw_gradient_ = wide({plan_.batch, hidden_});
    }
    load_state(in[Operand::kGh], size_, gh_);
    load_state(in[Operand::kGc], hidden_, gc_);
    load_state(in[Operand::kC0], hidden_, c0_);
  }

  void run() {
    if (!run_at_once())
      for (std::int64_t k = plan_.steps - 1; k >= 0; --k) step(plan_.time(k));
    if (wanted_[1]) store_state(gh_, size_, out_[1]);
    if (wanted_[2]) store_state(gc_, hidden_, out_[2]);
    if (wanted_[0]) input_gradient();
    weight_gradients();
    bias_gradients();
  }

 private:
  static constexpr DType kCompute = dtype_of<C>();

  bool is_gru() const { return kind_ == CellKind::gru; }
  bool projects() const { return in_[Operand::kWhr].defined(); }
  bool wants(Parameter parameter) const { return wanted_[3 + parameter]; }
  Tensor wide(const Shape& shape) const { return work_tensor(shape, kCompute, device_); }
  /** Returns workspace for factors of products, in the operands' dtype, so that 16-bit products use
   *  Tensor Cores. */
  Tensor narrow(const Shape& shape) const { return work_tensor(shape, y_.dtype(), device_); }

  void load_state(const Tensor& given, std::int64_t n, const Tensor& to) {
    const Tensor x = row_major(given);
    move_rows<C>({Array(x), Array(to), plan_.batch, n, plan_.order}, stream_);
  }
  void store_state(const Tensor& from, std::int64_t n, const Tensor& to) {
    move_rows<C>({Array(from), Array(to), plan_.batch, n, plan_.order, true}, stream_);
  }

  BackStep<C> step_at(std::int64_t time) const {
    const std::int64_t row = plan_.offset(time), earlier = plan_.time(0) == 0 ? time - 1 : time + 1;
    const bool exists = earlier >= 0 && earlier < plan_.steps;
    const C* const kept = kept_.data<C>();
    const C* const extra = kept + plan_.rows * columns_;
    return {.kind = kind_,
            .running = plan_.active(time),
            .hidden = hidden_,
            .size = size_,
            .gates = kept + row * columns_,
            .extra = extra + row * hidden_,
            .earlier = exists ? plan_.active(earlier) : 0,
            .earlier_row = earlier * plan_.batch,
            .c_earlier = exists ? extra + plan_.offset(earlier) * hidden_ : nullptr,
            .y = Array(y_),
            .h0 = Array(h0_),
            .c0 = c0_.data<C>(),
            .order = plan_.order,
            .gy = Array(gy_),
            .row = time * plan_.batch,
            .gh = gh_.data<C>(),
            .gc = gc_.data<C>(),
            .direct = direct_.data<C>(),
            .input_gates = rows_from(row, input_gates_, columns_),
            .hidden_gates = rows_from(row, hidden_gates_, columns_),
            .h_before = rows_from(row, h_before_, size_)};
  }

  /** Runs all steps in one launch. Returns false if that is not supported. */
  bool run_at_once() {
    if constexpr (std::is_same_v<C, float>) {
      const float* const kept = kept_.data<float>();
      return !projects() && run_persistent_backward(kind_, plan_,
                                                    {.weights = in_[Operand::kWhh],
                                                     .y = y_,
                                                     .h0 = h0_,
                                                     .c0 = c0_,
                                                     .gy = gy_,
                                                     .gh = gh_,
                                                     .gc = gc_,
                                                     .input_gates = input_gates_,
                                                     .hidden_gates = hidden_gates_,
                                                     .h_before = h_before_,
                                                     .gates = kept,
                                                     .extra = kept + plan_.rows * columns_});
    } else {
      return false;
    }
  }

  void step(std::int64_t time) {
    BackStep<C> s = step_at(time);
    if (s.running == 0) return;
    const std::int64_t row = plan_.offset(time), threads = s.running * std::max(hidden_, size_);
    const Grid grid{.blocks = blocks_for(threads, kMoveThreads), .threads = kMoveThreads};
    if (projects()) {
      launch(&project_back_kernel<C>, grid, stream_, s, rows_from(row, projected_, size_),
             rows_from(row, raw_, hidden_));
      run_product({.m = s.running,
                   .n = hidden_,
                   .k = size_,
                   .a = matrix(projected_, size_, row),
                   .b = weight_matrix(in_[Operand::kWhr]),
                   .c = matrix(raw_gradient_, hidden_)},
                  device_);
      s.gh = raw_gradient_.data<C>();
    }
    launch(&back_step_kernel<C>, grid, stream_, s, projects());
    op::ProductPlan product{.m = s.running,
                            .n = size_,
                            .k = columns_,
                            .a = matrix(hidden_gates_, columns_, row),
                            .b = weight_matrix(in_[Operand::kWhh]),
                            .c = matrix(gh_, size_)};
    if (is_gru()) {
      product.addend = matrix(direct_, hidden_);
      product.beta = 1;
    }
    run_product(product, device_);
  }

  void input_gradient() {
    Tensor& dx = out_[0];
    const std::int64_t n = dx.shape()[2];
    const Tensor packed = plan_.full ? dx : wide({plan_.rows, n});
    run_product({.m = plan_.rows,
                 .n = n,
                 .k = columns_,
                 .a = matrix(input_gates_, columns_),
                 .b = weight_matrix(in_[Operand::kWih]),
                 .c = matrix(packed, n)},
                device_);
    if (plan_.full) return;
    move_rows<C>({{}, Array(dx), plan_.steps * plan_.batch, n}, stream_);
    move_rows<C>({Array(packed), Array(dx), plan_.rows, n, plan_.tensor_rows, true}, stream_);
  }

  /** Computes g^T x over all rows. */
  void weight_gradient(const Tensor& g, std::int64_t m, const Tensor& x, Parameter to) {
    const std::int64_t n = places_[to].shape[1];
    run_product({.m = m,
                 .n = n,
                 .k = plan_.rows,
                 .a = transposed(matrix(g, m)),
                 .b = matrix(x, n),
                 .c = {matrix(out_[3], 1, places_[to].offset).data, out_[3].dtype(), n, 1}},
                device_);
  }

  void weight_gradients() {
    if (wants(Parameter::kDwih)) {
      const Tensor x = row_major(in_[Operand::kX]);
      Tensor packed = x;
      if (!plan_.full) {
        packed = work_tensor({plan_.rows, x.shape()[2]}, x.dtype(), device_);
        move_rows<C>({Array(x), Array(packed), plan_.rows, x.shape()[2], plan_.tensor_rows},
                     stream_);
      }
      weight_gradient(input_gates_, columns_, packed, Parameter::kDwih);
    }
    if (wants(Parameter::kDwhh))
      weight_gradient(hidden_gates_, columns_, h_before_, Parameter::kDwhh);
    if (wants(Parameter::kDwhr)) weight_gradient(projected_, size_, raw_, Parameter::kDwhr);
  }

  /** Returns the part of the parameters' gradient that belongs to a bias. */
  Tensor bias(Parameter which) const {
    return alias(out_[3], {columns_}, {1}, out_[3].impl()->offset + places_[which].offset);
  }

  /** Computes the sums of the gates' gradients over all rows. Both biases have the same ones,
   *  except those of a GRU. */
  void bias_gradients() {
    const bool both = wants(Parameter::kDbih) && wants(Parameter::kDbhh);
    if (wants(Parameter::kDbih)) {
      Tensor sums = bias(Parameter::kDbih);
      op::sum_columns(input_gates_, sums);
    }
    if (!wants(Parameter::kDbhh)) return;
    Tensor sums = bias(Parameter::kDbhh);
    if (both && !is_gru())
      mezzo::detail::copy_into(bias(Parameter::kDbih), sums);
    else
      op::sum_columns(hidden_gates_, sums);
  }

  Inputs in_;
  Outputs out_;
  std::array<bool, 8> wanted_;
  std::array<op::ParameterPlace, 5> places_;
  CellKind kind_;
  Device device_;
  runtime::Stream stream_;
  Sequences plan_;
  std::int64_t columns_, hidden_, size_;
  Tensor y_, h0_, kept_, gy_;
  Tensor h_before_, input_gates_, hidden_gates_, gh_, gc_, c0_, direct_, projected_, raw_,
      raw_gradient_;
};

void recurrent_layer_backward(Inputs in, Outputs out,
                              const op::RecurrentLayerBackward::Attrs& attrs) {
  if (library_ran_forward(in))
    recurrent_backward_by_library(in, out, attrs);
  else
    recurrent_backward_by_kernels(in, out, attrs);
}

}  // namespace

void recurrent_backward_by_kernels(Inputs in, Outputs out,
                                   const op::RecurrentLayerBackward::Attrs& attrs) {
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    LayerBackward<C>(in, out, attrs).run();
  });
}

void attach_recurrent_backward() { attach<op::RecurrentLayerBackward, recurrent_layer_backward>(); }

}  // namespace mezzo::gpu
