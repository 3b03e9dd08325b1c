// CheckpointState: what a checkpoint holds, part by part, and its state.json.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "../../tensor/io/atomic_directory.h"
#include "../../tensor/io/checkpoint_directory.h"
#include "checkpoint.h"

namespace mezzo::amp {

/** The kinds of parts, in the order of state.json. A stream is the thread's default generator. */
enum class PartKind { model, optimizer, ema, session, scaler, schedule, loader, stream, generator };

/** A kind of part in files and messages. */
struct PartInfo {
  const char* section;         // its member of state.json
  const char* noun;            // in messages
  std::string_view file = {};  // of its tensors; empty: it has none
};

/** All kinds, in the order of PartKind. */
inline constexpr PartInfo kPartKinds[] = {
    {"models", "model", io::kModelFile},
    {"optimizers", "optimizer", io::kOptimizerFile},
    {"averages", "moving average", io::kAverageFile},
    {"sessions", "session"},
    {"scalers", "scaler"},
    {"schedules", "schedule"},
    {"loaders", "loader"},
    {"default_generator", "default generator"},
    {"generators", "generator"},
};

/** Returns the kind after this one. */
constexpr PartKind next(PartKind kind) { return PartKind(static_cast<int>(kind) + 1); }
/** Returns the row of a kind. */
constexpr const PartInfo& info_of(PartKind kind) {
  return kPartKinds[static_cast<std::size_t>(kind)];
}

/** What a checkpoint holds of a part. */
struct SavedPart {
  std::string type = {};                             // class of a model, optimizer or average
  std::map<std::string, std::string> options = {};   // of a session, as text
  std::map<std::string, std::uint64_t> counts = {};  // of a loader or generator; seeds have 64 bits
  mezzo::StateDict state = {};
};

/** Parts by kind and name. */
using SavedParts = std::map<std::pair<PartKind, std::string>, SavedPart>;

/** What a checkpoint holds. */
struct CheckpointState {
  std::int64_t step = 0, epoch = 0;
  std::optional<std::string> cpu_products = {};  // cpu_product_kind() of a training on the CPU
  CheckpointMetadata metadata = {};
  SavedParts parts = {};                            // with the generators of rank 0
  std::map<std::string, SavedParts> ranks = {};     // the generators of ranks 1, 2, ...
  std::map<std::string, io::FileFacts> files = {};  // all files but state.json
};

/** Returns the text of state.json, which ends with its own checksum. */
std::string state_text(const CheckpointState& state);
/** Reads state.json; the tensors of the parts are in other files. Errors: FormatError naming file,
 *  place and reason; Unsupported in a build without JSON. */
CheckpointState read_state(const io::ByteReader& file);

}  // namespace mezzo::amp
