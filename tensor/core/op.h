// The description of an op: its traits, the OpInfo built from them, and the arguments of kernels
// and backward rules. Parsed by g++ and by nvcc.
// See also: dispatch.h (how an op runs), elementwise.h (most of the ops).
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

/** An op's precision tag: how automatic mixed precision treats its inputs. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // Precision::f32 and the constant f32: g++ warns
enum class Precision : std::uint8_t {
  match,    // no cast: the output has the input's dtype
  low,      // cast to the 16-bit type: matrix products, convolutions
  f32,      // cast to f32: exponentials, sums, losses
  promote,  // promote to the widest input dtype, with or without casts
  banned,   // rejected while casting is enabled
};
#pragma GCC diagnostic pop

/** Returns the name as in the enum: "match", "low", ... */
MZ_API std::string_view name(Precision precision);

/** A field without a default: leaving it out of a designated initialiser does not compile. */
template <class T> struct Required {
  T value;  // the value given in the designated initialiser
  /** Converts from T, so that the field is initialised like one of type T. */
  constexpr Required(T v) : value(v) {}  // NOLINT: conversion is the point
  /** Converts to T, so that the field is read like one of type T. */
  constexpr operator T() const { return value; }
};

/** The set of tensors that the gradient of one input is computed from. Dispatch saves the union
 *  over the requested gradients. */
struct Needs {
  std::uint16_t bits = 0;  // bits 0..7: inputs 0..7; bits 8..15: outputs 0..7
  /** Returns the union of two sets. */
  friend constexpr Needs operator|(Needs a, Needs b) {
    return {static_cast<std::uint16_t>(a.bits | b.bits)};
  }
  /** Returns true if the sets share at least one tensor. */
  constexpr bool has(Needs other) const { return (bits & other.bits) != 0; }
};
/** Returns the set that holds input i. */
constexpr Needs input(int i) { return {static_cast<std::uint16_t>(1u << i)}; }
/** Returns the set that holds output i. */
constexpr Needs output(int i) { return {static_cast<std::uint16_t>(1u << (8 + i))}; }
/** The empty set. */
inline constexpr Needs kNothing{};

/** How an elementwise op treats integer and bool inputs. */
enum class Integers : std::uint8_t {
  to_float,  // computes in f32: exp, division
  keep,      // computes in i64, stores the promoted integer type: add, abs
  only,      // as keep, but rejects floating inputs: bitwise ops
  reject,    // throws DtypeError
};

/** The values that an integer last operand of an elementwise op may have. */
enum class IntegerDomain : std::uint8_t { any, not_zero, not_negative };

/** The dtype of an elementwise result: that of the operands, or bool. */
enum class ResultType : std::uint8_t { same, truth };

/** The operand of an elementwise op that is a bool mask. A mask does not take part in promotion and
 *  has no gradient. */
enum class MaskOperand : std::uint8_t { none, first, last };

/** When results of rank 4 and 5 are channels-last; otherwise they are row-major. */
enum class ChannelsLast : std::uint8_t {
  never,        // results are row-major
  like_first,   // if operand 0 is
  like_either,  // if operand 0 or operand 1 is
  /** For elementwise ops: if the first operand of the result's shape is channels-last and not also
   *  row-major. */
  like_full,
};

/** The properties of an op that its struct states. */
struct OpTraits {
  std::string_view name;             // the public function's; used in policies, errors and tables
  Required<Precision> precision;     // the tag; must be given
  std::string_view summary = {};     // one line for the op table
  int inputs = 1;                    // number of tensor operands; kVariadic for a list
  int outputs = 1;                   // visible results first, then those only the gradient needs
  std::array<Needs, 8> needs = {};   // needs[i]: tensors the gradient of input i needs
  bool differentiable = true;        // has a gradient; if false, no graph node is recorded
  bool twice_differentiable = true;  // if false, backward with create_graph throws Unsupported
  /** The rule can store the gradient of operand 1, a weight, in f32 after it is rounded. */
  bool widens_weight_gradient = false;
  bool view = false;             // the result shares the first operand's storage
  bool in_place = false;         // an in-place form exists
  bool internal = false;         // used only by other ops; there is no public function of this name
  bool crosses_devices = false;  // operands may be on several devices; runs on that of operand 0
  Integers integers = Integers::to_float;  // elementwise ops: treatment of integers and bool
  ResultType result = ResultType::same;    // elementwise ops: dtype of the result
  bool booleans = false;  // elementwise ops that keep integers: bool operands are accepted too
  /** Elementwise ops that keep integers: values that the last operand may have if it is integer. */
  IntegerDomain last_integers = IntegerDomain::any;
  MaskOperand mask = MaskOperand::none;              // elementwise ops: the bool operand, if any
  ChannelsLast channels_last = ChannelsLast::never;  // set automatically for elementwise ops

  /** Returns true if operand i is the mask. */
  constexpr bool is_mask(int i) const {
    return mask == MaskOperand::first ? i == 0 : mask == MaskOperand::last && i == inputs - 1;
  }
};

/** OpTraits::inputs of an op that takes a list of operands. */
inline constexpr int kVariadic = -1;

