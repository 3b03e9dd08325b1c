// Reordering, repeating and selecting parts of tensors. All of these copy; views are methods of
// Tensor. ops.h explains the notation and the precision tags.
#pragma once

#include <optional>
#include <vector>

#include "../../core/op.h"
#include "../../core/tensor.h"
#include "../reduce/reduce.h"

namespace mezzo {

/** Returns a matrix of zeros with a vector as its diagonal, or a copy of the diagonal of a matrix.
 *  The diagonal is `diagonal` places right of the main one (left when negative).
 *  Precision: match, exact.
 *  Gradient: for a vector, the diagonal of g; for a matrix, zeros with g as the diagonal.
 *  Errors: ShapeError unless x is 1-D or 2-D. */
MZ_API Tensor diag(const Tensor& x, std::int64_t diagonal = 0);

/** Options of diff. */
struct DiffOptions {
  std::int64_t n = 1;     // how often differences are taken
  std::int64_t dim = -1;  // along this dimension
  Tensor prepend = {};    // put before x first, along dim
  Tensor append = {};     // put behind x first, along dim
};

/** Returns the differences x[i + 1] - x[i] along a dimension, n times; of bools, whether neighbours
 *  differ.
 *  Shape: x's, with n elements fewer along the dimension, at least none.
 *  Precision: match; prepend and append promote, as cat.
 *  Gradient: g[i - 1] - g[i], n times.
 *  Errors: ValueError for n < 0; ShapeError for a 0-dim tensor, and as cat; IndexError. */
MZ_API Tensor diff(const Tensor& x, const DiffOptions& options = {});

/** The order of meshgrid's dimensions. */
enum class MeshIndexing : std::uint8_t {
  ij,  // dimension i of the grids is along vector i
  xy,  // the first two dimensions are swapped: x to the right, y downwards
};

/** Options of meshgrid. */
struct MeshgridOptions {
  MeshIndexing indexing = MeshIndexing::ij;  // the order of the dimensions
};

/** Returns, for n vectors, n grids with a dimension for each vector: grid k has the elements of
 *  vector k along its dimension and does not vary along the others. The grids are views (expand).
 *  Shape: vectors [s_k], or 0-dim tensors, which count as [1]; grids [s_0, s_1, ...].
 *  Gradient: the sum of g over the other dimensions.
 *  Errors: ValueError for an empty list; ShapeError for other ranks; DtypeError and DeviceError for
 *  different ones. */
MZ_API std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors,
                                    const MeshgridOptions& options = {});

/** Rearranges x [..., c r^2, h, w] to [..., c, h r, w r]: channel c r^2 + i r + j becomes the
 *  pixels (i, j) of blocks of r x r.
 *  Precision: match, exact.
 *  Gradient: pixel_unshuffle of g.
 *  Errors: ShapeError; ValueError for a factor < 1.
 *  Source: arXiv:1609.05158. */
MZ_API Tensor pixel_shuffle(const Tensor& x, std::int64_t upscale_factor);
/** Rearranges x [..., c, h r, w r] to [..., c r^2, h, w]: the inverse of pixel_shuffle. */
MZ_API Tensor pixel_unshuffle(const Tensor& x, std::int64_t downscale_factor);

/** Options of repeat_interleave. */
struct RepeatInterleaveOptions {
  std::optional<std::int64_t> dim = {};  // along this dimension; not given: x is flattened first
  /** The sum of the repeats, which spares waiting for a device to read it. */
  std::optional<std::int64_t> output_size = {};
};

/** Returns x with each element along a dimension `repeats` times in a row: 1 2 becomes 1 1 2 2.
 *  Precision: match, exact.
 *  Gradient: the sum of g over the copies, in f32 (f64), rounded once.
 *  Errors: ValueError for negative repeats; IndexError for a bad dimension; SizeError. */
MZ_API Tensor repeat_interleave(const Tensor& x, std::int64_t repeats,
                                const RepeatInterleaveOptions& options = {});
/** Does the same with a number for each index along the dimension, or one for all: i64 or i32, [n],
 *  [1] or 0-dim. Waits for a device unless output_size is given.
 *  Errors: as above; ShapeError for other repeats; ValueError if they do not add up to
 *  output_size (on a GPU that is not checked). */
MZ_API Tensor repeat_interleave(const Tensor& x, const Tensor& repeats,
                                const RepeatInterleaveOptions& options = {});

/** Returns x repeated dims[i] times along its last dimensions: as repeat, but missing dims count as
 *  1. Errors: as repeat. */
MZ_API Tensor tile(const Tensor& x, const Shape& dims);

/** Returns the sum of a matrix's diagonal.
 *  Precision: match, summed in f32 (f64); integers give i64.
 *  Gradient: g on the diagonal.
 *  Errors: ShapeError unless x is 2-D. */
MZ_API Tensor trace(const Tensor& x);

}  // namespace mezzo

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
