// Communicator: collective operations on tensors, between processes that work together; Mean: the
// mean of numbers that are spread over them.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../core/macros.h"
#include "../core/pointers.h"
#include "../core/tensor.h"
#include "reduction.h"

namespace mezzo::comm {

namespace detail {
struct Engine;
struct Frame;
struct Group;
struct Job;
}  // namespace detail

/** Options of all_reduce() and reduce_scatter(). */
struct ReduceOptions {
  Op op = Op::sum;                  // how elements are combined
  std::optional<Order> order = {};  // none: Order::ranks on the CPU with up to 16 ranks, else fast
  bool f32_sum = false;  // sums of 16-bit elements are made in f32 and rounded once; needs
                         // Order::ranks. Otherwise they are rounded after each addition
  double factor = 1;     // multiplies the result: of f32_sum before it is rounded; only 1 for
                         // integers. Computed in f32, f64 for f64
  bool checked = true;   // all ranks first compare what they call: a mismatch is an error instead
                         // of wrong numbers or a hang. Costs a message of 64 bytes
  std::string_view label = {};  // what the data is, for messages: "bucket 3 of 7"
};

/** Options of the other collectives. */
struct MoveOptions {
  bool checked = true;          // as in ReduceOptions
  std::string_view label = {};  // as in ReduceOptions
};

/** A collective operation that is under way. Its tensors must not be read or written before wait().
 *  Dropping it does not cancel the operation. */
class MZ_API Pending {
 public:
  /** A finished operation. */
  Pending() = default;
  /** Internal. */
  explicit Pending(const std::shared_ptr<detail::Job>& job);

  /** Returns when the operation is done on this rank. Errors: CommError. */
  void wait();
  /** Returns true if wait() would return or throw at once. */
  bool done() const;
  /** Returns how long the operation ran, after wait(): from its turn in the queue to its end, with
   *  the time in which it waited for other ranks. 0 for an operation that was finished at once. */
  double seconds() const;

 private:
  Shared<detail::Job> job_;  // null: was finished at once
};

/** What a round consists of. All ranks must begin equal rounds in the same order. */
struct Round {
  std::string_view kind;        // "backward", "checkpoint"; up to 31 characters
  std::uint64_t signature = 0;  // hash of all that has to be equal on all ranks; see signature_of()
  std::shared_ptr<const std::string> details = {};  // what was hashed, as lines: an error shows the
                                                    // first that differs
};

/** Returns a hash of a text, the same on all machines (FNV-1a). */
MZ_API std::uint64_t signature_of(std::string_view text);

/** A group of processes ("ranks"). Every rank of the group makes the same calls in the same order.
 *
 *  Operations on the CPU run on a thread of their own, in the order of the calls. In a group of one
 *  they are done at once: nothing is loaded, started or allocated. Tensors have to be dense; they
 *  are f16, bf16, f32, f64, i32, i64 or u8, and also bool where nothing is computed. Tensors on a
 *  GPU are copied through the host's memory and are ready on return. What is received is outside
 *  the graph: no gradient flows through a collective.
 *
 *  Errors of all functions: CommError if the ranks disagree, or another rank failed, ended or did
 *  not answer in time; every later call throws it again. ShapeError, DtypeError, DeviceError,
 *  ValueError and IndexError for arguments, before anything is sent. Copies are handles to the same
 *  group; one thread at a time may use a group. */
class MZ_API Communicator {
 public:
  /** A group of this process alone. */
  Communicator() = default;

  /** Returns this process's number in the group, from 0. */
  int rank() const;
  /** Returns the number of processes in the group. */
  int size() const;

