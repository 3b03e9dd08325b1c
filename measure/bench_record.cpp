// bench::record: trains nets with amp::Report.
#include <algorithm>

#include "../tensor/core/error.h"
#include "bench_run.h"
#include "report/report.h"

namespace mezzo::bench {

namespace {

/** Trains a net at one level and records it. */
void record_run(const Net& net, const Setting& setting, std::int64_t steps, amp::ReportFile& file) {
  Generator own{setting.seed};
  const OwnGenerator generator(own);
  const std::unique_ptr<Workload> workload = net.make(setting);
  amp::Report report(workload->training(), file,
                     {.title = net.name + " " + setting.level,
                      .group = net.name,
                      .every = std::max<std::int64_t>(2, steps / 20)});
  for (std::int64_t step = 0; step < steps; ++step) workload->step(step);
  report.close();
}

}  // namespace

std::vector<std::string> record(const std::vector<Net>& nets, amp::ReportFile& file,
                                const Options& options) {
  std::vector<std::string> failed;
  for (const Net& net : nets)
    for (const std::string& level : levels_of(options)) try {
        record_run(net, {.level = level, .device = options.device, .seed = options.seed},
                   options.steps, file);
      } catch (const std::exception& e) {
        failed.push_back(error_text(net.name + " " + level + " failed", {.what = e.what()}));
      }
  return failed;
}

}  // namespace mezzo::bench
