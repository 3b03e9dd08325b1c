#include "bench_fields.h"

namespace mezzo::bench {

namespace {

double number(std::int64_t v) { return static_cast<double>(v); }

Fields peaks(const MemoryStats& memory) {
  Fields result{{"total", number(memory.total.peak)}};
  for (std::size_t i = 0; i < kNumMemoryCategories; ++i)
    result.push_back(
        {std::string(name(static_cast<MemoryCategory>(i))), number(memory.by_category[i].peak)});
  return result;
}

}  // namespace

Fields fields(const Facts& facts) {
  const Environment& e = facts.environment;
  const Roof& roof = facts.roof;
  Fields result;
  for (const auto& [name, value] : facts.notes) result.push_back({name, value});
  const Fields own{{"device", e.device},
                   {"hardware", e.hardware},
                   {"cpu_model", e.cpu_model},
                   {"cores", number(e.cores)},
                   {"threads", number(e.threads)},
                   {"cpu_isa", e.cpu_isa},
                   {"multiplies_bf16", e.multiplies_bf16},
                   {"exact_products", e.exact_products},
                   {"allow_tf32", e.allow_tf32},
                   {"allow_nondeterministic", e.allow_nondeterministic},
                   {"search_products", e.search_products},
                   {"compiler", e.compiler},
                   {"flags", e.flags},
                   {"mezzo", e.version},
                   {"commit", e.commit},
                   {"date", e.date}};
  result.insert(result.end(), own.begin(), own.end());
  if (facts.steps == 0) return result;  // not of nets
  const Fields of_nets{{"warm_up", number(facts.warm_up)},
                       {"steps", number(facts.steps)},
                       {"seconds", facts.seconds},
                       {"f32_flops_per_s", roof.f32_flops_per_s},
                       {"f16_flops_per_s", roof.f16_flops_per_s},
                       {"bf16_flops_per_s", roof.bf16_flops_per_s},
                       {"memory_bytes_per_s", roof.memory_bytes_per_s},
                       {"cache_bytes_per_s", roof.cache_bytes_per_s},
                       {"cache_bytes", roof.cache_bytes}};
  result.insert(result.end(), of_nets.begin(), of_nets.end());
  return result;
}

Fields fields(const Row& row, bool all) {
  Fields result{{"net", row.net}, {"level", row.level}};
  if (all || !row.error.empty()) result.push_back({"error", row.error});
  if (!all && !row.error.empty()) return result;
  const Fields figures{{"emulated", row.emulated},
                       {"samples", number(row.samples)},
                       {"steps", static_cast<double>(row.losses.size())},
                       {"step_ms", row.step_ms.value},
                       {"low_ms", row.step_ms.low},
                       {"high_ms", row.step_ms.high},
                       {"unstable", row.unstable()},
                       {"over_o0", row.over_o0.value},
                       {"over_o0_low", row.over_o0.low},
                       {"over_o0_high", row.over_o0.high},
                       {"fast_ms", row.fast_ms},
                       {"slow_ms", row.slow_ms},
                       {"samples_per_s", row.samples_per_s},
                       {"flops_per_step", row.work.flops},
                       {"bytes_per_step", row.work.bytes},
                       {"floor_ms", row.floor_ms},
                       {"share_of_floor", row.share_of_floor()},
                       {"peak_bytes", peaks(row.memory)},
                       {"loss", row.loss},
                       {"skipped_steps", number(row.skipped_steps)},
                       {"loss_scale", row.loss_scale},
                       {"casts_per_step", row.casts_per_step},
                       {"cast_bytes_per_step", row.cast_bytes_per_step},
                       {"losses", row.losses},
                       {"times_ms", row.times_ms}};
  result.insert(result.end(), figures.begin(), figures.end());
  return result;
}

}  // namespace mezzo::bench
