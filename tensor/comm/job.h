// Job: one operation of a communicator, in the queue of the thread that communicates; and the frame
// of its messages.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../core/dtype.h"
#include "../core/macros.h"
#include "../core/tensor.h"
#include "reduction.h"
#include "transport.h"

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

/** The ranks of a communicator. */
struct Group {
  int id = 0;    // Transfer::group
  int rank = 0;  // this process, in this group
  int size = 1;
  std::vector<int> world_ranks;  // of each rank of the group
  // Written by the thread that submits:
  std::uint32_t operations = 0;  // submitted so far
  std::int64_t rounds = 0;       // begun so far
  std::string round;             // the round that is open: "backward 12"; empty between rounds
};

/** What a plan may use while it runs. */
struct PlanContext {
  const Group& group;
  std::span<const Frame> frames;    // of all ranks; empty for a job that is not checked
  std::vector<std::byte>& scratch;  // memory that is kept between jobs
  std::int64_t max_count;           // elements per block of a transfer
  Transport& transport;
};

/** The steps of an operation after its frames were exchanged. */
class Plan {
 public:
  virtual ~Plan() = default;
  /** Does the local work that is due and sets the next transfer. Returns false when nothing is
   *  left to transfer. Called first, and again after each transfer. */
  virtual bool next(PlanContext& context, Transfer& transfer) = 0;
};

/** One operation in the queue. */
struct Job {
  Frame frame;
  bool checked = true;                         // frames are exchanged and compared first
  std::string label;                           // for messages; empty: describe(frame)
  std::string round;                           // the round that it belongs to
  std::shared_ptr<const std::string> details;  // of a round, compared line by line
  std::shared_ptr<Group> group;
  std::unique_ptr<Plan> plan;  // null: the frames are all
  Tensor in, out;              // kept until the transfers are over

  std::atomic<bool> finished{false};
  // May be read once `finished` is set:
  std::exception_ptr error;
  double seconds = 0;  // Pending::seconds()
};

}  // namespace mezzo::comm::detail
