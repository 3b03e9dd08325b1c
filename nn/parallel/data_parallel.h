// DataParallel: reduces the gradients of a model over several processes. Implements
// DistributedDataParallel in a group of more than one rank.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../../autograd/gradient_mark.h"
#include "../../autograd/gradient_receiver.h"
#include "../../optim/step/tensor_list.h"
#include "bucket_plan.h"
#include "distributed_data_parallel.h"

namespace mezzo::nn {

/** The arithmetic around a sum of gradients, which depends on their dtype alone. */
class Averaging {
 public:
  Averaging(const DistributedDataParallelOptions& options, int ranks)
      : options_(options), ranks_(ranks) {}

  /** Returns true if 16-bit gradients of this dtype are added in f32. */
  bool sums_in_f32(DType dtype) const;
  /** Returns the divisor of gradients before the sum. */
  double predivide(DType dtype) const;
  /** Returns the factor that turns the sum into the average. */
  double factor_after(DType dtype) const;

 private:
  const DistributedDataParallelOptions options_;
  const int ranks_;
};

/** Takes the gradients of a model's parameters, copies them into buckets, and reduces each bucket
 * as soon as it and those before it are full, while backward() goes on. */
class DataParallel final : public GradientReceiver {
 public:
  /** Compares the ranks, broadcasts the weights of rank 0 and receives the gradients of `model`. */
  DataParallel(const Module& model, const comm::Communicator& ranks,
               const DistributedDataParallelOptions& options);
  ~DataParallel();

  /** Returns the number of scopes in which the gradients of passes stay local. */
  const std::shared_ptr<int>& local_scopes() const { return local_scopes_; }
  /** Returns what the passes so far have cost. */
  const ReductionStatistics& statistics() const { return statistics_; }
  /** Broadcasts buffers, if the options say so. */
  void before_forward() const;

  // ---- GradientReceiver -------------------------------------------------------------------------
  void begin_backward(std::span<const std::size_t> indices) override;
  bool receive(std::size_t index, Tensor& gradient) override;
  bool has_unreduced(std::size_t index) const override;
  ReceivedGradient received(std::size_t index) const override;
  void drop_local(std::size_t index) override;
  const std::string& name(std::size_t index) const override { return params_[index].name; }
  const comm::Communicator& ranks() const override { return ranks_; }
  std::vector<double> gather(std::span<const double> numbers) override;
  std::optional<bool> found_local_overflow() override;

 private:
  /** A parameter whose gradients are reduced. */
  struct Param {
    std::string name;
    Tensor leaf;
    DType dtype;             // at construction
    DType reduce_dtype;      // of its bucket
    std::size_t bucket = 0;  // its place
    Tensor slot = {};        // its memory in the bucket, shaped as the leaf
    bool expected = false;   // its gradient is to come in this pass
    bool present = false;    // this rank has a gradient in this pass, maybe an older local one
    bool unreduced = false;  // the leaf's gradient is local
    Tensor earlier = {};     // reduced gradient, put aside while the leaf's is local
    GradientMark earlier_mark = {};
    Tensor wide = {};  // f32 sum that belongs to the leaf's 16-bit gradient

    /** Drops the state of a replaced gradient. */
    void forget() {
      unreduced = false;
      earlier = wide = {};
      earlier_mark = {};
    }
    void forget_dropped();
  };
  /** A bucket and its state in this pass. */
  struct Bucket {
    BucketPlan plan;
    std::string label = {};   // for messages
    Tensor memory = {};       // one-dimensional; undefined for a single gradient
    std::size_t missing = 0;  // gradients that are to come
    comm::Pending pending = {};
    bool is_sent = false;
  };
  /** What the ranks compare when a pass begins. */
  struct RoundText {
    std::shared_ptr<const std::string> lines = {};
    std::uint64_t signature = 0;  // of the lines
  };

  static constexpr std::string_view kOp = "DistributedDataParallel";

  // construction
  void add_params(const Module& model);
  void plan(std::span<const std::size_t> order);
  std::string label_of(std::size_t bucket) const;
  std::string plan_text() const;

  // a pass: data_parallel_pass.cpp
  void require_unchanged() const;
  void begin_round();
  void open_pass(std::span<const std::size_t> indices);
  void prepare_memory(Bucket& bucket);
  bool is_in_use(const Bucket& bucket) const;
  static GradientMark mark_of_sum(const Param& param);
  void keep_local(std::size_t index);
  void restore_put_aside();
  void write(Param& param, Tensor gradient);
  void adopt(Param& param, Tensor gradient, const Tensor& local);
  void combine(const optim::AxpbyTensors& item, const Param& param) const;
  void fill_absent(Param& param);
  void allocate_slot(Param& param) const;
  void add_again(Param& param, const Tensor& gradient);
  void arrive(std::size_t index);
  void send_full_buckets();
  void send(Bucket& bucket);
  void end_pass(const std::exception_ptr& failure);
  void finish_pass();
  void count_pass(std::chrono::duration<double> waited);
  std::vector<bool> used_anywhere();
  void log_unused(const std::vector<bool>& used);
  void deliver(Param& param);
  void close_pass();
  void reset_pass();
  std::vector<std::size_t> order_of_arrival() const;

  bool has_masters() const;
  bool averages_in_scope(const Param& param) const;
  bool keeps_wide(const Param& param) const;

  const Module model_;
  const comm::Communicator ranks_;
  const DistributedDataParallelOptions options_;
  const Averaging averaging_;
  std::vector<Param> params_;
  std::vector<NamedTensor> frozen_;  // parameters that required no gradient at construction
  std::vector<Bucket> buckets_;
  RoundText first_round_, further_round_;
  const std::shared_ptr<int> local_scopes_ = std::make_shared<int>(0);
  bool holds_reduced_ = false;          // the leaves may have reduced gradients
  std::vector<std::size_t> put_aside_;  // gradients that a local pass has put aside
  bool is_open_ = false;                // a pass runs
  bool sends_early_ = false;            // buckets of this pass need not wait for its end
  std::size_t next_sent_ = 0;
  ReductionStatistics statistics_;
  bool logged_unused_ = false;
  bool has_checked_ = false;      // in all passes since overflow_ was reset
  bool checks_ = false;           // loss scaling is active: check for overflow
  bool resets_overflow_ = false;  // in the next pass
  optim::FoundInf overflow_ = optim::FoundInf::reset_on(cpu);  // of this rank's gradients
  std::vector<std::size_t> arrivals_;                          // order in the first pass
};

}  // namespace mezzo::nn