  /** Combines the elements of all ranks' `x`, in place; all ranks get the same values, bit for bit
   *  with Order::ranks. */
  Pending all_reduce(const Tensor& x, const ReduceOptions& options = {}) const;
  /** Combines all ranks' `x` and gives each rank its slice: `out` gets elements rank * n to
   *  rank * n + n, where n is its size. `x` has size() * n elements in row-major order. */
  Pending reduce_scatter(const Tensor& x, const Tensor& out,
                         const ReduceOptions& options = {}) const;
  /** Sets `out` to all ranks' `x`, one after the other in row-major order. */
  Pending all_gather(const Tensor& x, const Tensor& out, const MoveOptions& options = {}) const;
  /** Overwrites `x` with that of rank `root`. */
  Pending broadcast(const Tensor& x, int root = 0, const MoveOptions& options = {}) const;
  /** Sends the r-th of size() equal parts of `x` to rank r, and sets the r-th part of `out` to what
   *  rank r sent. */
  Pending all_to_all(const Tensor& x, const Tensor& out, const MoveOptions& options = {}) const;

  /** Returns when all ranks have called it. */
  void barrier() const;
  /** Returns the sum over all ranks, added in the order of the ranks: the same on all. */
  double sum(double value) const;
  /** Returns the maximum over all ranks; NaN if one of them has NaN. */
  double max(double value) const;
  /** Returns the numbers of all ranks, one rank after the other. All pass equally many; up to four
   *  cost one message. */
  std::vector<double> gather(std::span<const double> values) const;
  /** Returns the texts of all ranks. */
  std::vector<std::string> gather_text(std::string_view text) const;

  /** Makes groups of the ranks that pass the same color, numbered in the order of `key`, then of
   *  rank(). Groups live until the end of the process. Errors: ValueError for a negative color. */
  Communicator split(int color, int key = 0) const;

  /** Begins a round, for example a backward pass: a sequence of operations that all ranks make. The
   *  ranks compare number, kind and signature, in the queue before all that is submitted later, so
   *  no data of different rounds is mixed. The result need not be waited for. */
  Pending begin_round(const Round& round) const;
  /** Ends the round: errors no longer name it. */
  void end_round() const;
  /** Tells all ranks that an exception ended the round here: their calls throw a CommError with its
   *  text. Later calls of this rank throw as well. */
  void leave_round(const std::exception_ptr& why) const;

 private:
  friend class World;
  Communicator(detail::Engine* engine, const std::shared_ptr<detail::Group>& group);

  bool alone() const { return size() == 1; }
  Pending reduce(detail::Frame& frame, const Tensor& in, const Tensor& out,
                 const ReduceOptions& options) const;
  Pending transfer(detail::Frame& frame, const Tensor& in, const Tensor& out, std::int64_t count,
                   const MoveOptions& options) const;
  std::shared_ptr<detail::Job> new_job(detail::Frame& frame) const;
  void submit(std::shared_ptr<detail::Job> job) const;

  detail::Engine* engine_ = nullptr;  // null: a group of this process alone
  Shared<detail::Group> group_;
};

/** The mean of numbers that the ranks of a group add, such as the accuracy of an evaluation. */
class MZ_API Mean {
 public:
  /** A mean over the ranks of a group; nothing is added yet. */
  explicit Mean(Communicator group) : group_(std::move(group)) {}

  /** Adds `count` numbers of this rank by their sum, for example the number of right answers to
   *  `count` questions. A batch of no samples adds nothing, also where its mean times 0 is NaN.
   *  Errors: ValueError for a negative count, and for a count of 0 with a sum that is neither 0 nor
   *  NaN. */
  void add(double sum, std::int64_t count);

  /** Returns the mean over all ranks; NaN if nothing was added. All ranks call it and get the same
   *  bits. Precision: the ranks' sums are added in f64, in the order of the ranks, and divided
   * once: sums of integers are exact below 2^53. */
  double value() const;

  /** Removes what this rank has added. */
  void reset() { sum_ = count_ = 0; }

 private:
  Communicator group_;
  double sum_ = 0, count_ = 0;  // of this rank
};

/** Runs `work` on each rank and waits for all. If it throws on a rank, it throws on all: on the
 *  others an IoError that names the rank and quotes the text. */
MZ_API void on_all_ranks(const Communicator& ranks, std::string_view op,
                         const std::function<void()>& work);

}  // namespace mezzo::comm
