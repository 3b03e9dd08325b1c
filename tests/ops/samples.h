// Turns cases into operands (drawn values, dtypes, memory layouts) and results into plain arrays.
#pragma once

#include "../support/same_bits.h"
#include "cases.h"

namespace cases {

using mezzo::testing::Agreement;
using mezzo::testing::all_agree, mezzo::testing::same_bits, mezzo::testing::same_numbers;
using mezzo::testing::test_device;  // the device of to_tensor()'s operands

/** How far a test evaluates a case. */
enum class Depth { values, gradients, second_gradients };

/** Returns whether the case can run on the test device: always on the CPU; elsewhere if no kernel
 *  is missing, including those of its gradients. */
bool runs_here(const Case& c, Depth depth);

/** Returns whether this process runs the case: always, or for every n-th case where the environment
 *  variable MEZZO_TEST_SHARD is k/n. Tests that ask this have the tag [sharded], which tests/gpu.sh
 *  runs in all processes; it divides the other tests among them. */
bool in_shard(const Case& c);

/** Returns how many processes share the cases: n of MEZZO_TEST_SHARD. */
std::size_t shard_count();

/** The memory layouts that an operand is tested in; values are the same in all. */
enum class Layout { contiguous, transposed, offset_and_step, channels_last };

/** Draws operand values for a sample, reproducibly from (case, sample, operand, redraw). Gradient
 *  checks need values away from kinks. */
std::vector<Array> draw(const Case& c, std::size_t sample, bool away_from_kinks,
                        std::size_t redraw = 0);

/** Returns the operand as a tensor of `dtype` (integers and masks keep theirs) in the given
 *  layout. */
Tensor to_tensor(const Array& x, const Operand& operand, DType dtype,
                 Layout layout = Layout::contiguous);

std::vector<Tensor> to_tensors(const Case& c, const std::vector<Array>& x, DType dtype,
                               Layout layout = Layout::contiguous);

Array to_array(const Tensor& x);

/** Returns the values after rounding to the dtype, as input of the oracle. */
std::vector<Array> to_arrays(const std::vector<Tensor>& x);

/** Returns the samples of a case: its own shapes or the default ones for its number of operands. */
const std::vector<std::vector<Shape>>& samples_of(const Case& c);

/** One gradient check: a case's sample in a layout, with its own values. */
struct GradientSample {
  std::size_t sample;
  Layout layout;
  std::size_t redraw;
};

/** The minimum number of gradient checks per op, over all of its cases. */
inline constexpr std::size_t kGradientSamplesPerOp = 10;

/** Returns every sample of the case, repeated in other layouts with other values until the op has
 *  enough of them. */
std::vector<GradientSample> gradient_samples(const Case& c);

struct Tolerance {
  double rtol, atol;
};
Tolerance tolerance_of(DType dtype);

/** Describes the first difference; empty where the arrays agree within tolerance. nan equals nan,
 *  inf equals inf of the same sign. */
std::string difference(const Array& got, const Array& expected, Tolerance tolerance);

std::string label(const Case& c, std::size_t sample);

}  // namespace cases
