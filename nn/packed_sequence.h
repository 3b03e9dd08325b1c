// PackedSequence: sequences of different lengths without padding, as recurrent layers take them.
// Sees: autograd.
// Read next: recurrent.h (who takes it), packed_sequence.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "../tensor/tensor.h"

namespace mezzo::nn {

/** All first steps of a batch of sequences, then all second steps, and so on, the longest sequence first. Made by pack_padded_sequence(). */
struct MZ_API PackedSequence {
  Tensor data;                            // [sum of lengths, ...]
  std::vector<std::int64_t> batch_sizes;  // how many sequences have each step; never grows
  std::vector<std::int64_t> sorted_indices =
      {};  // which sequence of the batch is the i-th longest; empty: they came in this order

  /** The place of each sequence of the batch among those sorted; empty as sorted_indices. */
  std::vector<std::int64_t> unsorted_indices() const;
  /** The length of each sequence, in the batch's order. Errors: ValueError where the numbers above contradict each other. */
  std::vector<std::int64_t> lengths() const;

  /** The same with the data converted: what mixed precision does to an argument. */
  PackedSequence to(DType dtype) const;
  PackedSequence to(Device device) const;
};

struct PackOptions {
  bool batch_first = false;    // x is [N, T, ...] instead of [T, N, ...]
  bool enforce_sorted = true;  // the lengths must not grow; off: any order, which is remembered
};

/** The steps of padded sequences that exist. Shape: x [T, N, ...] with N lengths in 1..T.
 *  Precision: follows x, exact.   Gradient: g at those steps, 0 in the padding.
 *  Errors: ShapeError below two dimensions; ValueError for another number of lengths, one out of range, and, with enforce_sorted, one greater than
 *  the one before. */
MZ_API PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<std::int64_t>& lengths,
                                           const PackOptions& options = {});
/** The same with the lengths in a tensor of integers [N]. Synchronises with the device. */
MZ_API PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths,
                                           const PackOptions& options = {});

struct PadPackedOptions {
  bool batch_first = false;
  double padding_value = 0;
  std::int64_t total_length = 0;  // number of steps of the result; 0: of the longest sequence
};

struct PaddedSequence {
  Tensor output;
  std::vector<std::int64_t> lengths;
};

/** The inverse: the batch in its first order, padded. Shape: [T, N, ...], or [N, T, ...] with batch_first.
 *  Precision: follows the data, exact.   Gradient: g at the steps that exist.
 *  Errors: ValueError for a total_length below the longest sequence, and for a sequence that contradicts itself. */
MZ_API PaddedSequence pad_packed_sequence(const PackedSequence& sequence,
                                          const PadPackedOptions& options = {});

namespace detail {

/** A padded batch [T, N, ...] in the batch's order, packed as `like` is. Private to this room. */
PackedSequence packed_like(const PackedSequence& like, const Tensor& x);

}  // namespace detail

}  // namespace mezzo::nn
