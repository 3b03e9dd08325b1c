// DistributedDataParallel: several processes train copies of one model on different data, and
// reduce its gradients while backward() computes them.
// See also: tensor/comm/world.h (how processes find each other).
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "../../tensor/comm/communicator.h"
#include "../../tensor/core/pointers.h"
#include "../module.h"

namespace mezzo::nn {

/** The dtype in which gradients are summed. */
enum class ReduceDtype : std::uint8_t {
  /** 16-bit gradients are sent in 16 bits, summed in f32 and rounded once. Others are summed in
   *  their dtype. */
  automatic,
  /** In the gradient's dtype, rounded after each addition: bit for bit as in one process that
   *  accumulates the gradients. */
  same,
  /** 16-bit gradients are sent and summed in f32. With f32 master weights the sums go to the
   *  masters without rounding. */
  f32,
};

/** When the buffers of rank 0, such as running statistics, replace those of the other ranks. */
enum class BroadcastBuffers : std::uint8_t {
  at_construction,  // only once
  each_forward,     // also before each call in training mode
};

/** What happens if the loss does not depend on a parameter. */
enum class UnusedParameters : std::uint8_t {
  allow,   // it counts as zero; unused on all ranks, its gradient stays as it was
  refuse,  // StateError on all ranks
};

/** Options of nn::DistributedDataParallel; equal on all ranks. Names in comments: PyTorch's or
 *  apex's. */
struct DistributedDataParallelOptions {
  std::optional<comm::Communicator> comm = {};  // the ranks; none: all of comm::init()
  std::optional<double> bucket_mib = {};        // bucket_cap_mb; none: 4 on the CPU, 25 on GPUs
  double first_bucket_mib = 1;                  // of the bucket that is complete first
  bool overlap = true;                          // off: reduce when backward has computed all
                                                // gradients (delay_allreduce)
  std::vector<Tensor> triggers = {};  // parameters whose gradients complete a bucket, instead of
                                      // bucket_mib (allreduce_trigger_params)
  ReduceDtype reduce_dtype = ReduceDtype::automatic;  // dtype of the sums (allreduce_always_fp32)
  bool average = true;  // divide sums by the number of ranks (gradient_average)
  std::optional<double> predivide_factor = {};  // divides gradients before the sum; the rest of the
                                                // average follows (gradient_predivide_factor).
                                                // none: 1; for f16 sums a power of two near
                                                // sqrt(ranks), so that they do not overflow
  std::optional<comm::Order> order = {};        // none: Order::ranks on the CPU with up to 16 ranks
  bool gradients_are_views = true;              // gradients stay in the memory of their bucket
                                                // (gradient_as_bucket_view)
  BroadcastBuffers broadcast_buffers = BroadcastBuffers::at_construction;  // when rank 0 sends
  /** Whether the loss may be independent of a parameter (find_unused_parameters). */
  UnusedParameters unused = UnusedParameters::allow;
  bool static_graph = false;       // every backward uses the same parameters: from the third on,
                                   // ranks do not compare what they reduce
  bool own_random_streams = true;  // moves this thread's default generator to a stream of the rank
};

/** What the reductions of a model's gradients have cost this rank since it was wrapped. Waits for
 *  slower ranks count as exposed; the messages that compare ranks do not count as `seconds`. */
struct ReductionStatistics {
  std::int64_t passes = 0;  // backward passes that reduced gradients
  std::int64_t bytes = 0;   // size of the reduced gradients, in the dtypes in which they are sent
  double seconds = 0;       // in which buckets of gradients were reduced
  double exposed_seconds = 0;  // in which backward() had computed all gradients and waited
};

class DataParallel;

/** Until the end of this scope, gradients of backward passes stay local. May outlive the wrapper.
 */
class MZ_API NoSync {
 public:
  /** `scopes`: the wrapper's number of open scopes; null: one rank. */
  explicit NoSync(const std::shared_ptr<int>& scopes);
  ~NoSync();
  /** Takes over the scope; destroying `other` then does nothing. */
  NoSync(NoSync&& other) noexcept;
  NoSync& operator=(NoSync&&) = delete;  // Not assignable.

