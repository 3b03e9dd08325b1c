// A directory of checkpoints on disk: step-000001/, step-000002/, ..., and the file `latest`, which
// contains the name of one of them.
// See also: ../../amp/checkpoint/checkpoint.h (the content of a step).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../core/macros.h"

namespace mezzo::io {

/** The files of a step. */
inline constexpr std::string_view kModelFile = "model.safetensors",
                                  kOptimizerFile = "optim.safetensors",
                                  kAverageFile = "average.safetensors", kStateFile = "state.json";

/** Returns the names of all files that a step may contain. */
MZ_API const std::vector<std::string>& checkpoint_files();

/** Returns the name of a step: "step-000123". */
MZ_API std::string step_name(std::int64_t step);
/** Returns the number of such a name; nothing for any other name. */
MZ_API std::optional<std::int64_t> step_number(std::string_view name);

/** Creates the directory and its missing parents. Errors: IoError. */
MZ_API void make_directories(std::string_view operation, const std::string& path);

/** A lock that prevents other writers of checkpoints in a directory. Errors: IoError if another
 *  writer has the lock. Without effect if the file system does not support locks. */
class MZ_API DirectoryLock {
 public:
  DirectoryLock(std::string_view operation, const std::string& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  /** Returns false if the file system does not support locks. */
  bool held() const { return held_; }

 private:
  int file_ = -1;
  bool held_ = false;
};

/** The checkpoints of a directory, in the order in which to try them. */
struct StepList {
  std::vector<std::string> best_first;  // names; each may be missing or damaged
  std::string latest_error;             // why `latest` could not be read; empty without an error
};

/** Returns what to load from a directory, best first: the step that `latest` names, then those
 *  before it from the newest on, then those after it (which belong to an abandoned run) from the
 *  newest on. Without `latest`, all steps from the newest on. Links are followed: a step may be a
 *  link, and `latest` may be a link to a step in this or another directory. Errors: IoError if the
 *  directory cannot be read. */
MZ_API StepList steps_best_first(std::string_view operation, const std::string& directory);
/** Returns the path without trailing slashes. */
std::string without_slash(const std::string& path);
/** Returns true for the path of a step: by its name, or by the state file in it. */
MZ_API bool is_step(const std::string& path);
/** Calls `read` with the paths of the steps of a directory, best first, until it neither throws
 *  IoError nor FormatError. Logs these, and why `latest` was not used, and adds the texts to
 *  `passed_over`. Errors: IoError if there is no step; FormatError if every step is damaged. */
MZ_API void read_best_step(std::string_view operation, const std::string& directory,
                           const std::function<void(const std::string& path)>& read,
                           std::vector<std::string>& passed_over);
/** Writes the name of a step to `latest`. Errors: IoError; the old file stays. */
MZ_API void set_latest(std::string_view operation, const std::string& directory,
                       const std::string& step);
/** Removes temporary files and directories of killed writers. The caller must hold the lock. */
MZ_API void remove_leftovers(const std::string& directory);
/** Removes all steps except the `keep` best. Steps with other files stay. Failures are only logged.
 *  The caller must hold the lock. */
MZ_API void prune_steps(std::string_view operation, const std::string& directory,
                        std::int64_t keep);

}  // namespace mezzo::io
