// Frame: the first message of an operation, by which the ranks find out whether all of them call
// the same one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "../core/dtype.h"
#include "../core/macros.h"
#include "reduction.h"

namespace mezzo::comm::detail {

/** What an operation of a communicator does. */
enum class FrameKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all,
  barrier,
  text,  // gathers texts of different lengths
  split,
  round,  // the start of a round, named by the first bytes of the payload
  end,    // the end of the program
};

/** A description of an operation, compared between ranks, and a few bytes of its data. */
struct Frame {
  FrameKind kind = FrameKind::barrier;
  Op op = Op::sum;
  DType dtype = DType::u8;
  std::uint8_t order = 0;               // 0: fast, 1: ranks, 2: ranks with f32 sums
  std::uint32_t sequence = 0;           // number of operations of the communicator before this one
  std::int64_t count = 0;               // elements of the input, whole; 1 for a round with details
  std::int64_t number = 0;              // root of a broadcast; number of a round
  std::uint64_t signature = 0;          // of a round; the bits of a reduction's factor
  std::array<std::byte, 32> payload{};  // compared only in rounds
};
static_assert(sizeof(Frame) == 64);

/** Returns the factor of a reduction. */
double factor_of(const Frame& frame);
/** Sets the factor of a reduction. */
void set_factor(Frame& frame, double factor);

/** Returns "all_reduce(sum) of f32 x 4, operation 7" or "backward 12". */
std::string describe(const Frame& frame);

/** Returns the text of the error for frames that differ; nothing if all are the same. Frames are in
 *  the order of the ranks. */
MZ_API std::optional<std::string> mismatch(std::span<const Frame> frames);

/** Returns true if the frames are those of one round and only the signatures differ. */
bool only_signatures_differ(std::span<const Frame> frames);

}  // namespace mezzo::comm::detail
