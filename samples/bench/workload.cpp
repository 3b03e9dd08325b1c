#include "workload.h"

#include "../common/program.h"

namespace samples {

using namespace mezzo;

#define SAMPLE_NET(name) std::unique_ptr<Workload> make_##name(const Setting& setting);
SAMPLE_NETS
#undef SAMPLE_NET

namespace {

/** A workload of the library with the data for export. */
class SupervisedWorkload final : public Workload {
 public:
  SupervisedWorkload(const Setting& setting, const Supervised& parts)
      : inner_(bench::supervised(
            {.level = setting.level, .device = setting.device, .seed = setting.seed}, parts)) {
    samples = inner_->samples;
  }

  StepOutcome step(std::int64_t number) override { return inner_->step(number); }
  amp::Training training() override { return inner_->training(); }

 private:
  std::unique_ptr<bench::Workload> inner_;
};

}  // namespace

std::unique_ptr<Workload> supervised(const Setting& setting, const Supervised& parts,
                                     TensorMetadata facts) {
  NamedTensors tensors;
  add_weights(tensors, "net.", parts.model);
  for (std::size_t i = 0; i < parts.batches.size(); ++i) {
    tensors.emplace_back(str("x.", i), parts.batches[i].x);
    tensors.emplace_back(str("y.", i), parts.batches[i].y);
  }
  auto workload = std::make_unique<SupervisedWorkload>(setting, parts);
  workload->tensors = std::move(tensors);
  if (parts.max_norm > 0) facts["max_norm"] = str(parts.max_norm);
  workload->facts = std::move(facts);
  return workload;
}

std::vector<Batch> batches_of(const data::Dataset& data, std::int64_t size) {
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < kBatches; ++i) {
    const data::Dataset part = data.slice(i * size, size);
    batches.push_back({part.x(), part.y()});
  }
  return batches;
}

void add_weights(NamedTensors& tensors, const std::string& prefix, const nn::Module& module) {
  for (const auto& [name, value] : module.state_dict()) tensors.emplace_back(prefix + name, value);
}

std::span<const NetEntry> all_nets() {
#define SAMPLE_NET(name) {#name, make_##name},
  static constexpr NetEntry kNets[] = {SAMPLE_NETS};
#undef SAMPLE_NET
  return kNets;
}

namespace {

const NetEntry& find_net(const std::string& name) {
  std::string known;
  for (const NetEntry& entry : all_nets()) {
    if (entry.name == name) return entry;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw UsageError("--nets: unknown net; got \"" + name + "\", expected one of " + known);
}

}  // namespace

void check_nets(const std::vector<std::string>& names) {
  for (const std::string& name : names) find_net(name);
}

std::unique_ptr<Workload> make_workload(const std::string& name, const Setting& setting) {
  const NetEntry& entry = find_net(name);
  manual_seed(setting.seed);
  auto workload = entry.make(setting);
  workload->facts["net"] = name;
  return workload;
}

bench::Net bench_net(const std::string& name, const Setting& setting) {
  find_net(name);
  return {name, [name, setting](const bench::Setting& s) {
            Setting at = setting;
            at.level = s.level;
            at.device = s.device;
            at.seed = s.seed;
            return make_workload(name, at);
          }};
}

Size parse_size(const std::string& text) {
  if (text == "tiny") return Size::tiny;
  if (text == "small") return Size::small;
  if (text == "full") return Size::full;
  throw UsageError("unknown size; got \"" + text + "\", expected tiny, small or full");
}

}  // namespace samples
