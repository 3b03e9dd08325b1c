// Recurrent layers by cuDNN: conversion of operands and results to and from the library's layout.
#include "recurrent_library.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "../../../tensor/core/numerics.h"
#include "../../../tensor/device/capture.h"
#include "../../../tensor/memory/transfer.h"
#include "../../../tensor/text/text.h"
#include "../../attach.h"
#include "../../library_fallback.h"
#include "../../library_proof.h"
#include "../../own_kernels.h"
#include "recurrent.h"

namespace mezzo::gpu {

namespace {

using op::CellKind;
using Backward = op::RecurrentLayerBackward;
using Operand = Backward::Operand;
using Parameter = Backward::Parameter;
using Parameters = std::array<Tensor, 5>;

bool fits_int(std::int64_t n) { return n > 0 && n <= std::numeric_limits<std::int32_t>::max(); }

/** Returns true if cuDNN can keep the weights of such a layer on chip. Source: the conditions on
 *  shapes under which PyTorch requests it. */
bool may_persist(const dnn::Recurrent& r) {
  return is_low(r.dtype) && r.hidden % 128 == 0 && r.hidden <= 1024 && r.features % 128 == 0 &&
         r.size == r.hidden && r.lengths.empty();
}

/** Returns the description for cuDNN, or nothing for layers it is not used for: all sequences must
 *  have a step, and those of a reversed layer all steps. A single step, as of a cell, takes only
 *  two launches of Mezzo's kernels. */
std::optional<dnn::Recurrent> library_layer(const Tensor& x, const Tensor& w_ih, const Tensor& w_hh,
                                            bool projects, const op::RecurrentAttrs& attrs) {
  dnn::Recurrent layer{.kind = attrs.kind,
                       .dtype = x.dtype(),
                       .steps = x.shape()[0],
                       .batch = x.shape()[1],
                       .features = x.shape()[2],
                       .hidden = w_ih.shape()[0] / op::gates_of(attrs.kind),
                       .size = w_hh.shape()[1],
                       .training = attrs.keep};
  for (const std::int64_t n : {layer.steps, layer.batch, layer.features, layer.hidden, layer.size,
                               layer.steps * layer.batch})
    if (!fits_int(n)) return std::nullopt;
  if (layer.steps == 1) return std::nullopt;
  if (projects && layer.size == layer.hidden) return std::nullopt;  // the library would not project
  for (const std::int64_t length : attrs.lengths) {
    if (length == 0) return std::nullopt;
    layer.lengths.push_back(static_cast<std::int32_t>(length));
  }
  if (std::all_of(attrs.lengths.begin(), attrs.lengths.end(),
                  [&](std::int64_t n) { return n == layer.steps; }))
    layer.lengths.clear();
  if (attrs.reverse && !layer.lengths.empty()) return std::nullopt;
  layer.persistent = may_persist(layer);
  return layer;
}

std::int64_t bias_elements(const dnn::Recurrent& layer) {
  return op::gates_of(layer.kind) * layer.hidden;
}
std::int64_t bias_bytes(const dnn::Recurrent& layer) {
  return bias_elements(layer) * static_cast<std::int64_t>(item_size(layer.dtype));
}

/** A forward or backward call. */
template <class C> class LibraryCall {
 public:
  LibraryCall(const dnn::Recurrent& layer, bool reverse, Device device)
      : layer_(layer), reverse_(reverse), device_(device), stream_(current_stream(device)) {
    if (!layer.lengths.empty()) refuse_upload_in_capture(device);
    if (const auto spaces = dnn::recurrent_spaces(layer, device)) {
      spaces_ = *spaces;
      usable_ = true;
      work_ = workspace(spaces_.work, device);
    }
  }

  bool usable() const { return usable_; }

  bool forward(Inputs in, Outputs out) {
    const Tensor weights = packed({in[3], in[4], in[5], in[6], in[7]});
    const Tensor x = forwards(in[0]), h0 = row_major(in[1]), c0 = row_major(in[2]);
    const Tensor y = reverse_ ? like(out[0]) : out[0];
    const Tensor reserve =
        layer_.training
            ? empty_tensor({spaces_.reserve + 2 * bias_bytes(layer_)}, DType::u8, device_)
            : Tensor{};
    if (!dnn::run(layer_, spaces_,
                  {.x = x.raw_data(),
                   .h0 = data(h0),
                   .c0 = data(c0),
                   .weights = weights.raw_data(),
                   .y = y.raw_data(),
                   .h = out[1].raw_data(),
                   .c = is_lstm() ? out[2].raw_data() : nullptr,
                   .work = data(work_),
                   .reserve = data(reserve)},
                  device_, stream_))
      return false;
    if (reverse_) turn(y, out[0]);
    if (layer_.training) {
      keep_bias(reserve, 0, in[5]);
      keep_bias(reserve, 1, in[6]);
      out[3] = reserve;
    }
    return true;
  }

  bool backward(Inputs in, Outputs out, const std::array<bool, 8>& wanted) {
    const Tensor weights =
        packed({in[Operand::kWih], in[Operand::kWhh], Tensor{}, Tensor{}, in[Operand::kWhr]});
    const Tensor x = forwards(in[Operand::kX]), y = forwards(in[Operand::kY]),
                 h0 = row_major(in[Operand::kH0]), c0 = row_major(in[Operand::kC0]);
    const Tensor gy = in[Operand::kGy].defined() ? forwards(in[Operand::kGy]) : zeros_like(y),
                 gh = row_major(in[Operand::kGh]), gc = row_major(in[Operand::kGc]);
    // The library overwrites its saved data, but a backward pass may be run again.
    const Tensor reserve = copied(in[Operand::kKept]);
    const bool wants_weights =
        std::any_of(wanted.begin() + 3, wanted.end(), [](bool w) { return w; });
    const Tensor dx = wanted[0] && !reverse_ ? out[0] : like(x);
    if (!layer_.lengths.empty()) clear(dx);  // for padding
    const Tensor dweights = wants_weights ? memory(spaces_.weights) : Tensor{};
    if (wants_weights) clear(dweights);
    if (!dnn::differentiate(layer_, spaces_,
                            {.x = x.raw_data(),
                             .h0 = data(h0),
                             .c0 = data(c0),
                             .weights = weights.raw_data(),
                             .y = y.raw_data(),
                             .work = data(work_),
                             .reserve = reserve.raw_data()},
                            {.gy = gy.raw_data(),
                             .gh = data(gh),
                             .gc = data(gc),
                             .x = dx.raw_data(),
                             .h0 = wanted[1] ? out[1].raw_data() : nullptr,
                             .c0 = wanted[2] ? out[2].raw_data() : nullptr,
                             .weights = data(dweights)},
                            device_, stream_))
      return false;
    if (wanted[0] && reverse_) turn(dx, out[0]);
    const auto places = op::parameter_places(in, wanted);
    for (std::size_t i = 0; i < places.size(); ++i)
      if (const std::int64_t n = places[i].numel(); n > 0)
        copy_bytes(at(out[3], places[i].offset), at_byte(dweights, *spaces_.places[i]), n);
    return true;
  }

 private:
  bool is_lstm() const { return layer_.kind == CellKind::lstm; }
  static void* data(const Tensor& x) { return x.defined() ? x.raw_data() : nullptr; }
  static char* at_byte(const Tensor& x, std::int64_t byte) {
    return static_cast<char*>(x.raw_data()) + byte;
  }
  char* at(const Tensor& x, std::int64_t element) const {
    return at_byte(x, element * static_cast<std::int64_t>(item_size(layer_.dtype)));
  }
  /** Returns workspace of `bytes` bytes, as elements of the layer's dtype. */
  Tensor memory(std::int64_t bytes) const {
    return work_tensor({bytes / static_cast<std::int64_t>(item_size(layer_.dtype))}, layer_.dtype,
                       device_);
  }
  Tensor like(const Tensor& x) const { return work_tensor(x.shape(), x.dtype(), device_); }

  /** Stores a bias after the library's saved data, for Mezzo's kernels if the library fails in the
   *  backward pass. */
  void keep_bias(const Tensor& kept, std::int64_t place, const Tensor& bias) const {
    const std::int64_t bytes = bias_bytes(layer_), elements = bias_elements(layer_);
    const Tensor from =
        bias.defined() ? row_major(bias) : work_tensor({elements}, layer_.dtype, device_);
    if (!bias.defined()) clear(from);
    copy_bytes(at_byte(kept, spaces_.reserve + place * bytes), from.raw_data(), elements);
  }

  void copy_bytes(void* to, const void* from, std::int64_t elements) const {
    runtime::copy(to, from, static_cast<std::size_t>(elements) * item_size(layer_.dtype), stream_);
  }
  void clear(const Tensor& x) const { move_rows<C>({{}, Array(x), x.numel(), 1}, stream_); }
  Tensor zeros_like(const Tensor& x) const {
    const Tensor zeros = like(x);
    clear(zeros);
    return zeros;
  }
  Tensor copied(const Tensor& x) const {
    const Tensor copy = like(x);
    runtime::copy(copy.raw_data(), x.raw_data(),
                  static_cast<std::size_t>(x.numel()) * item_size(x.dtype()), stream_);
    return copy;
  }

  /** Copies the parameters to the library's offsets; missing biases are 0. */
  Tensor packed(const Parameters& parameters) const {
    const Tensor weights = memory(spaces_.weights);
    if (!parameters[Parameter::kDbih].defined() || !parameters[Parameter::kDbhh].defined())
      clear(weights);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (const Tensor& x = parameters[i]; x.defined()) {
        const Tensor rows = row_major(x);
        copy_bytes(at_byte(weights, *spaces_.places[i]), rows.raw_data(), rows.numel());
      }
    return weights;
  }

  /** Returns [T, N, ..] in the order of processing. */
  Tensor forwards(const Tensor& given) const {
    const Tensor x = row_major(given);
    if (!reverse_) return x;
    const Tensor turned = like(x);
    turn(x, turned);
    return turned;
  }
  void turn(const Tensor& from, const Tensor& to) const {
    RowMove move{Array(from), Array(to), layer_.steps * layer_.batch, from.shape()[2]};
    move.turned_batch = layer_.batch;
    move_rows<C>(move, stream_);
  }

  const dnn::Recurrent& layer_;
  bool reverse_, usable_ = false;
  Device device_;
  runtime::Stream stream_;
  dnn::RecurrentSpaces spaces_;
  Tensor work_;
};

/** Run exactly this layer, or its gradients. They return false if cuDNN does not support it.
 *  Errors: CudaError where it fails. */
bool run_by_library(const dnn::Recurrent& layer, Inputs in, Outputs out,
                    const op::RecurrentAttrs& attrs) {
  bool done = false;
  visit_floating_compute(layer.dtype, [&]<class C>(std::type_identity<C>) {
    LibraryCall<C> call(layer, attrs.reverse, in[0].device());
    done = call.usable() && call.forward(in, out);
  });
  return done;
}
bool differentiate_by_library(const dnn::Recurrent& layer, Inputs in, Outputs out,
                              const op::RecurrentLayerBackward::Attrs& attrs) {
  bool done = false;
  visit_floating_compute(layer.dtype, [&]<class C>(std::type_identity<C>) {
    LibraryCall<C> call(layer, attrs.forward.reverse, in[0].device());
    done = call.usable() && call.backward(in, out, attrs.wanted);
  });
  return done;
}

/** Describes a layer, for the log. */
std::string text_of(const dnn::Recurrent& layer) {
  return str("a recurrent layer of ", layer.dtype, ' ',
             Shape{layer.steps, layer.batch, layer.features}, " and ", layer.hidden,
             " hidden units", layer.persistent ? " kept on chip" : "");
}

// ---- which layers the library serves ------------------------------------------------------------

/** Runs a small layer of the kind on NaN and returns true if all results are NaN. A library that
 *  drops NaN would hide an overflow from the loss scaler. */
template <class C> bool passes_nan_on(const dnn::Recurrent& kind, Device device) {
  dnn::Recurrent layer = kind;
  layer.steps = 2;
  layer.training = true;
  op::RecurrentAttrs attrs{.kind = layer.kind};
  if (!layer.lengths.empty())
    for (std::int64_t i = 0; i < layer.batch; ++i) attrs.lengths.push_back(1 + i % 2);
  layer.lengths.assign(attrs.lengths.begin(), attrs.lengths.end());
  const runtime::Stream stream = current_stream(device);
  const auto zeros = [&](const Shape& shape) {
    const Tensor x = work_tensor(shape, layer.dtype, device);
    move_rows<C>({{}, Array(x), x.numel(), 1}, stream);
    return x;
  };
  const std::int64_t columns = bias_elements(layer);
  const Tensor x = work_tensor({layer.steps, layer.batch, layer.features}, layer.dtype, device);
  const std::vector<unsigned char> nans(static_cast<std::size_t>(x.numel()) * item_size(x.dtype()),
                                        0xFF);
  upload(x, nans.data(), nans.size());
  const std::array<Tensor, 8> in{
      x,
      Tensor{},
      Tensor{},
      zeros({columns, layer.features}),
      zeros({columns, layer.size}),
      Tensor{},
      Tensor{},
      layer.size == layer.hidden ? Tensor{} : zeros({layer.size, layer.hidden})};
  const OutSpecs specs = op::RecurrentLayer::infer(in, attrs);
  std::array<Tensor, 4> out;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = work_tensor(specs.items[i].shape, specs.items[i].dtype, device);
  if (!run_by_library(layer, in, out, attrs)) return false;
  const Tensor first = work_tensor({layer.batch * layer.size}, dtype_of<C>(), device);
  move_rows<C>({Array(out[0]), Array(first), first.numel(), 1}, stream);
  std::vector<C> y(static_cast<std::size_t>(first.numel()));
  download(first, y.data(), y.size() * sizeof(C));
  return std::all_of(y.begin(), y.end(), [](C value) { return std::isnan(value); });
}

/** Everything that the algorithm may depend on: the distribution of on-chip weights depends on the
 *  batch, f32 products on allow_tf32(). */
using Kind = std::array<std::int64_t, 8>;
Kind kind_of(const dnn::Recurrent& r, Device device) {
  return {device.index,
          static_cast<std::int64_t>(r.kind),
          static_cast<std::int64_t>(r.dtype),
          r.features,
          r.hidden,
          r.size,
          r.batch,
          (r.persistent ? 1 : 0) | (r.lengths.empty() ? 0 : 2) |
              (r.dtype == DType::f32 && allow_tf32() ? 4 : 0)};
}

/** Whether the library serves a kind, as far as known. */
struct Answers {
  std::mutex mutex;
  std::map<Kind, bool> serves;
};
Answers& answers() {
  static auto& all = *new Answers;  // never destroyed: tensors may outlive main
  return all;
}

bool supports(const dnn::Recurrent& layer, Device device) {
  bool good = false;
  try {
    visit_floating_compute(layer.dtype, [&]<class C>(std::type_identity<C>) {
      good = dnn::recurrent_spaces(layer, device) && passes_nan_on<C>(layer, device);
    });
  } catch (const CudaError& error) {
    bool logged = false;
    report_failure("cuDNN", text_of(layer), error, logged);
    good = false;
  }
  return good;
}

/** Returns true if cuDNN supports layers of this kind and keeps NaN. Checks once per kind; within a
 *  capture, a kind not checked before counts as not supported. Errors: OutOfMemory. */
bool library_serves(const dnn::Recurrent& layer, Device device) {
  const Kind kind = kind_of(layer, device);
  {
    const std::lock_guard lock(answers().mutex);
    if (const auto known = answers().serves.find(kind); known != answers().serves.end())
      return known->second;
  }
  if (Capture::current()) return false;
  const bool serves = supports(layer, device);
  const std::lock_guard lock(answers().mutex);
  return answers().serves.emplace(kind, serves).first->second;
}

/** Records that the library failed on a layer of this kind: library_serves() is false from then on.
 *  Refuses the kind with and without on-chip weights: the two save different data, and a pending
 *  backward pass must not use one for the other. */
void refuse_library(const dnn::Recurrent& layer, Device device) {
  const std::lock_guard lock(answers().mutex);
  dnn::Recurrent kind = layer;
  for (const bool persistent : {false, true}) {
    kind.persistent = persistent;
    answers().serves[kind_of(kind, device)] = false;
  }
}

/** Chooses the fastest algorithm of the library that serves the layer. Returns false if there is
 *  none. */
bool choose_algorithm(dnn::Recurrent& layer, Device device) {
  if (layer.persistent && library_serves(layer, device)) return true;
  layer.persistent = false;
  return library_serves(layer, device);
}

/** Returns true if the call of the library succeeded. Otherwise the layer uses Mezzo's kernels from
 *  then on. */
template <class Call> bool succeeds(const dnn::Recurrent& layer, Device device, const Call& call) {
  bool logged = false;
  try {
    if (call()) return true;
    report_refusal("cuDNN", text_of(layer), logged);
  } catch (const CudaError& error) {
    refuse_library(layer, device);
    report_failure("cuDNN", text_of(layer), error, logged);
  }
  refuse_library(layer, device);
  return false;
}

/** Computes the gradients of a layer that the library ran forward. Mezzo's kernels need their own
 *  saved data, so they first run the layer forward. */
void differentiate_again(const dnn::Recurrent& layer, Inputs in, Outputs out,
                         const op::RecurrentLayerBackward::Attrs& attrs) {
  const Tensor& kept = in[Operand::kKept];
  const Device device = kept.device();
  const auto bias = [&](std::int64_t places_from_end) {
    const Tensor x = work_tensor({bias_elements(layer)}, layer.dtype, device);
    const std::int64_t at = kept.numel() - places_from_end * bias_bytes(layer);
    runtime::copy(x.raw_data(), static_cast<const char*>(kept.raw_data()) + at,
                  static_cast<std::size_t>(bias_bytes(layer)), current_stream(device));
    return x;
  };
  const std::array<Tensor, 8> forward{in[Operand::kX],   in[Operand::kH0],  in[Operand::kC0],
                                      in[Operand::kWih], in[Operand::kWhh], bias(2),
                                      bias(1),           in[Operand::kWhr]};
  const OutSpecs specs = op::RecurrentLayer::infer(forward, attrs.forward);
  std::array<Tensor, 4> results;
  for (std::size_t i = 0; i < results.size(); ++i)
    results[i] = work_tensor(specs.items[i].shape, specs.items[i].dtype, device);
  recurrent_by_kernels(forward, results, attrs.forward);
  std::vector<Tensor> given(in.begin(), in.end());
  given[Operand::kY] = results[0];
  given[Operand::kKept] = results[3];
  recurrent_backward_by_kernels(given, out, attrs);
}

// ---- comparisons with Mezzo's own kernels -------------------------------------------------------

LibraryProofs& proofs() {
  static auto& all = *new LibraryProofs;  // never destroyed: tensors may outlive main
  return all;
}

/** `gradients`: of the backward pass. */
LibraryProofs::Kind proof_kind(const dnn::Recurrent& layer, Device device, bool gradients) {
  const Kind kind = kind_of(layer, device);
  LibraryProofs::Kind all(kind.begin(), kind.end());
  all.push_back(gradients ? 1 : 0);
  return all;
}

/** Every step rounds its state. */
ProofTerms terms_of(const dnn::Recurrent& layer) {
  return {"cuDNN", 8 * proof_tolerance(layer.dtype)};
}

/** Returns pairs of those results that have elements. */
std::vector<ResultPair> paired(Outputs library, Outputs own, double typical) {
  std::vector<ResultPair> pairs;
  for (std::size_t i = 0; i < own.size(); ++i)
    if (own[i].numel() > 0) pairs.push_back({library[i], own[i], typical});
  return pairs;
}

/** Returns y and the last states beside Mezzo's own. */
std::vector<ResultPair> recurrent_beside_own(Inputs in, Outputs out,
                                             const op::RecurrentAttrs& attrs) {
  const OutSpecs specs = op::RecurrentLayer::infer(in, attrs);
  std::array<Tensor, 4> own;
  for (std::size_t i = 0; i < own.size(); ++i)
    own[i] = work_tensor(specs.items[i].shape, specs.items[i].dtype, in[0].device());
  recurrent_by_kernels(in, own, attrs);
  return paired(out, std::span(own).first(3), nan_unless_finite(in));
}

/** Returns the gradients beside Mezzo's own. */
std::vector<ResultPair> beside_own_gradients(const dnn::Recurrent& layer, Inputs in, Outputs out,
                                             const op::RecurrentLayerBackward::Attrs& attrs) {
  std::vector<Tensor> own;
  for (const Tensor& x : out) own.push_back(work_tensor(x.shape(), x.dtype(), x.device()));
  differentiate_again(layer, in, own, attrs);
  const std::array<Tensor, 4> operands{in[Operand::kX], in[Operand::kGy], in[Operand::kGh],
                                       in[Operand::kGc]};
  return paired(out, own, nan_unless_finite(operands));
}

}  // namespace

bool recurrent_by_library(Inputs in, Outputs out, const op::RecurrentAttrs& attrs) {
  if (OwnKernels::active()) return false;
  if (!allow_nondeterministic() && !dnn::recurrent_is_deterministic()) return false;
  const Device device = in[0].device();
  std::optional<dnn::Recurrent> layer = library_layer(in[0], in[3], in[4], in[7].defined(), attrs);
  if (!layer || !choose_algorithm(*layer, device)) return false;
  const LibraryProofs::Kind kind = proof_kind(*layer, device, false);
  const Tensor saved = out[3];  // the library puts its own there
  if (proofs().allows_call(kind) &&
      succeeds(*layer, device, [&] { return run_by_library(*layer, in, out, attrs); }) &&
      proofs().accepts(
          kind, terms_of(*layer), [&] { return recurrent_beside_own(in, out, attrs); },
          [&] { return text_of(*layer); }))
    return true;
  out[3] = saved;
  return false;
}

void recurrent_backward_by_library(Inputs in, Outputs out,
                                   const op::RecurrentLayerBackward::Attrs& attrs) {
  const Tensor& x = in[Operand::kX];
  const Device device = x.device();
  std::optional<dnn::Recurrent> layer = library_layer(x, in[Operand::kWih], in[Operand::kWhh],
                                                      in[Operand::kWhr].defined(), attrs.forward);
  const LibraryProofs::Kind kind = proof_kind(*layer, device, true);
  if (choose_algorithm(*layer, device) && proofs().allows_call(kind) &&
      succeeds(*layer, device, [&] { return differentiate_by_library(*layer, in, out, attrs); }) &&
      proofs().accepts(
          kind, terms_of(*layer), [&] { return beside_own_gradients(*layer, in, out, attrs); },
          [&] { return "the gradient of " + text_of(*layer); }))
    return;
  if (!Capture::current() && !proofs().allows_call(kind)) refuse_library(*layer, device);
  differentiate_again(*layer, in, out, attrs);
}

}  // namespace mezzo::gpu
