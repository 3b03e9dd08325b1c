// The CUDA kernels of a recurrent layer in one direction: one product for the inputs of all steps,
// then one launch for all steps (recurrent_persistent.h), or per step one product with the
// recurrent weights and one launch for the gates.
#include "recurrent.h"

#include "../../../tensor/ops/recurrent/recurrent_formulas_cpu.h"
#include "../../attach.h"
#include "recurrent_library.h"
#include "recurrent_persistent.h"

namespace mezzo::gpu {

namespace {

using namespace cpu_kernels;
using op::CellKind;

/** Sums the biases that exist; that of the hidden part of a GRU's n is stored separately. */
template <class C>
__global__ void __launch_bounds__(kMoveThreads)
    bias_kernel(const Array input, const Array hidden, C* sum, C* apart, std::int64_t columns,
                std::int64_t together) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kMoveThreads + threadIdx.x;
  if (i >= columns) return;
  const C own = hidden.load_or(i, C(0));
  sum[i] = input.load_or(i, C(0)) + (i < together ? own : C(0));
  if (i >= together) apart[i - together] = own;
}

/** One step of the sequences that are active. */
template <class C> struct Step {
  CellKind kind;
  std::int64_t running, hidden;
  C *gates, *extra;  // at the step's first row
  const C* sums;     // U h
  const C* apart;    // GRU: the hidden bias of n
  C* c;              // LSTM: the state
  Array raw;         // h before the projection, if there is one; else
  Array h, y;        // the state, and the rows of the result
  const std::int64_t* order;
  std::int64_t first_row;  // of the step in y
};

/** Returns x rounded to a dtype. */
template <class C> __device__ C rounded(DType dtype, C x) {
  if (dtype == DType::f16) return element_as<C>(element_as<Half>(x));
  return dtype == DType::bf16 ? element_as<C>(element_as<BFloat16>(x)) : x;
}

template <class C> __device__ C advance(const Step<C>& s, std::int64_t i, std::int64_t u) {
  const std::int64_t gate = s.hidden, unit = i * gate + u;
  const auto forward = [&](std::int64_t count) { return i * gate * count + u; };
  switch (s.kind) {
    case CellKind::rnn_tanh:
      return s.gates[unit] = rnn_forward<C, false>(s.gates[unit], s.sums[unit]);
    case CellKind::rnn_relu:
      return s.gates[unit] = rnn_forward<C, true>(s.gates[unit], s.sums[unit]);
    case CellKind::gru: {
      C* const a = s.gates + forward(3);
      const C* const b = s.sums + forward(3);
      const GruGates<C> g =
          gru_forward(a[0], a[gate], a[2 * gate], b[0], b[gate], b[2 * gate], s.apart[u]);
      a[0] = g.reset;
      a[gate] = g.update;
      a[2 * gate] = g.fresh;
      s.extra[unit] = g.part;
      return gru_result(g, s.h.template load<C>(unit));
    }
    default: {
      C* const a = s.gates + forward(4);
      const C* const b = s.sums + forward(4);
      const LstmGates<C> g =
          lstm_forward(a[0], a[gate], a[2 * gate], b[0], b[gate], b[2 * gate], s.c[unit]);
      const C c = rounded(s.y.dtype, g.c), out = lstm_out(a[3 * gate], b[3 * gate]);
      a[0] = g.in;
      a[gate] = g.forget;
      a[2 * gate] = g.fresh;
      a[3 * gate] = out;
      s.extra[unit] = s.c[unit] = c;
      return lstm_result(out, c);
    }
  }
}

template <class C>
__global__ void __launch_bounds__(kMoveThreads) step_kernel(const Step<C> __grid_constant__ s) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kMoveThreads + threadIdx.x;
  if (index >= s.running * s.hidden) return;
  std::int64_t u;
  const std::int64_t i = divided(index, s.hidden, u);
  const C h = advance(s, i, u);
  if (s.raw.data) {
    s.raw.template store<C>(index, h);
    return;
  }
  s.h.template store<C>(index, h);
  const std::int64_t row = s.first_row + (s.order ? s.order[i] : i);
  s.y.template store<C>(row * s.hidden + u, h);
}

