#include "op_facts.h"

namespace samples {

namespace {

using namespace mezzo;

std::vector<std::string> dtypes_of(const OpInfo& op) {
  std::vector<std::string> dtypes;
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (takes(op, dtype)) dtypes.emplace_back(name(dtype));
  }
  return dtypes;
}

OpFacts facts_of(const OpInfo& op) {
  const OpTraits& traits = op.traits;
  OpFacts facts{.name = std::string(traits.name),
                .tag = std::string(name(traits.precision)),
                .dtypes = dtypes_of(op),
                .body = op.composite ? "composite"
                        : op.view    ? "view"
                                     : "kernel",
                .derivatives = !traits.differentiable        ? 0
                               : traits.twice_differentiable ? 2
                                                             : 1,
                .in_place = traits.in_place,
                .internal = traits.internal,
                .summary = std::string(traits.summary)};
  for (const amp::Level& level : amp::kLevels)
    facts.levels.push_back(amp::action_text(traits.precision, level));
  const char* kinds[] = {"cpu", "cuda"};
  for (int k = 0; k < kNumDeviceKinds; ++k)
    if (op.kernel[static_cast<std::size_t>(k)]) facts.devices.emplace_back(kinds[k]);
  return facts;
}

}  // namespace

std::vector<OpFacts> all_op_facts() {
  static_cast<void>(Device::best());  // registers the kernels of the device
  std::vector<OpFacts> facts;
  for (const OpInfo* op : all_ops()) facts.push_back(facts_of(*op));
  return facts;
}

}  // namespace samples
