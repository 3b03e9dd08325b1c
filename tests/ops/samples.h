// Turns cases into operands: values drawn per operand, dtypes, awkward memory layouts; and results into plain arrays.
// Sees: cases.h, ../support/device.h.
// Read next: the tests beside it, one file per property.
#pragma once

#include "../support/device.h"
#include "cases.h"

namespace cases {

using mezzo::testing::test_device;  // where to_tensor() makes operands

/** How much of a case a test asks for. */
enum class Depth { values, gradients, second_gradients };

/** Whether the case can be run on the test device: everywhere on the CPU; elsewhere where no kernel is missing, its gradients' included. */
bool runs_here(const Case& c, Depth depth);

/** Whether this process runs the case: all of them, or every n-th where the environment's MEZZO_TEST_SHARD is k/n. */
bool in_shard(const Case& c);

/** How many processes share the cases: n of MEZZO_TEST_SHARD. */
std::size_t shard_count();

/** The memory layouts an operand is tried in; values are the same in all. */
enum class Layout { contiguous, transposed, offset_and_step, channels_last };

/** Operand values for a sample, reproducible from (case, sample, operand, redraw). Gradient checks ask for values away from kinks. */
std::vector<Array> draw(const Case& c, std::size_t sample, bool away_from_kinks, std::size_t redraw = 0);

/** The operand as a tensor of `dtype` (integers and masks keep their own), in the given layout. */
Tensor to_tensor(const Array& x, const Operand& operand, DType dtype, Layout layout = Layout::contiguous);

std::vector<Tensor> to_tensors(const Case& c, const std::vector<Array>& x, DType dtype,
                               Layout layout = Layout::contiguous);

Array to_array(const Tensor& x);

/** Values as they are after rounding to the dtype: what the oracle is to be asked about. */
std::vector<Array> to_arrays(const std::vector<Tensor>& x);

/** The samples of a case: its own shapes or the usual ones for its number of operands. */
const std::vector<std::vector<Shape>>& samples_of(const Case& c);

/** One gradient check: a case's sample in a layout, with values of its own. */
struct GradientSample {
  std::size_t sample;
  Layout layout;
  std::size_t redraw;
};

/** At least this many gradient checks an op, over all of its cases. */
inline constexpr std::size_t kGradientSamplesPerOp = 10;

/** Every sample of the case, again in other layouts with other values until the op has enough of them. */
std::vector<GradientSample> gradient_samples(const Case& c);

struct Tolerance {
  double rtol, atol;
};
Tolerance tolerance_of(DType dtype);

/** Empty when the arrays agree within tolerance; otherwise where they do not. nan equals nan, inf equals inf of the same sign. */
std::string difference(const Array& got, const Array& expected, Tolerance tolerance);

/** Same shape, dtype and bits. */
bool same_bits(const Tensor& a, const Tensor& b);

std::string label(const Case& c, std::size_t sample);

}  // namespace cases
