#include "gpu_model.h"

#include <cmath>

#include "../../measure/work_count.h"
#include "../common/table.h"

namespace samples {

namespace {

using mezzo::Roof;

mezzo::StepWork second_step(Workload& workload) {
  workload.step(0);
  const mezzo::WorkCount count;
  workload.step(1);
  mezzo::StepWork work = count.work();
  for (const auto& optimizer : workload.training().optimizer) work.add_update(*optimizer.object);
  return work;
}

GpuPrediction predict(const std::string& net, const Setting& setting) {
  const auto workload = make_workload(net, setting);
  const mezzo::StepWork work = second_step(*workload);
  const Roof& gpu = h100();
  const auto alone = [&](auto... limits) {
    Roof roof;
    ((roof.*limits = gpu.*limits), ...);
    return work.floor(roof);
  };
  const double launches = alone(&Roof::op_seconds);
  return {
      .net = net,
      .level = setting.level,
      .samples = workload->samples,
      .ops = std::llround(launches / gpu.op_seconds),
      .work = work.total(),
      .seconds = work.floor(gpu),
      .products = alone(&Roof::f32_flops_per_s, &Roof::f16_flops_per_s, &Roof::bf16_flops_per_s),
      .memory = alone(&Roof::memory_bytes_per_s, &Roof::cache_bytes_per_s, &Roof::cache_bytes),
      .launches = launches,
      .steps = alone(&Roof::step_seconds, &Roof::low_step_seconds)};
}

}  // namespace

const Roof& h100() {
  static const Roof roof{.f32_flops_per_s = 0.8 * 67e12,
                         .f16_flops_per_s = 0.65 * 989e12,
                         .bf16_flops_per_s = 0.65 * 989e12,
                         .memory_bytes_per_s = 0.9 * 3.35e12,
                         .cache_bytes_per_s = 5.5e12,
                         .cache_bytes = 50e6,
                         .op_seconds = 2.5e-6,
                         .step_seconds = 5e-6,
                         .low_step_seconds = 2.9e-6};
  return roof;
}

void predict_gpu(const std::vector<std::string>& nets, const std::vector<std::string>& levels,
                 Setting setting, const std::function<void(const GpuPrediction&)>& done) {
  for (const std::string& net : nets)
    for (const std::string& level : levels) {
      setting.level = level;
      done(predict(net, setting));
    }
}

std::string gpu_table(const std::vector<GpuPrediction>& predictions) {
  const Roof& gpu = h100();
  const auto tera = [](double rate) { return fixed(1e-12 * rate, 1); };
  Table table{{"net", "level", "samples", "ops", "GFLOP", "GB", "products ms", "memory ms",
               "launches ms", "time steps ms", "step ms", "samples/s"},
              {}};
  for (const GpuPrediction& p : predictions)
    table.rows.push_back(
        {p.net, p.level, mezzo::str(p.samples), mezzo::str(p.ops), fixed(1e-9 * p.work.flops, 1),
         fixed(1e-9 * p.work.bytes, 2), fixed(1e3 * p.products, 2), fixed(1e3 * p.memory, 2),
         fixed(1e3 * p.launches, 2), fixed(1e3 * p.steps, 2), fixed(1e3 * p.seconds, 2),
         fixed(static_cast<double>(p.samples) / p.seconds, 0)});
  return mezzo::str("H100 SXM, assumed: products ", tera(gpu.bf16_flops_per_s),
                    " TFLOP/s in 16 bits and ", tera(gpu.f32_flops_per_s), " in f32; memory ",
                    tera(gpu.memory_bytes_per_s), " TB/s, cache ", tera(gpu.cache_bytes_per_s),
                    " TB/s; a kernel takes at least ", fixed(1e6 * gpu.op_seconds, 1),
                    " us, a time step of a recurrent layer ", fixed(1e6 * gpu.step_seconds, 1),
                    " us in f32 and ", fixed(1e6 * gpu.low_step_seconds, 1), " in 16 bits\n",
                    table.text());
}

}  // namespace samples
