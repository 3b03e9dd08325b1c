#include "rank_training.h"

#include <algorithm>
#include <ctime>
#include <functional>

#include "stopwatch.h"

namespace samples {

using namespace mezzo;

double process_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

RankTraining::RankTraining(const std::string& net, const Setting& setting,
                           const comm::Communicator& group)
    : workload_(make_workload(net, setting)) {
  if (group.size() == 1) return;
  for (const nn::Module& model : models())
    wrappers_.push_back(std::make_unique<nn::DistributedDataParallel<nn::Module>>(
        model, nn::DistributedDataParallelOptions{.comm = group}));
}

void RankTraining::step() {
  const double cpu = process_cpu_seconds();
  ms_.push_back(1e3 * seconds([&] { (void)workload_->step(steps_); }));
  cpu_ms_.push_back(1e3 * (process_cpu_seconds() - cpu));
  ++steps_;
}

void RankTraining::end_turn() {
  const nn::ReductionStatistics after = statistics();
  const auto steps = static_cast<std::int64_t>(ms_.size());
  const double ms_per_step = 1e3 / static_cast<double>(steps);
  times_.ms.push_back(median_of(ms_));
  times_.cpu_ms.push_back(median_of(cpu_ms_));
  times_.comm_ms.push_back(ms_per_step * (after.seconds - before_.seconds));
  times_.exposed_ms.push_back(ms_per_step * (after.exposed_seconds - before_.exposed_seconds));
  bytes_per_step_ = (after.bytes - before_.bytes) / steps;
  end_warm_up();
}

void RankTraining::end_warm_up() {
  ms_.clear();
  cpu_ms_.clear();
  before_ = statistics();
}

std::vector<nn::Module> RankTraining::models() const {
  std::vector<nn::Module> models;
  for (const auto& entry : workload_->training().model) models.push_back(*entry.object);
  return models;
}

nn::ReductionStatistics RankTraining::statistics() const {
  nn::ReductionStatistics sum;
  for (const auto& wrapper : wrappers_) {
    const nn::ReductionStatistics one = wrapper->statistics();
    sum.passes += one.passes;
    sum.bytes += one.bytes;
    sum.seconds += one.seconds;
    sum.exposed_seconds += one.exposed_seconds;
  }
  return sum;
}

void train_together(const comm::Communicator& all, RankTraining& training, std::int64_t steps) {
  all.barrier();
  for (std::int64_t i = 0; i < steps; ++i) training.step();
}

void train_alone(const comm::Communicator& all, RankTraining* training, std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) {
    if (training) training->step();
    all.barrier();
  }
}

namespace {

/** Returns combine(a, b) over the ranks' values of each turn. */
template <class F>
std::vector<double> over_ranks(const comm::Communicator& all, const std::vector<double>& values,
                               const F& combine) {
  const std::vector<double> gathered = all.gather(values);
  std::vector<double> result(gathered.begin(),
                             gathered.begin() + static_cast<std::ptrdiff_t>(values.size()));
  for (std::size_t i = values.size(); i < gathered.size(); ++i) {
    double& value = result[i % values.size()];
    value = combine(value, gathered[i]);
  }
  return result;
}

}  // namespace

std::vector<double> mean_over_ranks(const comm::Communicator& all,
                                    const std::vector<double>& values) {
  std::vector<double> result = over_ranks(all, values, std::plus<>());
  for (double& value : result) value /= all.size();
  return result;
}

std::vector<double> max_over_ranks(const comm::Communicator& all,
                                   const std::vector<double>& values) {
  return over_ranks(all, values, [](double a, double b) { return std::max(a, b); });
}

}  // namespace samples
