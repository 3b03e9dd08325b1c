// A directory of checkpoints on disk: step-000001/, step-000002/, ..., and `latest`, which names one of them.
// Sees: atomic_directory.h.
// Read next: checkpoint_directory.cpp, ../../amp/checkpoint.h (what is in a step).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../macros.h"

namespace mezzo::io {

inline constexpr std::string_view kModelFile = "model.safetensors", kOptimizerFile = "optim.safetensors",
                                  kStateFile = "state.json";

/** Names of all files that a step may hold. */
MZ_API const std::vector<std::string>& checkpoint_files();

/** "step-000123" */
MZ_API std::string step_name(std::int64_t step);
/** The number in such a name; nothing for any other name. */
MZ_API std::optional<std::int64_t> step_number(std::string_view name);

/** Makes the directory and those above it, where they are missing. Errors: IoError. */
MZ_API void make_directories(std::string_view operation, const std::string& path);

/** Keeps others from writing checkpoints in a directory while it lives. Errors: IoError where someone else holds it. Where the file system has no
 *  locks there is none. */
class MZ_API DirectoryLock {
 public:
  DirectoryLock(std::string_view operation, const std::string& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  bool held() const { return held_; }

 private:
  int file_ = -1;
  bool held_ = false;
};

/** The checkpoints that a directory should hold. */
struct StepList {
  std::vector<std::string> best_first;  // names; what is there may be missing or damaged
  std::string latest_error;  // why `latest` could not be followed; empty where it was, or is absent
};

/** What to load from a directory, best first: the step that `latest` names, those before it from
 *  the newest on, those after it (which belong to a run that was left) from the newest on; without
 *  `latest`, all from the newest on. Links are followed: a step may be one, and `latest` may be one
 *  to a step, here or elsewhere.
 *  Errors: IoError where the directory cannot be read. */
MZ_API StepList steps_best_first(std::string_view operation, const std::string& directory);
/** Makes `latest` name a step. Errors: IoError; the old one stays. */
MZ_API void set_latest(std::string_view operation, const std::string& directory, const std::string& step);
/** Removes what writers that were killed have left. For who holds the lock. */
MZ_API void remove_leftovers(const std::string& directory);
/** Removes all steps but the `keep` best. Ones that hold files of others stay. Failures are logged: nothing depends on it. For who holds the lock. */
MZ_API void prune_steps(std::string_view operation, const std::string& directory, std::int64_t keep);

}  // namespace mezzo::io
