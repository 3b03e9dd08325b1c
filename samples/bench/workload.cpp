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

/** The size at which a net's products take most of the time of a step, which is 10 to 200 ms on one
 *  CPU core at O0: the sizes of the comparison with PyTorch (torch_rows.py), or less where a step
 *  would be longer. Other nets have Size::small. */
struct OwnSize {
  std::string_view net;
  Size size;
  std::int64_t batch, width;
};

constexpr OwnSize kOwnSizes[] = {
    {"mlp", Size::small, 128, 1024},  {"lenet", Size::small, 64, 32},
    {"resnet18", Size::full, 32, 32}, {"char_lstm", Size::small, 32, 256},
    {"char_gpt", Size::full, 1, 384},
};

/** Replaces Size::of_net by the values for this net. */
Setting resolved(std::string_view net, Setting setting) {
  if (setting.size != Size::of_net) return setting;
  setting.size = setting.device == cpu ? Size::small : Size::full;
  if (setting.device != cpu) return setting;
  for (const OwnSize& own : kOwnSizes) {
    if (own.net != net) continue;
    setting.size = own.size;
    if (setting.batch == 0) setting.batch = own.batch;
    if (setting.width == 0) setting.width = own.width;
  }
  return setting;
}

const NetEntry& find_net(const std::string& name) {
  std::string known;
  for (const NetEntry& entry : all_nets()) {
    if (entry.name == name) return entry;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw UsageError("--nets: unknown net; got \"" + name + "\", expected all or one of " + known);
}

}  // namespace

std::vector<std::string> default_nets() {
  std::vector<std::string> names;
  for (const OwnSize& own : kOwnSizes) names.emplace_back(own.net);
  return names;
}

std::vector<std::string> parse_nets(const std::vector<std::string>& names) {
  std::vector<std::string> nets;
  for (const std::string& name : names) {
    if (name != "all") {
      nets.emplace_back(find_net(name).name);
      continue;
    }
    for (const NetEntry& entry : all_nets()) nets.emplace_back(entry.name);
  }
  return nets;
}

std::unique_ptr<Workload> make_workload(const std::string& name, const Setting& setting) {
  const NetEntry& entry = find_net(name);
  manual_seed(setting.seed);
  auto workload = entry.make(resolved(name, setting));
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
  if (text == "default") return Size::of_net;
  if (text == "tiny") return Size::tiny;
  if (text == "small") return Size::small;
  if (text == "full") return Size::full;
  throw UsageError("unknown size; got \"" + text + "\", expected default, tiny, small or full");
}

}  // namespace samples
