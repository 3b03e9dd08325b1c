// Checkpoints of a whole training: one call saves everything that the next step depends on, another
// restores it, bit for bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../../nn/data/batches.h"
#include "../../nn/ema.h"
#include "../../nn/module.h"
#include "../../optim/optimizer.h"
#include "../../optim/schedules/schedule.h"
#include "../../tensor/io/metadata.h"
#include "../../tensor/random/generator.h"
#include "../object_list.h"
#include "../scaling/grad_scaler.h"
#include "../session.h"

namespace mezzo::amp {

/** The user's own values in a checkpoint, by name: text, numbers, integers. */
using CheckpointMetadata = io::Metadata;

/** The parts of a training. The calling thread's default generator is always included. */
struct Training {
  Parts<const nn::Module> model = {};         // parameters and buffers
  Parts<optim::Optimizer> optimizer = {};     // states and counters
  Parts<Session> session = {};                // with initialize() and scale_loss()
  Parts<GradScaler> scaler = {};              // with autocast
  Parts<optim::SchedulerBase> schedule = {};  // learning-rate schedules
  Parts<data::Batches> loader = {};           // data loaders
  Parts<Generator> generator = {};            // generators other than the thread's default one
  Parts<nn::ExponentialMovingAverage> average = {};  // averages of weights
  std::int64_t step = 0;                             // for saving: names the checkpoint
  std::int64_t epoch = 0;                            // for saving
  CheckpointMetadata metadata = {};                  // for saving
};

/** Options of save_checkpoint. */
struct SaveCheckpointOptions {
  std::int64_t keep = 0;  // number of checkpoints to keep, including this one; 0: all
};

/** Options of load_checkpoint. */
struct LoadCheckpointOptions {
  /** Convert a checkpoint of another level or of other options of initialize. False: refuse it. */
  bool allow_other_level = false;
};

/** What load_checkpoint() loaded. */
struct LoadedCheckpoint {
  std::string path;                           // of the step's directory
  std::int64_t step = 0;                      // as saved
  std::int64_t epoch = 0;                     // as saved
  CheckpointMetadata metadata = {};           // as saved
  std::vector<std::string> passed_over = {};  // why preferred ones were not loaded, as logged
};

/** Saves a training as DIRECTORY/step-NNNNNN, points DIRECTORY/latest to it, and returns its path.
 *  Creates DIRECTORY if it is missing, and replaces a checkpoint of the same step. Files:
 *  model.safetensors (parameters and buffers, f32 where they are 16-bit, with the values of the
 *  masters if there are any; readable from Python), optim.safetensors (the optimizers' tensors),
 *  average.safetensors (the averages of weights, if there are any), state.json (everything else,
 * and length and CRC-32C of the other files). With several models, optimizers or averages the keys
 * start with their names. Call it between a step and the next backward pass: gradients are not
 * saved. A backward pass outside of scale_loss and GradScaler goes undetected. The checkpoint
 * appears completely or not at all, even if the process or the machine stops; on failure the older
 * ones stay unchanged. If a model is wrapped by nn::DistributedDataParallel, all its ranks make the
 * call: rank 0 writes, and an error on one rank is an error on all. Errors: StateError, with a
 * hint, while averages are swapped into their model and inside an iteration (open scope, scaled
 * gradients or a skip pending for a step, GradScaler without update()); ValueError for a negative
 * step, names that cannot be keys, an optimizer or model whose session is missing from `training`,
 * and parameters of no model; IoError naming path and cause; Unsupported in a build without JSON.
 */
MZ_API std::string save_checkpoint(const std::string& directory, const Training& training,
                                   const SaveCheckpointOptions& options = {});

/** Restores a saved training: the models, optimizers, sessions and other parts that `training`
 *  names continue with the same bits as without the interruption. `path` is a step's directory, or
 *  a directory of steps: then it loads the step that `latest` names. Links are followed. If that
 *  step is missing or damaged, or `latest` names none, it loads the newest intact step before it;
 *  the log and `passed_over` of the result give the reason. Build and initialise everything as it
 *  was before; gradients, scaled gradients and pending skips are dropped. The number of ranks may
 *  differ from that of the saved training: a rank that was not saved continues with new random
 *  numbers. If a model is wrapped by nn::DistributedDataParallel, all its ranks make the call, and
 *  an error on one rank is an error on all. Errors: ValueError that
 *  lists all differences: names, shapes, types, optimizers, losses, data set, level (unless
 *  allowed: then the log says what was converted or dropped); FormatError and IoError naming file
 *  and reason for a damaged checkpoint, or if there is none; StateError inside an open scope;
 *  Unsupported in a build without JSON. Nothing has changed then. */
MZ_API LoadedCheckpoint load_checkpoint(const std::string& path, const Training& training,
                                        const LoadCheckpointOptions& options = {});

}  // namespace mezzo::amp
