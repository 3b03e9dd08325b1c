#include "checkpoint_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "../error.h"
#include "../log.h"
#include "../text.h"
#include "atomic_directory.h"
#include "atomic_file.h"
#include "byte_reader.h"

namespace mezzo::io {

namespace {

constexpr std::string_view kStep = "step-", kLatest = "latest";
constexpr std::size_t kDigits = 6;  // at least

[[noreturn]] void fail_with(std::string_view operation, const std::string& path, const char* what,
                            int error) {
  fail<IoError>(str(operation, "(", path, ")"), {.what = what, .got = std::strerror(error)});
}

/** What `latest` names, if it names a step at all. */
std::optional<std::int64_t> latest_number(std::string_view operation, const std::string& directory) {
  try {
    const ByteReader file(std::string(operation), str(directory, "/", kLatest));
    constexpr std::uint64_t kMost = 64;
    const std::vector<std::byte> bytes = file.bytes(0, std::min(file.size(), kMost));
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.ends_with('\n')) text.remove_suffix(1);
    return step_number(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

const std::vector<std::string>& checkpoint_files() {
  static const std::vector<std::string> files{std::string(kModelFile), std::string(kOptimizerFile),
                                              std::string(kStateFile)};
  return files;
}

std::string step_name(std::int64_t step) {
  std::string digits = str(step);
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return std::string(kStep) + digits;
}

std::optional<std::int64_t> step_number(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(name.data() + kStep.size(), name.data() + name.size(), number);
  if (error != std::errc{} || number < 0 || step_name(number) != name) return std::nullopt;
  return number;
}

void make_directories(std::string_view operation, const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) return;
  const std::string above = directory_of(path);
  if (above != path) make_directories(operation, above);
  if (system_call("mkdir", [&] { return ::mkdir(path.c_str(), 0777); }) < 0 && errno != EEXIST)
    fail_with(operation, path, "cannot create the directory", errno);
  if (const int error = sync_directory(above))
    fail_with(operation, path, "cannot make the new directory durable", error);
}

DirectoryLock::DirectoryLock(std::string_view operation, const std::string& directory) {
  file_ = system_call("open directory",
                      [&] { return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (file_ < 0) fail_with(operation, directory, "cannot open the directory", errno);
  held_ = system_call("flock", [&] { return ::flock(file_, LOCK_EX | LOCK_NB); }) == 0;
  if (held_ || errno != EWOULDBLOCK) return;
  ::close(file_);
  fail<IoError>(str(operation, "(", directory, ")"),
                {.what = "another checkpoint is being written here", .expected = "one writer at a time"});
}

DirectoryLock::~DirectoryLock() { ::close(file_); }

std::vector<std::string> steps_best_first(std::string_view operation, const std::string& directory) {
  std::vector<std::string> names;
  if (const int error = list_directory(directory, names))
    fail_with(operation, directory, "cannot read the directory", error);
  std::vector<std::int64_t> steps;
  for (const std::string& name : names)
    if (const auto step = step_number(name); step && is_directory(directory + "/" + name))
      steps.push_back(*step);
  std::sort(steps.begin(), steps.end(), std::greater<>());
  if (const auto latest = latest_number(operation, directory))
    std::stable_partition(steps.begin(), steps.end(), [&](std::int64_t step) { return step <= *latest; });
  std::vector<std::string> out;
  for (const std::int64_t step : steps) out.push_back(step_name(step));
  return out;
}

void set_latest(std::string_view operation, const std::string& directory, const std::string& step) {
  AtomicFile file(operation, str(directory, "/", kLatest));
  file.write(step + "\n");
  file.commit();
}

void remove_leftovers(const std::string& directory) {
  std::vector<std::string> names;
  if (list_directory(directory, names) != 0) return;
  for (const std::string& name : names) {
    if (!is_temporary(name)) continue;
    const std::string path = directory + "/" + name;
    const std::string of = name.substr(0, name.size() - temporary_suffix().size());
    if (step_number(of)) remove_directory(path, checkpoint_files());
    if (of == str(".", kLatest)) (void)system_call("unlink", [&] { return ::unlink(path.c_str()); });
  }
}

namespace {

/** False where the step could not be removed; one of which others have files is no failure. */
bool remove_step(const std::string& path) {
  const std::string aside = path + temporary_suffix();
  if (!may_remove_directory(path, checkpoint_files())) return true;
  // Renamed first: what has the name of a step is whole at any time.
  if (system_call("rename", [&] { return ::rename(path.c_str(), aside.c_str()); }) < 0) return false;
  return remove_directory(aside, checkpoint_files());
}

}  // namespace

void prune_steps(std::string_view operation, const std::string& directory, std::int64_t keep) {
  std::vector<std::string> steps;
  try {
    steps = steps_best_first(operation, directory);
  } catch (const IoError& error) {
    log_text(Severity::warning, error.what());
    return;
  }
  for (std::size_t i = static_cast<std::size_t>(keep); i < steps.size(); ++i)
    if (const std::string path = directory + "/" + steps[i]; !remove_step(path))
      log_text(Severity::warning, str(operation, "(", path, "): an old checkpoint could not be removed"));
}

}  // namespace mezzo::io
