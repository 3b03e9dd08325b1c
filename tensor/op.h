// What an op says about itself: traits, the row made from them, and what kernels and rules receive.
// Sees: tensor.h. Parsed by g++ and by nvcc.
// Read next: dispatch.h (what happens to a row when it is called), elementwise.h (most of the ops).
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tensor.h"

namespace mezzo {

/** An op's precision tag: what automatic mixed precision may do to its inputs (AMP.md 5.3). */
enum class Precision : std::uint8_t {
  match,   // nothing: the output follows the input
  low,     // cast to the 16-bit type: matrix products, convolutions
  full,    // cast to f32: exponentials, sums, losses
  widest,  // promote to the widest input, with or without casts
  banned,  // refuse under casts
};

MZ_API std::string_view name(Precision precision);

/** A field that must be named: it has no default, so leaving it out does not compile. */
template <class T> struct Required {
  T value;
  constexpr Required(T v) : value(v) {}  // NOLINT: conversion is the point
  constexpr operator T() const { return value; }
};

/** Which tensors the gradient of one input is computed from; the union over the wanted gradients is what gets saved. */
struct Needs {
  std::uint16_t bits = 0;
  friend constexpr Needs operator|(Needs a, Needs b) { return {static_cast<std::uint16_t>(a.bits | b.bits)}; }
  constexpr bool has(Needs other) const { return (bits & other.bits) != 0; }
};
constexpr Needs input(int i) { return {static_cast<std::uint16_t>(1u << i)}; }
constexpr Needs output(int i) { return {static_cast<std::uint16_t>(1u << (8 + i))}; }
inline constexpr Needs kNothing{};

/** What an elementwise op does with integer and bool inputs. */
enum class Integers : std::uint8_t {
  to_float,  // computes in f32: exp, division
  keep,      // computes in i64, stores the promoted integer type: add, abs
  only,      // as keep, and refuses floating inputs: bitwise ops
  reject,    // DtypeError
};

/** Which integers the last operand of an elementwise op may hold. */
enum class IntegerDomain : std::uint8_t { any, not_zero, not_negative };

/** The dtype of an elementwise result. */
enum class ResultType : std::uint8_t { same, truth };

/** Which operand of an elementwise op is a bool mask; it takes no part in promotion and has no gradient. */
enum class MaskOperand : std::uint8_t { none, first, last };

/** Where results of rank 4 and 5 are channels-last; in all other cases they are row-major. */
enum class ChannelsLast : std::uint8_t {
  never,
  like_first,   // where operand 0 is
  like_either,  // where operand 0 or operand 1 is
  like_full,    // where the first operand of the result's shape is, and is not row-major too: elementwise ops
};

struct OpTraits {
  std::string_view name;            // the name in policies, errors, traces and tables: the public function's
  Required<Precision> precision;    // no default
  std::string_view summary = {};    // one line for the op table
  int inputs = 1;                   // number of tensor operands; kVariadic for a list
  int outputs = 1;                  // visible results first, then what only the gradient wants
  std::array<Needs, 8> needs = {};  // needs[i]: what the gradient of input i is computed from
  bool differentiable = true;
  bool twice_differentiable = true;
  bool view = false;                       // the result shares the first operand's storage
  bool in_place = false;                   // an in-place form exists
  bool internal = false;                   // serves rules only: there is no public function of this name
  bool crosses_devices = false;            // operands may be on several devices; the first's runs it
  Integers integers = Integers::to_float;  // elementwise ops
  ResultType result = ResultType::same;    // elementwise ops
  bool booleans = false;  // elementwise ops that keep integers: bool operands are welcome too
  IntegerDomain last_integers = IntegerDomain::any;  // elementwise ops that keep integers
  MaskOperand mask = MaskOperand::none;              // elementwise ops
  ChannelsLast channels_last = ChannelsLast::never;  // elementwise ops have it set

