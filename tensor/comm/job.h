// Job: one operation of a communicator, in the queue of the thread that communicates.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../core/tensor.h"
#include "frame.h"
#include "transport.h"

namespace mezzo::comm::detail {

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