 private:
  Shared<int> scopes_;
};

/** The part of DistributedDataParallel that does not depend on the model's type. */
class MZ_API DataParallelHandle {
 public:
  /** Wraps a model; collective. Errors: as DistributedDataParallel. */
  DataParallelHandle(const Module& model, const DistributedDataParallelOptions& options);
  ~DataParallelHandle();
  DataParallelHandle(const DataParallelHandle&) = delete;             // Not copyable.
  DataParallelHandle& operator=(const DataParallelHandle&) = delete;  // Not copyable.

  /** Broadcasts buffers in training mode, if the options say so. */
  void before_forward(bool training) const;
  /** See DistributedDataParallel. */
  NoSync no_sync() const;
  /** See DistributedDataParallel. */
  ReductionStatistics statistics() const;
  /** See DistributedDataParallel. */
  void close();

 private:
  Owner<DataParallel> parallel_;  // null: one rank, or closed
};

/** A model that is trained by several processes ("ranks"), each with its own data:
 *    const comm::World world = comm::init();
 *    Net model;
 *    optim::AdamW optimizer(model.parameters());
 *    auto session = amp::initialize(model, optimizer, {.opt_level = "O2"});
 *    nn::DistributedDataParallel net(model);
 *  It is a handle to the same model: calls, parameters and names in state_dict() are the model's.
 *
 *  The constructor compares the ranks' models, levels and options, and gives all ranks the weights
 *  and buffers of rank 0, masters included. When backward() returns, gradients are averages over
 *  the ranks (sums with average = false); grad() and passes that begin under no_sync() reduce
 *  nothing. Every contribution is reduced once: a second backward() without zero_grad() adds the
 *  average of what it computed. Hooks of register_hook see the gradients of this rank, those of
 *  register_post_accumulate_grad_hook the reduced ones.
 *
 *  Mixed precision: construct it after amp::initialize. scale_loss and GradScaler reach one verdict
 *  on all ranks: an overflow on one rank skips the step on all. 16-bit gradients with f32 masters
 *  are divided by the number of ranks when scale_loss unscales them; until then they are sums.
 *
 *  In a group of one rank it does nothing. Nothing may change dtype, device or requires_grad of a
 *  parameter while it lives.
 *
 *  Errors: CommError if the ranks disagree or one of them failed; ValueError for an invalid option;
 *  StateError if the model is wrapped already. backward() throws StateError after such a change,
 * and Unsupported with create_graph. */
template <class M> class DistributedDataParallel : public M {
 public:
  /** Wraps a model; collective. */
  explicit DistributedDataParallel(const M& wrapped,
                                   const DistributedDataParallelOptions& wrapper_options = {})
      : M(wrapped), handle_(*this, wrapper_options) {
    this->set_parallel_wrapper(true);
  }
  ~DistributedDataParallel() { close(); }

  /** Calls the model. */
  template <class... Args> decltype(auto) operator()(Args&&... args) const {
    handle_.before_forward(this->training());
    return static_cast<const M&>(*this)(std::forward<Args>(args)...);
  }

  /** Returns a scope in which backward() leaves gradients local, to accumulate them. The next pass
   *  after it reduces the local sum whole. A gradient that was reduced before is put aside
   *  meanwhile. With a loss scale or masters, scale_loss needs delay_unscale in the scope. step()
   *  with local gradients is a StateError.
   *    { const auto local = net.no_sync(); loss(net(x0), y0).backward(); }
   *    loss(net(x1), y1).backward(); */
  [[nodiscard]] NoSync no_sync() const { return handle_.no_sync(); }

  /** Returns what the reductions have cost so far; zeros in a group of one rank and after close().
   *  The difference of two results is the cost of the passes between them. */
  ReductionStatistics statistics() const { return handle_.statistics(); }

  /** Detaches from the model, whose gradients get memory of their own. Backward passes are local
   *  then. */
  void close() {
    handle_.close();
    if (std::exchange(is_attached_, false)) this->set_parallel_wrapper(false);
  }

 private:
  bool is_attached_ = true;
  DataParallelHandle handle_;
};

}  // namespace mezzo::nn
