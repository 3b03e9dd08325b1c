// CheckpointState: the contents of state.json, collected from a training, written and read as text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "../../tensor/io/atomic_directory.h"
#include "checkpoint.h"

namespace mezzo::amp {

/** The numbers of one object's state_dict(). */
using SavedNumbers = std::map<std::string, double, std::less<>>;

/** An optimizer in state.json. */
struct SavedOptimizer {
  std::string type;
  SavedNumbers numbers;
};

/** A session in state.json. */
struct SavedSession {
  std::map<std::string, std::string> options;  // by name, as text
  StateDict scalers;

  /** True if the session scaled its loss dynamically. */
  bool dynamic() const;
  /** True if the session had master weights. */
  bool has_masters() const;
};

/** The position of a data loader, and what its order depends on. */
struct SavedLoader {
  data::Position position;
  std::int64_t samples = 0, batch = 0;
  bool shuffle = false, drop_last = false;
  std::int64_t shards = 1;  // number of processes that divided the batches
};

/** The random streams of a process. */
struct RankGenerators {
  Generator default_generator;
  std::map<std::string, Generator> generators;
};

/** The contents of state.json. */
struct CheckpointState {
  std::int64_t step = 0, epoch = 0;
  std::optional<std::string> cpu_products;  // cpu_product_kind() of a training on the CPU
  CheckpointMetadata metadata;
  std::map<std::string, std::string> models;  // name -> kind, for information only
  std::map<std::string, SavedOptimizer> optimizers;
  std::map<std::string, std::string> averages;  // as models
  std::map<std::string, SavedSession> sessions;
  std::map<std::string, SavedNumbers> scalers, schedules;
  std::map<std::string, SavedLoader> loaders;
  Generator default_generator;
  std::map<std::string, Generator> generators;
  std::map<std::string, RankGenerators> ranks;  // of ranks 1, 2, ... of a training in several
                                                // processes; those of rank 0 are above
  std::map<std::string, io::FileFacts> files;   // all files but state.json
};

/** Returns whether a model of the training has parameters on the CPU. */
bool trains_on_cpu(const Training& training);
/** Collects the numbers and names of a training; `files` stays empty. */
CheckpointState state_of(const Training& training);
/** Returns the options that the numbers of a training under this session depend on. */
std::map<std::string, std::string> options_of(const Session& session);
/** Returns a loader's position and options. */
SavedLoader saved_loader(const data::Batches& loader);

/** Formats a checksum as in state.json: 8 hexadecimal digits. */
std::string crc_text(std::uint32_t crc);
/** Returns the text of state.json, which ends with its own checksum. */
std::string state_text(const CheckpointState& state);
/** Reads state.json. Errors: FormatError naming file, place and reason; Unsupported in a build
 *  without JSON. */
CheckpointState read_state(const io::ByteReader& file);

/** Returns the parameters of all models with the names that key the optimizers' entries. */
optim::Names parameter_names(const Parts<const nn::Module>& models);
/** Returns "name.", or nothing for a single object without a name. */
std::string key_prefix(const std::string& name);

}  // namespace mezzo::amp
