// The recurrent cells, forward and backward, for consecutive units of one sequence at one step.
#pragma once

#include <algorithm>
#include <cmath>

#include "../../cpu/elementwise_kernel.h"
#include "recurrent_formulas_cpu.h"
#include "recurrent_plan_cpu.h"

namespace mezzo::cpu_kernels {

/** Maximum number of units per call: one panel of columns. */
template <class T> inline constexpr std::int64_t kMaxUnits = RegisterBlock<T>::kColumns;

/** Operands of a forward call over `n` units. Gates are `gate_stride` apart, their hidden parts
 *  `hidden_stride`. */
template <class T> struct ForwardUnits {
  std::int64_t n, gate_stride, hidden_stride;
  T* gates;         // in: W x + b; out: the gates after their activation
  const T* hidden;  // U h
  T* extra;         // saved with the gates: c of an LSTM, U h + b of a GRU's n
  T* state;         // c
  const T* h;       // of the previous step
  const T* bias;    // GRU: the hidden bias of n
  T* result;        // h before rounding
  DType dtype;      // states are rounded to it
};

/** Operands of a backward call. */
template <class T> struct BackwardUnits {
  std::int64_t n, gate_stride;
  const T* gates;
  const T* extra;
  const T* c_before;  // LSTM
  const T* h_before;  // GRU
  const T* gh;        // gradient of h
  T* gc;              // gradient of c; replaced by that of the previous step
  T* input_gates;     // gradients of W x + b
  T* hidden_gates;    // gradients of U h + b; the same memory except for a GRU
  T* direct;          // GRU: the gradient of the previous h that does not pass through U
};

template <class T, bool kRelu> struct RnnUnits {
  static constexpr std::int64_t kGates = 1;
  static constexpr bool kExtra = false;
  static void forward(const ForwardUnits<T>& u) {
    T *a = u.gates, *result = u.result;
    const T* hidden = u.hidden;
    MZ_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < u.n; ++i) {
      const T y = rnn_forward<T, kRelu>(a[i], hidden[i]);
      a[i] = y;
      result[i] = y;
    }
  }
  static void backward(const BackwardUnits<T>& u) {
    const T *a = u.gates, *gh = u.gh;
    T* to = u.input_gates;
    MZ_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < u.n; ++i) to[i] = rnn_backward<T, kRelu>(a[i], gh[i]);
  }
};

template <class T> struct GruUnits {
  static constexpr std::int64_t kGates = 3;
  static constexpr bool kExtra = true;
  static void forward(const ForwardUnits<T>& u) {
    T *r = u.gates, *z = r + u.gate_stride, *n = z + u.gate_stride, *extra = u.extra,
      *result = u.result;
    const T *hr = u.hidden, *hz = hr + u.hidden_stride, *hn = hz + u.hidden_stride, *h = u.h,
            *bias = u.bias;
    MZ_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < u.n; ++i) {
      const GruGates<T> gates = gru_forward(r[i], z[i], n[i], hr[i], hz[i], hn[i], bias[i]);
      r[i] = gates.reset;
      z[i] = gates.update;
      n[i] = gates.fresh;
      extra[i] = gates.part;
      result[i] = gru_result(gates, h[i]);
    }
  }
  static void backward(const BackwardUnits<T>& u) {
    const T *r = u.gates, *z = r + u.gate_stride, *n = z + u.gate_stride, *part = u.extra,
            *h = u.h_before, *gh = u.gh;
    T *xr = u.input_gates, *xz = xr + u.gate_stride, *xn = xz + u.gate_stride;
    T *hr = u.hidden_gates, *hz = hr + u.gate_stride, *hn = hz + u.gate_stride, *direct = u.direct;
    MZ_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < u.n; ++i) {
      const GruGradients<T> g = gru_backward<T>({r[i], z[i], n[i], part[i]}, h[i], gh[i]);
      direct[i] = g.direct;
      xr[i] = g.r;
      xz[i] = g.z;
      xn[i] = g.n;
      hr[i] = g.r;
      hz[i] = g.z;
      hn[i] = g.hidden_n;
    }
  }
};

template <class T> struct LstmUnits {
  static constexpr std::int64_t kGates = 4;
  static constexpr bool kExtra = true;
  static void forward(const ForwardUnits<T>& u) {
    T *i = u.gates, *f = i + u.gate_stride, *g = f + u.gate_stride, *o = g + u.gate_stride;
    const T *hi = u.hidden, *hf = hi + u.hidden_stride, *hg = hf + u.hidden_stride,
            *ho = hg + u.hidden_stride;
    T *c = u.state, *extra = u.extra, *result = u.result;
    MZ_INDEPENDENT_LOOP
    for (std::int64_t k = 0; k < u.n; ++k) {
      const LstmGates<T> gates = lstm_forward(i[k], f[k], g[k], hi[k], hf[k], hg[k], c[k]);
      c[k] = gates.c;
      i[k] = gates.in;
      f[k] = gates.forget;
      g[k] = gates.fresh;
    }
    if constexpr (std::is_same_v<T, float>) round_to(u.dtype, c, u.n);
    MZ_INDEPENDENT_LOOP
    for (std::int64_t k = 0; k < u.n; ++k) {
      o[k] = lstm_out(o[k], ho[k]);
      extra[k] = c[k];
      result[k] = lstm_result(o[k], c[k]);
    }
  }
  static void backward(const BackwardUnits<T>& u) {
    const T *i = u.gates, *f = i + u.gate_stride, *g = f + u.gate_stride, *o = g + u.gate_stride;
    const T *c = u.extra, *before = u.c_before, *gh = u.gh;
    T *gi = u.input_gates, *gf = gi + u.gate_stride, *gg = gf + u.gate_stride,
      *go = gg + u.gate_stride;
    T* gc = u.gc;
    MZ_INDEPENDENT_LOOP
    for (std::int64_t k = 0; k < u.n; ++k) {
      const LstmGradients<T> all =
          lstm_backward(i[k], f[k], g[k], o[k], c[k], before[k], gh[k], gc[k]);
      gi[k] = all.i;
      gf[k] = all.f;
      gg[k] = all.g;
      go[k] = all.o;
      gc[k] = all.c;
    }
  }
};

/** Calls f with the units of a kind of cell. */
template <class T, class F> void visit_cell(op::CellKind kind, F&& f) {
  switch (kind) {
    case op::CellKind::rnn_tanh: return f(RnnUnits<T, false>{});
    case op::CellKind::rnn_relu: return f(RnnUnits<T, true>{});
    case op::CellKind::gru: return f(GruUnits<T>{});
    default: return f(LstmUnits<T>{});
  }
}

}  // namespace mezzo::cpu_kernels