/** A compile-time list of op structs. */
template <class... Ops> struct type_list {};

/** The operands of an op; optional ones may be undefined. */
using Inputs = std::span<const Tensor>;

/** Returns the operands of an elementwise op without its mask: those that decide the dtype. */
MZ_API Inputs without_mask(const OpTraits& traits, Inputs in);

/** The results of an op; a kernel gets them allocated. */
using Outputs = std::span<Tensor>;
/** One gradient per tensor; undefined where there is none. */
using Grads = std::vector<Tensor>;

/** The attributes of an op that has none. */
struct NoAttrs {};

/** Shape, dtype and layout of one output. */
struct OutSpec {
  Shape shape;                              // rank 0 unless set
  DType dtype = DType::f32;                 // the element type to allocate
  std::optional<Device> device = {};        // unset: the device of the operands
  bool pinned = false;                      // on the CPU only: use pinned memory
  std::optional<MemoryFormat> format = {};  // unset: by OpTraits::channels_last
  /** A row-major result is a late copy of a channels-last one, if it may be late. */
  bool prefers_channels_last = false;
};

/** Shapes and dtypes of an op's outputs. */
struct OutSpecs {
  static constexpr int kMax = 4;  // the most outputs that an op can have
  OutSpecs() = default;
  /** Constructs from specs. Errors: ValueError for more than kMax. */
  OutSpecs(std::initializer_list<OutSpec> specs);
  std::array<OutSpec, kMax> items;  // the first `count` are in use
  int count = 0;                    // number of outputs
};

/** Shape, dtype, device and format of an input, saved for the backward pass even if the tensor
 *  itself is not. */
struct TensorMeta {
  Shape shape;               // of the input before broadcasting; rank 0 if it is undefined
  DType dtype = DType::f32;  // of the input after casts; f32 if it is undefined
  Device device;             // its gradient is moved there; the CPU if undefined
  /** The dtype that the gradient is finally converted to: the input's dtype, or another if the
   * input is the result of a conversion. A rule may round to a narrower one at once, or round to
   * the input's dtype and store in a wider one; otherwise the engine converts. */
  DType gradient = dtype;
  MemoryFormat format = MemoryFormat::contiguous;  // as Tensor::memory_format() returned it
};

struct OpInfo;

/** The arguments of a backward rule. Tensors that `needs` does not name are undefined. */
struct Saved {
  const OpInfo& info;                      // the op whose gradient is computed
  std::span<const Tensor> inputs;          // one per input, after casts
  std::span<const Tensor> outputs;         // one per output
  std::span<const TensorMeta> input_meta;  // one per input
  std::span<const bool> wanted;            // one per input: true if its gradient is requested
  const void* attrs_address;               // a copy of the attributes of the call; see attrs()

  /** Returns the attributes of the call. Op must be the op of `info`; this is not checked. */
  template <class Op> const typename Op::Attrs& attrs() const {
    return *static_cast<const typename Op::Attrs*>(attrs_address);
  }
  /** Returns true if the gradient of input i is requested. */
  bool wants(int i) const { return wanted[static_cast<std::size_t>(i)]; }
  /** Returns the dtype that the gradient of input i is converted to in the end; see
   *  TensorMeta::gradient. */
  DType gradient_dtype(int i) const { return input_meta[static_cast<std::size_t>(i)].gradient; }
  /** Returns the shape of input i, even if the input is not saved. */
  const Shape& shape(int i) const { return input_meta[static_cast<std::size_t>(i)].shape; }
};

/** How to copy and destroy an op's Attrs without their type. */
struct AttrsFacts {
  std::size_t bytes = 0;                               // sizeof(Attrs)
  std::size_t alignment = 1;                           // alignof(Attrs)
  void (*copy)(const void* from, void* to) = nullptr;  // copy-constructs into raw memory at `to`
  void (*destroy)(void* attrs) = nullptr;              // calls the destructor, frees no memory
};

/** The shape rule of an op: returns the specs of its outputs, or throws for operands that do not
 *  fit. */
using InferFn = OutSpecs (*)(const OpInfo& info, Inputs in, const void* attrs);
/** The function of a view op: returns a view of `base`. */
using ViewFn = Tensor (*)(const Tensor& base, const void* attrs);
/** The kernel of an op for one kind of device: writes `out`, which dispatch has allocated. */
using KernelFn = void (*)(const OpInfo& info, Inputs in, Outputs out, const void* attrs);
/** The gradient kernel of an elementwise op. `in` holds the operands (undefined if not saved), then
 *  the output, then the incoming gradient. `out[i]` is defined if the gradient of operand i is
 *  requested. */
using DerivativeFn = void (*)(const OpInfo& info, Inputs in, Outputs out, const void* attrs);
/** The function of a composite op: returns all results. */
using CompositeFn = std::vector<Tensor> (*)(Inputs in, const void* attrs);
/** A backward rule: returns one gradient per input from those of the outputs (`gy`). Entries for
 *  inputs that are not requested are ignored. */
using BackwardFn = Grads (*)(const Saved& saved, const Grads& gy);

/** Everything that dispatch uses of an op. There is one OpInfo per op. The CPU functions are set at
 *  compile time; other devices register theirs at start-up. */
