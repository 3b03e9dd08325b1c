#include "distributed_data_parallel.h"

#include "../../tensor/comm/world.h"
#include "compare_ranks.h"
#include "data_parallel.h"

namespace mezzo::nn {

NoSync::NoSync(const std::shared_ptr<int>& scopes) : scopes_(scopes) {
  if (scopes_) ++*scopes_;
}

NoSync::NoSync(NoSync&& other) noexcept = default;

NoSync::~NoSync() {
  if (scopes_) --*scopes_;
}

DataParallelHandle::DataParallelHandle(const Module& model,
                                       const DistributedDataParallelOptions& options) {
  check(options);
  const comm::Communicator ranks = options.comm ? *options.comm : comm::init().all();
  if (ranks.size() > 1) parallel_.reset(new DataParallel(model, ranks, options));
}

DataParallelHandle::~DataParallelHandle() = default;

void DataParallelHandle::before_forward(bool training) const {
  if (parallel_ && training) parallel_->before_forward();
}

NoSync DataParallelHandle::no_sync() const {
  return NoSync(parallel_ ? parallel_->local_scopes() : nullptr);
}

ReductionStatistics DataParallelHandle::statistics() const {
  return parallel_ ? parallel_->statistics() : ReductionStatistics{};
}

void DataParallelHandle::close() { parallel_.reset(); }

}  // namespace mezzo::nn
