// The gates of the recurrent cells, forward and backward, for one unit of one sequence at one step.
// Parsed by g++ and by nvcc.
#pragma once

#include "../../math/math.h"

namespace mezzo::cpu_kernels {

// Forward functions take W x + b and U h of each gate. Backward functions take the gates after
// their activation and the gradient gh of h.

template <class T, bool kRelu> MZ_HD MZ_ALWAYS_INLINE T rnn_forward(T input, T hidden) {
  const T x = input + hidden;
  return kRelu ? (x < T(0) ? T(0) : x) : math::tanh(x);
}
template <class T, bool kRelu> MZ_HD MZ_ALWAYS_INLINE T rnn_backward(T a, T gh) {
  return kRelu ? (a <= T(0) ? T(0) : gh) : gh * (1 - a * a);  // nan passes, as in relu()
}

/** The gates of a GRU; `part` is U h + b of n, which is multiplied by the reset gate. */
template <class T> struct GruGates {
  T reset, update, fresh, part;
};
template <class T>
MZ_HD MZ_ALWAYS_INLINE GruGates<T> gru_forward(T r, T z, T n, T hr, T hz, T hn, T bias) {
  const T reset = math::sigmoid(r + hr), update = math::sigmoid(z + hz);
  const T part = hn + bias;
  return {reset, update, math::tanh(n + reset * part), part};
}
template <class T> MZ_HD MZ_ALWAYS_INLINE T gru_result(const GruGates<T>& u, T h) {
  return (1 - u.update) * u.fresh + u.update * h;
}

/** Gradients of W x + b, which equal those of U h + b except for n. `direct` is the gradient of the
 *  previous h that does not pass through U. */
template <class T> struct GruGradients {
  T r, z, n, hidden_n, direct;
};
template <class T>
MZ_HD MZ_ALWAYS_INLINE GruGradients<T> gru_backward(const GruGates<T>& u, T h, T gh) {
  const T gz = gh * (h - u.fresh) * u.update * (1 - u.update);
  const T gn = gh * (1 - u.update) * (1 - u.fresh * u.fresh);
  const T gr = gn * u.part * u.reset * (1 - u.reset);
  return {gr, gz, gn, gn * u.reset, gh * u.update};
}

/** The gates of an LSTM and its c, which is rounded before the output is computed. */
template <class T> struct LstmGates {
  T in, forget, fresh, c;
};
template <class T>
MZ_HD MZ_ALWAYS_INLINE LstmGates<T> lstm_forward(T i, T f, T g, T hi, T hf, T hg, T c) {
  const T in = math::sigmoid(i + hi), forget = math::sigmoid(f + hf);
  const T fresh = math::tanh(g + hg);
  return {in, forget, fresh, forget * c + in * fresh};
}
template <class T> MZ_HD MZ_ALWAYS_INLINE T lstm_out(T o, T ho) { return math::sigmoid(o + ho); }
template <class T> MZ_HD MZ_ALWAYS_INLINE T lstm_result(T out, T c) { return out * math::tanh(c); }

/** Gradients of an LSTM's gates, and of the previous c. In lstm_backward, c belongs to this step
 *  and c_before to the previous one. */
template <class T> struct LstmGradients {
  T i, f, g, o, c;
};
/** `t`: tanh(c). */
template <class T>
MZ_HD MZ_ALWAYS_INLINE LstmGradients<T> lstm_backward_of_tanh(T i, T f, T g, T o, T t, T c_before,
                                                              T gh, T gc) {
  const T all = gc + gh * o * (1 - t * t);
  return {all * g * i * (1 - i), all * c_before * f * (1 - f), all * i * (1 - g * g),
          gh * t * o * (1 - o), all * f};
}
template <class T>
MZ_HD MZ_ALWAYS_INLINE LstmGradients<T> lstm_backward(T i, T f, T g, T o, T c, T c_before, T gh,
                                                      T gc) {
  return lstm_backward_of_tanh(i, f, g, o, math::tanh(c), c_before, gh, gc);
}

}  // namespace mezzo::cpu_kernels
