#include "checkpoint.h"

#include <charconv>

namespace samples {

using namespace mezzo;

namespace {

constexpr std::string_view kOptimizer = "optimizer.";
constexpr std::string_view kScaler = "amp.";

double number(const std::string& path, const std::string& key, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    fail<FormatError>("resume(" + path + ")",
                      {.what = "\"" + key + "\" is not a number", .got = "\"" + text + "\""});
  return value;
}

std::string entry(const std::string& path, const TensorMetadata& metadata, const std::string& key) {
  const auto it = metadata.find(key);
  if (it == metadata.end())
    fail<FormatError>("resume(" + path + ")",
                      {.what = "not a checkpoint of this program", .expected = "metadata \"" + key + "\""});
  return it->second;
}

void require_equal(const std::string& path, const char* what, const std::string& saved,
                   const std::string& wanted) {
  if (saved != wanted)
    fail<ValueError>(
        "resume(" + path + ")",
        {.what = std::string("the checkpoint is of another ") + what, .got = saved, .expected = wanted});
}

}  // namespace

void save_checkpoint(const std::string& path, const CheckpointParts& parts, std::int64_t epoch) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : parts.module.state_dict()) tensors.emplace_back(name, tensor);
  TensorMetadata metadata{
      {"format", "pt"}, {"net", parts.net}, {"level", parts.level}, {"epoch", str(epoch)}};
  const optim::StateDict optimizer = parts.optimizer.state_dict(parts.module.named_parameters());
  for (const auto& [name, tensor] : optimizer.tensors)
    tensors.emplace_back(std::string(kOptimizer) + name, tensor);
  for (const auto& [name, value] : optimizer.scalars) metadata[std::string(kOptimizer) + name] = str(value);
  for (const auto& [scaler, fields] : parts.session.state_dict())
    for (const auto& [field, value] : fields)
      metadata[std::string(kScaler) + scaler + "." + field] = str(value);
  save_tensors(path, tensors, metadata);
}

std::int64_t load_checkpoint(const std::string& path, const CheckpointParts& parts) {
  const LoadedTensors file = load_tensors(path);
  require_equal(path, "net", entry(path, file.metadata, "net"), parts.net);
  require_equal(path, "level", entry(path, file.metadata, "level"), parts.level);
  nn::StateDict weights;
  optim::StateDict optimizer;
  for (const auto& [name, tensor] : file.tensors) {
    if (name.starts_with(kOptimizer))
      optimizer.tensors[name.substr(kOptimizer.size())] = tensor;
    else
      weights.set(name, tensor);
  }
  amp::StateDict scalers;
  for (const auto& [key, text] : file.metadata) {
    if (key.starts_with(kOptimizer))
      optimizer.scalars[key.substr(kOptimizer.size())] = number(path, key, text);
    if (!key.starts_with(kScaler)) continue;
    const std::string name = key.substr(kScaler.size());
    scalers[name.substr(0, name.rfind('.'))][name.substr(name.rfind('.') + 1)] = number(path, key, text);
  }
  const double epoch = number(path, "epoch", entry(path, file.metadata, "epoch"));
  parts.module.load_state_dict(weights);
  parts.optimizer.load_state_dict(optimizer, parts.module.named_parameters());
  parts.session.load_state_dict(scalers);
  return static_cast<std::int64_t>(epoch);
}

}  // namespace samples
