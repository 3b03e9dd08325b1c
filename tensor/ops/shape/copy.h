// Ops that copy elements: dtype and device conversion, clone, contiguous, fill and copy_.
#pragma once

#include "../../core/op.h"

namespace mezzo::op {

/** Conversion to another dtype with one rounding. */
struct To {
  static constexpr OpTraits traits{.name = "to",
                                   .precision = Precision::match,
                                   .summary = "converts to another dtype, rounded to nearest even",
                                   .integers = Integers::keep,
                                   .booleans = true,
                                   .channels_last = ChannelsLast::like_first};
  struct Attrs {
    DType dtype = DType::f32;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Copy in the same dtype, in a given memory format or that of the operand. */
struct Clone {
  static constexpr OpTraits traits{.name = "clone",
                                   .precision = Precision::match,
                                   .summary = "copy with its own storage",
                                   .integers = Integers::keep,
                                   .booleans = true,
                                   .channels_last = ChannelsLast::like_first};
  struct Attrs {
    std::optional<MemoryFormat> format = {};
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Operand 0 overwritten by operand 1, broadcast and converted; only the in-place form is used. */
struct Copy {
  static constexpr OpTraits traits{.name = "copy",
                                   .precision = Precision::match,
                                   .summary = "overwrites with another tensor's elements",
                                   .inputs = 2,
                                   .in_place = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {};
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Operand 0 overwritten by one number; only the in-place form is used. */
struct Fill {
  static constexpr OpTraits traits{.name = "fill",
                                   .precision = Precision::match,
                                   .summary = "overwrites with one value",
                                   .in_place = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    double value = 0;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Operand 0 overwritten by the bytes of operand 1 from another device; both have the same layout.
 *  Only the in-place form is used. */
struct CopyAcross {
  static constexpr OpTraits traits{.name = "copy_across",
                                   .precision = Precision::match,
                                   .inputs = 2,
                                   .in_place = true,
                                   .internal = true,
                                   .crosses_devices = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = CopyOptions;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  /** Calls the backends of both devices, like ToDevice::cpu. */
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Copy of the same elements in another device's memory, or in pinned memory. */
struct ToDevice {
  static constexpr OpTraits traits{.name = "to_device",
                                   .precision = Precision::match,
                                   .internal = true,
                                   .integers = Integers::keep,
                                   .booleans = true,
                                   .channels_last = ChannelsLast::like_first};
  struct Attrs {
    Device device;
    bool non_blocking = false;
    bool pinned = false;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  /** Runs for every device: the backends of the source and the target do the copy. */
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Runs the kernel of To: converts x to the dtype of y, which has the same layout. */
void convert_to(const Tensor& x, Tensor& y);

/** Returns x, which is of 16 bits, in f32, with the gradient and the bits of x.to(f32). Where that
 *  is possible the conversion waits until the memory of the result is first asked for; it never
 *  happens if only kernels that call late_source() read the result. Until then the elements of x
 *  must stay as they are. Errors of the conversion, or of late_source(): StateError if x was
 *  written meanwhile; CapturePostponed if x was converted before the capture that reads it. */
MZ_API Tensor late_to_f32(const Tensor& x);

/** Returns the 16-bit tensor that late_to_f32() will convert to x, or to the tensor that x is a
 *  view of, with the shape and strides of x; x itself if there is none, or if this thread's work
 *  goes into another queue than the main one. For kernels that widen what they read. */
Tensor late_source(const Tensor& x);

using CopyOps = type_list<Clone, Copy, CopyAcross, Fill, To, ToDevice>;

}  // namespace mezzo::op
