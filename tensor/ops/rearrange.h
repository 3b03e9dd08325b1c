// Composites of shape ops: diag, trace, pixel_shuffle, pixel_unshuffle.
#pragma once

#include "../core/op.h"

namespace mezzo::op {

/** A matrix of zeros with a vector as its diagonal, or the diagonal of a matrix. */
struct Diag {
  static constexpr OpTraits traits{.name = "diag",
                                   .precision = Precision::match,
                                   .summary = "a vector as a diagonal, or the diagonal of a matrix",
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t diagonal = 0;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct PixelShuffle {
  static constexpr OpTraits traits{.name = "pixel_shuffle",
                                   .precision = Precision::match,
                                   .summary = "moves channels to pixels of a larger image",
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t factor = 1;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct PixelUnshuffle {
  static constexpr OpTraits traits{.name = "pixel_unshuffle",
                                   .precision = Precision::match,
                                   .summary = "moves pixels to channels of a smaller image",
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = PixelShuffle::Attrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct Trace {
  static constexpr OpTraits traits{.name = "trace",
                                   .precision = Precision::match,
                                   .summary = "sum of a matrix's diagonal",
                                   .integers = Integers::keep,
                                   .booleans = true};
  static std::vector<Tensor> composite(Inputs in, const NoAttrs&);
};

using RearrangeOps = type_list<Diag, PixelShuffle, PixelUnshuffle, Trace>;

}  // namespace mezzo::op
