#include "workload.h"

#include "../common/program.h"

namespace samples {

using namespace mezzo;

#define SAMPLE_NET(name) std::unique_ptr<Workload> make_##name(const Setting& setting);
SAMPLE_NETS
#undef SAMPLE_NET

namespace {

class SupervisedWorkload final : public Workload {
 public:
  SupervisedWorkload(const Setting& setting, const Supervised& parts)
      : parts_(parts),
        session_(amp::initialize(parts_.net, *parts_.optimizer,
                                 {.opt_level = setting.level, .verbosity = 0})) {}

  StepOutcome step(std::int64_t number) override {
    const Tensor loss =
        parts_.loss(parts_.batches[static_cast<std::size_t>(number) % parts_.batches.size()]);
    parts_.optimizer->zero_grad();
    amp::scale_loss(loss, *parts_.optimizer, [](const Tensor& scaled) { scaled.backward(); });
    optim::StepOptions options;
    if (parts_.max_norm > 0) options.max_norm = parts_.max_norm;
    const bool skipped = parts_.optimizer->step(options) == optim::StepResult::skipped;
    return {loss.item<double>(), skipped};
  }

  double loss_scale() override { return session_.loss_scaler().loss_scale(); }
  std::vector<const optim::Optimizer*> optimizers() const override {
    return {parts_.optimizer.get()};
  }

 private:
  Supervised parts_;
  amp::Session session_;
};

}  // namespace

std::unique_ptr<Workload> supervised(const Setting& setting, const Supervised& parts,
                                     TensorMetadata facts) {
  NamedTensors tensors;
  add_weights(tensors, "net.", parts.net);
  for (std::size_t i = 0; i < parts.batches.size(); ++i) {
    tensors.emplace_back(str("x.", i), parts.batches[i].x);
    tensors.emplace_back(str("y.", i), parts.batches[i].y);
  }
  Supervised placed = parts;
  placed.net.to(setting.device);
  for (Batch& batch : placed.batches)
    batch = {batch.x.to(setting.device), batch.y.to(setting.device)};
  auto workload = std::make_unique<SupervisedWorkload>(setting, placed);
  workload->samples = parts.batches.front().size();
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

Size parse_size(const std::string& text) {
  if (text == "tiny") return Size::tiny;
  if (text == "small") return Size::small;
  if (text == "full") return Size::full;
  throw UsageError("unknown size; got \"" + text + "\", expected tiny, small or full");
}

}  // namespace samples
