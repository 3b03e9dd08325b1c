// PackedSequence: sequences of different lengths without padding, for recurrent layers.
#pragma once

#include <cstdint>
#include <vector>

#include "../tensor/core/tensor.h"

namespace mezzo::nn {

/** A batch of sequences without padding: all first steps, then all second steps, and so on, with
 *  the longest sequence first. pack_padded_sequence() returns one. */
struct MZ_API PackedSequence {
  Tensor data;                            // [sum of lengths, ...]
  std::vector<std::int64_t> batch_sizes;  // number of sequences at each step; non-increasing
  /** Batch index of the i-th longest sequence; empty if the batch is sorted. */
  std::vector<std::int64_t> sorted_indices = {};

  /** Returns the position of each sequence of the batch in the sorted order; empty if
   *  sorted_indices is empty. */
  std::vector<std::int64_t> unsorted_indices() const;
  /** Returns the length of each sequence, in the batch's order. Errors: ValueError for inconsistent
   *  members. */
  std::vector<std::int64_t> lengths() const;

  /** Returns the sequence with its data converted. Mixed precision uses it to cast arguments. */
  PackedSequence to(DType dtype) const;
  /** Returns the sequence with its data on a device. */
  PackedSequence to(Device device) const;
};

/** Options of pack_padded_sequence(). */
struct PackOptions {
  bool batch_first = false;    // x is [N, T, ...] instead of [T, N, ...]
  bool enforce_sorted = true;  // requires non-increasing lengths; off: any order
};

/** Packs the valid steps of padded sequences.
 *  Shape: x [T, N, ...] with N lengths in 1..T.
 *  Precision: follows x, exact.
 *  Gradient: g at those steps, 0 in the padding.
 *  Errors: ShapeError below two dimensions; ValueError for a wrong number of lengths, a length out
 *  of range, and, with enforce_sorted, a length greater than the previous one. */
MZ_API PackedSequence pack_padded_sequence(const Tensor& x,
                                           const std::vector<std::int64_t>& lengths,
                                           const PackOptions& options = {});
/** Packs padded sequences with the lengths in an integer tensor [N]. Synchronises with the device.
 */
MZ_API PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths,
                                           const PackOptions& options = {});

/** Options of pad_packed_sequence(). */
struct PadPackedOptions {
  bool batch_first = false;       // the result is [N, T, ...] instead of [T, N, ...]
  double padding_value = 0;       // behind the end of a sequence
  std::int64_t total_length = 0;  // number of steps of the result; 0: of the longest sequence
};

/** A padded batch and the lengths of its sequences. */
struct PaddedSequence {
  Tensor output;                      // [T, N, ...], or [N, T, ...] with batch_first
  std::vector<std::int64_t> lengths;  // number of valid steps of each sequence
};

/** Returns the padded batch of a packed sequence, in its original order; the inverse of
 *  pack_padded_sequence().
 *  Shape: [T, N, ...], or [N, T, ...] with batch_first.
 *  Precision: follows the data, exact.
 *  Gradient: g at the valid steps.
 *  Errors: ValueError for a total_length below the longest sequence and for an inconsistent
 *  sequence. */
MZ_API PaddedSequence pad_packed_sequence(const PackedSequence& sequence,
                                          const PadPackedOptions& options = {});

namespace detail {

/** Packs a padded batch [T, N, ...], in the batch's order, with the lengths and order of `like`.
 *  Private to nn/. */
PackedSequence packed_like(const PackedSequence& like, const Tensor& x);

}  // namespace detail

}  // namespace mezzo::nn
