// Fit: a checkpoint that was read, taken apart for the parts of a training, after everything that differs was found.
// Sees: checkpoint_state.h. Private to this room.
// Read next: checkpoint_fit.cpp, checkpoint_load.cpp.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "../tensor/io/safetensors.h"
#include "checkpoint_state.h"

namespace mezzo::amp {

/** A step's files in memory. */
struct ReadCheckpoint {
  std::string path;
  CheckpointState state = {};
  NamedTensors weights = {}, moments = {};
};

/** What each part is to load, by its name. */
struct Fit {
  std::map<std::string, nn::StateDict> models;
  std::map<std::string, optim::StateDict> optimizers;
  std::map<std::string, StateDict> sessions;                     // without those whose state is dropped
  std::map<std::string, std::map<std::string, double>> scalers;  // likewise
  std::vector<std::string> conversions;                          // what differs and was allowed, in sentences
};

/** Errors: ValueError that lists all that differs; nothing has changed then, nor otherwise. */
Fit fit_to(const Training& training, const ReadCheckpoint& saved, const LoadCheckpointOptions& options);

}  // namespace mezzo::amp
