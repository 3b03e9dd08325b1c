// CheckpointState: what state.json holds, as facts; made from a training, written and read as text.
// Sees: checkpoint.h, ../tensor/io.
// Read next: checkpoint_state.cpp (the text), checkpoint_save.cpp and checkpoint_load.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "../tensor/io/atomic_directory.h"
#include "checkpoint.h"

namespace mezzo::amp {

/** Numbers of one object's state_dict(). */
using SavedNumbers = std::map<std::string, double, std::less<>>;

struct SavedOptimizer {
  std::string type;
  SavedNumbers numbers;
};

struct SavedSession {
  std::map<std::string, std::string> options;  // by name, as text
  StateDict scalers;

  bool dynamic() const;
  bool has_masters() const;
};

/** Where a data loader stands, and what its order depends on. */
struct SavedLoader {
  data::Position position;
  std::int64_t samples = 0, batch = 0;
  bool shuffle = false, drop_last = false;
};

struct CheckpointState {
  std::int64_t step = 0, epoch = 0;
  CheckpointMetadata metadata;
  std::map<std::string, std::string> models;  // name -> kind, for readers
  std::map<std::string, SavedOptimizer> optimizers;
  std::map<std::string, SavedSession> sessions;
  std::map<std::string, SavedNumbers> scalers, schedules;
  std::map<std::string, SavedLoader> loaders;
  Generator default_generator;
  std::map<std::string, Generator> generators;
  std::map<std::string, io::FileFacts> files;  // all but state.json
};

/** The numbers and names of a training, without files. */
CheckpointState state_of(const Training& training);
/** What the numbers of a training under this session depend on. */
std::map<std::string, std::string> options_of(const Session& session);
SavedLoader saved_loader(const data::Batches& loader);

/** A checksum as state.json has it: 8 hexadecimal digits. */
std::string crc_text(std::uint32_t crc);
/** The text of state.json; it ends with a checksum of itself. */
std::string state_text(const CheckpointState& state);
/** Errors: FormatError naming file, place and reason; Unsupported in a build without JSON. */
CheckpointState read_state(const io::ByteReader& file);

/** Names of the parameters of all models: what the optimizers' entries go by. */
optim::Names parameter_names(const Parts<const nn::Module>& models);
/** "name.", or nothing for one alone. */
std::string key_prefix(const std::string& name);

}  // namespace mezzo::amp
