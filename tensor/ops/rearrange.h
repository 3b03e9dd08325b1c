// Composites of shape ops: diag, diff, pixel_shuffle, pixel_unshuffle,
// repeat_interleave, tile, trace.
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

/** Differences of neighbours along `dim`, taken n times. */
struct Diff {
  static constexpr OpTraits traits{.name = "diff",
                                   .precision = Precision::match,
                                   .summary = "differences of neighbouring elements",
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t n = 1, dim = -1;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Each element of operand 0 `times` times in a row; operand 1, if defined, has the number of times
 *  for each index of `dim`, `total` in all. */
struct RepeatInterleave {
  static constexpr OpTraits traits{.name = "repeat_interleave",
                                   .precision = Precision::match,
                                   .summary = "repeats each element in place",
                                   .inputs = 2,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t times = 1, total = 0;
    int dim = 0;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** As Repeat; dimensions that `dims` does not name are not repeated. */
struct Tile {
  static constexpr OpTraits traits{.name = "tile",
                                   .precision = Precision::match,
                                   .summary = "repeats a tensor along its last dimensions",
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    Shape dims;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using RearrangeOps =
    type_list<Diag, Diff, PixelShuffle, PixelUnshuffle, RepeatInterleave, Tile, Trace>;

}  // namespace mezzo::op
