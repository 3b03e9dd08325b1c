// Fit: the contents of a checkpoint, split by the parts of a training and compared with them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "../../tensor/io/safetensors.h"
#include "checkpoint_state.h"

namespace mezzo::amp {

/** A step's files in memory. */
struct ReadCheckpoint {
  std::string path;
  CheckpointState state = {};
  NamedTensors weights = {}, moments = {}, averages = {};
};

/** What each part loads, by the part's name. */
struct Fit {
  std::map<std::string, nn::StateDict> models;
  std::map<std::string, optim::StateDict> optimizers;
  std::map<std::string, nn::StateDict> averages;
  std::map<std::string, StateDict> sessions;  // without sessions whose state is dropped
  std::map<std::string, std::map<std::string, double>> scalers;  // without dropped ones
  std::vector<std::string> conversions;  // the allowed differences, as log lines
};

/** Compares a checkpoint with a training and splits it by parts. Changes nothing. Errors:
 *  ValueError that lists all differences. */
Fit fit_to(const Training& training, const ReadCheckpoint& saved,
           const LoadCheckpointOptions& options);

}  // namespace mezzo::amp