  constexpr bool is_mask(int i) const {
    return mask == MaskOperand::first ? i == 0 : mask == MaskOperand::last && i == inputs - 1;
  }
};

inline constexpr int kVariadic = -1;

/** A compile-time list of op structs. */
template <class... Ops> struct type_list {};

using Inputs = std::span<const Tensor>;

/** The operands of an elementwise op without its mask: those that decide the dtype. */
inline Inputs without_mask(const OpTraits& traits, Inputs in) {
  if (traits.mask == MaskOperand::none) return in;
  return in.subspan(traits.mask == MaskOperand::first ? 1 : 0, in.size() - 1);
}

using Outputs = std::span<Tensor>;
using Grads = std::vector<Tensor>;

struct NoAttrs {};

/** Shape, dtype and layout of one output. */
struct OutSpec {
  Shape shape;
  DType dtype = DType::f32;
  std::optional<Device> device = {};        // where it goes; unset: where the operands are
  bool pinned = false;                      // on the CPU: in pinned memory
  std::optional<MemoryFormat> format = {};  // unset: by the op's rule, OpTraits::channels_last
};

/** Shapes and dtypes of an op's outputs. */
struct OutSpecs {
  static constexpr int kMax = 4;
  OutSpecs() = default;
  OutSpecs(std::initializer_list<OutSpec> specs) {
    for (const OutSpec& s : specs) items[count++] = s;
  }
  std::array<OutSpec, kMax> items;
  int count = 0;
};

/** Shape and dtype of an input, kept for the backward pass even where the tensor itself is not. */
struct TensorMeta {
  Shape shape;
  DType dtype = DType::f32;
  Device device;
  /** What its gradient is converted to in the end: its dtype, or a narrower one where it came from a conversion. A rule that rounds once may round
   *  to it; the engine does what a rule leaves. */
  DType gradient = dtype;
  MemoryFormat format = MemoryFormat::contiguous;
};

struct OpRow;

/** What a backward rule receives. Tensors that `needs` did not ask for are undefined. */
struct Saved {
  const OpRow& row;
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::span<const TensorMeta> metas;  // one per input
  std::span<const bool> wanted;       // one per input: is its gradient asked for?
  const void* attrs_address;