/** The forward pass of a layer with compute type C. */
template <class C> class LayerForward {
 public:
  LayerForward(Inputs in, Outputs out, const op::RecurrentAttrs& attrs)
      : in_(in),
        out_(out),
        kind_(attrs.kind),
        device_(in[0].device()),
        stream_(current_stream(device_)),
        plan_(in[0].shape()[0], in[0].shape()[1], attrs, device_),
        columns_(in[3].shape()[0]),
        hidden_(columns_ / op::gates_of(attrs.kind)),
        size_(in[4].shape()[1]),
        h_(work_tensor({plan_.batch, size_}, in[0].dtype(), device_)),
        c_(work_tensor({plan_.batch, kind_ == CellKind::lstm ? hidden_ : 0}, kCompute, device_)),
        sums_(work_tensor({plan_.batch, columns_}, kCompute, device_)),
        raw_(work_tensor({plan_.batch, in[7].defined() ? hidden_ : 0}, in[0].dtype(), device_)),
        bias_(work_tensor({columns_ + hidden_}, kCompute, device_)),
        kept_(out[3]) {
    const bool has_extra = kind_ == CellKind::lstm || kind_ == CellKind::gru;
    if (kept_.numel() == 0)
      kept_ = work_tensor({plan_.rows * (columns_ + (has_extra ? hidden_ : 0))}, kCompute, device_);
    load_state(in[1], size_, h_);
    if (kind_ == CellKind::lstm) load_state(in[2], hidden_, c_);
  }

  void run() {
    if (!plan_.full) move_rows<C>({{}, Array(out_[0]), plan_.steps * plan_.batch, size_}, stream_);
    transform_inputs();
    if (!run_at_once())
      for (std::int64_t k = 0; k < plan_.steps; ++k) step(plan_.time(k));
    move_rows<C>({Array(h_), Array(out_[1]), plan_.batch, size_, plan_.order, true}, stream_);
    if (kind_ == CellKind::lstm)
      move_rows<C>({Array(c_), Array(out_[2]), plan_.batch, hidden_, plan_.order, true}, stream_);
  }

 private:
  static constexpr DType kCompute = dtype_of<C>();

  void load_state(const Tensor& given, std::int64_t n, const Tensor& to) {
    const Tensor x = row_major(given);
    move_rows<C>({Array(x), Array(to), plan_.batch, n, plan_.order}, stream_);
  }

  /** Computes W x + b of all steps. */
  void transform_inputs() {
    const Tensor x = row_major(in_[0]), input_bias = row_major(in_[5]),
                 hidden_bias = row_major(in_[6]);
    const std::int64_t features = x.shape()[2];
    Tensor packed = x;
    if (!plan_.full) {
      packed = work_tensor({plan_.rows, features}, x.dtype(), device_);
      move_rows<C>({Array(x), Array(packed), plan_.rows, features, plan_.tensor_rows}, stream_);
    }
    C* const bias = bias_.data<C>();
    const std::int64_t together = kind_ == CellKind::gru ? columns_ / 3 * 2 : columns_;
    launch(&bias_kernel<C>, {.blocks = blocks_for(columns_, kMoveThreads), .threads = kMoveThreads},
           stream_, Array(input_bias), Array(hidden_bias), bias, bias + columns_, columns_,
           together);
    run_product({.m = plan_.rows,
                 .n = columns_,
                 .k = features,
                 .a = matrix(packed, features),
                 .b = transposed(weight_matrix(in_[3])),
                 .c = {kept_.raw_data(), kCompute, columns_, 1},
                 .addend = {bias, kCompute, 0, 1},
                 .beta = 1},
                device_);
  }

  /** Runs all steps in one launch. Returns false if that is not supported. */
  bool run_at_once() {
    if constexpr (std::is_same_v<C, float>) {
      float* const kept = kept_.data<float>();
      return !in_[7].defined() && run_persistent(kind_, plan_,
                                                 {.weights = in_[4],
                                                  .h = h_,
                                                  .c = c_,
                                                  .y = out_[0],
                                                  .gates = kept,
                                                  .extra = kept + plan_.rows * columns_,
                                                  .apart = bias_.data<float>() + columns_});
    } else {
      return false;
    }
  }

  void step(std::int64_t time) {
    const std::int64_t running = plan_.active(time), row = plan_.offset(time);
    if (running == 0) return;
    run_product({.m = running,
                 .n = columns_,
                 .k = size_,
                 .a = matrix(h_, size_),
                 .b = transposed(weight_matrix(in_[4])),
                 .c = matrix(sums_, columns_)},
                device_);
    C* const kept = kept_.data<C>();
    const bool projects = in_[7].defined();
    const Step<C> s{.kind = kind_,
                    .running = running,
                    .hidden = hidden_,
                    .gates = kept + row * columns_,
                    .extra = kept + plan_.rows * columns_ + row * hidden_,
                    .sums = sums_.data<C>(),
                    .apart = bias_.data<C>() + columns_,
                    .c = c_.data<C>(),
                    .raw = projects ? Array(raw_) : Array(),
                    .h = Array(h_),
                    .y = Array(out_[0]),
                    .order = plan_.order,
                    .first_row = time * plan_.batch};
    launch(&step_kernel<C>,
           {.blocks = blocks_for(running * hidden_, kMoveThreads), .threads = kMoveThreads},
           stream_, s);
    if (!projects) return;
    run_product({.m = running,
                 .n = size_,
                 .k = hidden_,
                 .a = matrix(raw_, hidden_),
                 .b = transposed(weight_matrix(in_[7])),
                 .c = matrix(h_, size_)},
                device_);
    move_rows<C>({Array(h_), Array(out_[0]), running, size_, plan_.order, true, s.first_row},
                 stream_);
  }

  Inputs in_;
  Outputs out_;
  CellKind kind_;
  Device device_;
  runtime::Stream stream_;
  Sequences plan_;
  std::int64_t columns_, hidden_, size_;
  Tensor h_, c_, sums_, raw_, bias_, kept_;
};

void recurrent_layer(Inputs in, Outputs out, const op::RecurrentAttrs& attrs) {
  if (persists(attrs, in[0], in[4].shape()[1], in[7].defined()) ||
      !recurrent_by_library(in, out, attrs))
    recurrent_by_kernels(in, out, attrs);
}

}  // namespace

void recurrent_by_kernels(Inputs in, Outputs out, const op::RecurrentAttrs& attrs) {
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    LayerForward<C>(in, out, attrs).run();
  });
}

void attach_recurrent() { attach<op::RecurrentLayer, recurrent_layer>(); }

}  // namespace mezzo::gpu