struct OpInfo {
  OpTraits traits;                  // Op::traits; channels_last is set here for elementwise ops
  AttrsFacts attrs;                 // of Op::Attrs, or of NoAttrs if the op has none
  InferFn infer = nullptr;          // shape rule; null for views and composites
  ViewFn view = nullptr;            // set for view ops only
  CompositeFn composite = nullptr;  // calls public ops; excludes a kernel and a backward rule
  std::array<KernelFn, kNumDeviceKinds> kernel{};          // by DeviceKind; null: no kernel there
  std::array<DerivativeFn, kNumDeviceKinds> derivative{};  // elementwise ops only
  BackwardFn backward = nullptr;                           // null if the op has no backward rule
  bool elementwise = false;                                // true for an ElementwiseOp
};

// ---- making an OpInfo from an op struct ---------------------------------------------------------

namespace detail {

template <class Op> struct AttrsOfOp {
  using type = NoAttrs;
};
template <class Op>
requires requires { typename Op::Attrs; }
struct AttrsOfOp<Op> {
  using type = typename Op::Attrs;
};

template <class Attrs> constexpr AttrsFacts attrs_facts() {
  return {.bytes = sizeof(Attrs),
          .alignment = alignof(Attrs),
          .copy = [](const void* from,
                     void* to) { ::new (to) Attrs(*static_cast<const Attrs*>(from)); },
          .destroy = [](void* attrs) { static_cast<Attrs*>(attrs)->~Attrs(); }};
}

}  // namespace detail

/** The attributes type of an op: Op::Attrs, or NoAttrs if it has none. */
template <class Op> using AttrsOf = typename detail::AttrsOfOp<Op>::type;

/** A type with a static member `traits` that converts to OpTraits. */
template <class Op>
concept HasTraits = requires {
  { Op::traits } -> std::convertible_to<OpTraits>;
};

/** Returns true, or does not compile if Op is no op struct: the error says what it needs. */
template <class Op> constexpr bool is_op() {
  static_assert(HasTraits<Op>,
                "an op needs `static constexpr OpTraits traits` with its name and precision tag");
  return true;
}

/** A structured op with a kernel: shape rule and CPU kernel. */
template <class Op>
concept KernelOp = HasTraits<Op> && requires(Inputs in, Outputs out, const AttrsOf<Op>& attrs) {
  { Op::infer(in, attrs) } -> std::same_as<OutSpecs>;
  Op::cpu(in, out, attrs);
};

/** An op whose result is a view of its operand. */
template <class Op>
concept ViewOp = HasTraits<Op> && requires(const Tensor& x, const AttrsOf<Op>& attrs) {
  { Op::view(x, attrs) } -> std::same_as<Tensor>;
};

/** An op that is composed of other public ops. */
template <class Op>
concept CompositeOp = HasTraits<Op> && requires(Inputs in, const AttrsOf<Op>& attrs) {
  { Op::composite(in, attrs) } -> std::same_as<std::vector<Tensor>>;
};

/** An op with a backward rule. */
template <class Op>
concept HasRule = requires(const Saved& saved, const Grads& gy) {
  { Op::backward(saved, gy) } -> std::same_as<Grads>;
};

/** An elementwise op: `forward<V>` maps one value of each operand to one value. */
template <class Op>
concept ElementwiseOp = HasTraits<Op> && !KernelOp<Op> && !ViewOp<Op> && !CompositeOp<Op>;

template <class Op> constexpr OpInfo make_elementwise_info();  // elementwise_info.h

/** Returns the OpInfo of an op struct. */
template <class Op> constexpr OpInfo make_op_info() {
  using Attrs = AttrsOf<Op>;
  if constexpr (ElementwiseOp<Op>) {
    return make_elementwise_info<Op>();
  } else {
    static_assert(CompositeOp<Op> || !Op::traits.differentiable || HasRule<Op>,
                  "a differentiable op needs `static Grads backward(const Saved&, const Grads&)`");
    OpInfo info{.traits = Op::traits, .attrs = detail::attrs_facts<Attrs>()};
    if constexpr (KernelOp<Op>) {
      info.infer = [](const OpInfo&, Inputs in, const void* attrs) {
        return Op::infer(in, *static_cast<const Attrs*>(attrs));
      };
      info.kernel[0] = [](const OpInfo&, Inputs in, Outputs out, const void* attrs) {
        Op::cpu(in, out, *static_cast<const Attrs*>(attrs));
      };
    }
    if constexpr (ViewOp<Op>)
      info.view = [](const Tensor& x, const void* attrs) {
        return Op::view(x, *static_cast<const Attrs*>(attrs));
      };
    if constexpr (CompositeOp<Op>)
      info.composite = [](Inputs in, const void* attrs) {
        return Op::composite(in, *static_cast<const Attrs*>(attrs));
      };
    if constexpr (HasRule<Op>) info.backward = &Op::backward;
    return info;
  }
}

/** The OpInfo of an op, shared by the library and the program. */
template <class Op> inline constinit OpInfo op_info = make_op_info<Op>();

}  // namespace mezzo