  template <class Op> const typename Op::Attrs& attrs() const {
    return *static_cast<const typename Op::Attrs*>(attrs_address);
  }
  bool wants(int i) const { return wanted[static_cast<std::size_t>(i)]; }
  DType gradient_dtype(int i) const { return metas[static_cast<std::size_t>(i)].gradient; }
  const Shape& shape(int i) const { return metas[static_cast<std::size_t>(i)].shape; }
};

/** How to keep a copy of an op's Attrs without knowing their type. */
struct AttrsFacts {
  std::size_t bytes = 0;
  std::size_t alignment = 1;
  void (*copy)(const void* from, void* to) = nullptr;
  void (*destroy)(void* attrs) = nullptr;
};

using InferFn = OutSpecs (*)(const OpRow& row, Inputs in, const void* attrs);
using ViewFn = Tensor (*)(const Tensor& base, const void* attrs);
using KernelFn = void (*)(const OpRow& row, Inputs in, Outputs out, const void* attrs);
/** Gradient kernel of an elementwise op: `in` are operands (undefined where unsaved), then the output, then the incoming gradient;
 *  `out[i]` is defined where the gradient of operand i is wanted. */
using DerivativeFn = void (*)(const OpRow& row, Inputs in, Outputs out, const void* attrs);
using CompositeFn = std::vector<Tensor> (*)(Inputs in, const void* attrs);
using BackwardFn = Grads (*)(const Saved& saved, const Grads& gy);

/** Everything dispatch knows about an op. One per op; the CPU's functions are in it from the start, other devices attach theirs. */
struct OpRow {
  OpTraits traits;
  AttrsFacts attrs;
  InferFn infer = nullptr;  // absent for views and composites
  ViewFn view = nullptr;
  CompositeFn composite = nullptr;  // body in public ops; then there is no kernel and no rule
  std::array<KernelFn, kNumDeviceKinds> kernel{};
  std::array<DerivativeFn, kNumDeviceKinds> derivative{};  // elementwise ops only
  BackwardFn backward = nullptr;
  bool elementwise = false;
};

// ---- making a row from an op struct -----------------------------------------------------------------------------------

namespace detail {

template <class Op> struct AttrsOfOp { using type = NoAttrs; };
template <class Op>
requires requires { typename Op::Attrs; }
struct AttrsOfOp<Op> {
  using type = typename Op::Attrs;
};

template <class Attrs> constexpr AttrsFacts attrs_facts() {
  return {.bytes = sizeof(Attrs),
          .alignment = alignof(Attrs),
          .copy = [](const void* from, void* to) { ::new (to) Attrs(*static_cast<const Attrs*>(from)); },
          .destroy = [](void* attrs) { static_cast<Attrs*>(attrs)->~Attrs(); }};
}

}  // namespace detail

template <class Op> using AttrsOf = typename detail::AttrsOfOp<Op>::type;

template <class Op>
concept HasTraits = requires {
  { Op::traits } -> std::convertible_to<OpTraits>;
};

/** A structured op with a kernel: shape rule and CPU kernel. */
template <class Op>
concept KernelOp = HasTraits<Op> && requires(Inputs in, Outputs out, const AttrsOf<Op>& attrs) {
  { Op::infer(in, attrs) } -> std::same_as<OutSpecs>;
  Op::cpu(in, out, attrs);
};

/** An op that only renames elements. */
template <class Op>
concept ViewOp = HasTraits<Op> && requires(const Tensor& x, const AttrsOf<Op>& attrs) {
  { Op::view(x, attrs) } -> std::same_as<Tensor>;
};

/** An op written in other public ops. */
template <class Op>
concept CompositeOp = HasTraits<Op> && requires(Inputs in, const AttrsOf<Op>& attrs) {
  { Op::composite(in, attrs) } -> std::same_as<std::vector<Tensor>>;
};

template <class Op>
concept HasRule = requires(const Saved& saved, const Grads& gy) {
  { Op::backward(saved, gy) } -> std::same_as<Grads>;
};

/** An elementwise op: `forward<V>` over one value of each operand. */
template <class Op>
concept ElementwiseOp = HasTraits<Op> && !KernelOp<Op> && !ViewOp<Op> && !CompositeOp<Op>;

template <class Op> constexpr OpRow make_elementwise_row();  // elementwise_row.h

template <class Op> constexpr OpRow make_row() {
  using Attrs = AttrsOf<Op>;
  if constexpr (ElementwiseOp<Op>) {
    return make_elementwise_row<Op>();
  } else {
    static_assert(CompositeOp<Op> || !Op::traits.differentiable || HasRule<Op>,
                  "a differentiable op needs `static Grads backward(const Saved&, const Grads&)`");
    OpRow row{.traits = Op::traits, .attrs = detail::attrs_facts<Attrs>()};
    if constexpr (KernelOp<Op>) {
      row.infer = [](const OpRow&, Inputs in, const void* attrs) {
        return Op::infer(in, *static_cast<const Attrs*>(attrs));
      };
      row.kernel[0] = [](const OpRow&, Inputs in, Outputs out, const void* attrs) {
        Op::cpu(in, out, *static_cast<const Attrs*>(attrs));
      };
    }
    if constexpr (ViewOp<Op>)
      row.view = [](const Tensor& x, const void* attrs) {
        return Op::view(x, *static_cast<const Attrs*>(attrs));
      };
    if constexpr (CompositeOp<Op>)
      row.composite = [](Inputs in, const void* attrs) {
        return Op::composite(in, *static_cast<const Attrs*>(attrs));
      };
    if constexpr (HasRule<Op>) row.backward = &Op::backward;
    return row;
  }
}

/** The one row of an op. */
template <class Op> inline constinit OpRow row = make_row<Op>();

}  // namespace mezzo
