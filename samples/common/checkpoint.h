// Saving and resuming a training run: one safetensors file with weights, optimizer state and scaler, replaced as a whole.
// Sees: mezzo.h.
// Read next: checkpoint.cpp.
#pragma once

#include <mezzo.h>

#include <cstdint>
#include <string>

namespace samples {

/** What a checkpoint is made of. */
struct CheckpointParts {
  std::string net, level;
  mezzo::nn::Module module;
  mezzo::optim::Optimizer& optimizer;
  mezzo::amp::Session& session;
};

/** Weights go under their PyTorch names, the optimizer's tensors under "optimizer.", numbers into the metadata. The old file stays until the new
 *  one is complete. `epoch` is the number of the next epoch. Errors: IoError. */
void save_checkpoint(const std::string& path, const CheckpointParts& parts, std::int64_t epoch);

/** Puts everything back and returns the next epoch's number; training goes on bit for bit as if it had not stopped.
 *  Errors: IoError, FormatError; ValueError for a checkpoint of another net or level; nothing has changed then. */
std::int64_t load_checkpoint(const std::string& path, const CheckpointParts& parts);

}  // namespace samples
