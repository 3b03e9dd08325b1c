#include "checkpoint_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "../core/error.h"
#include "../text/log.h"
#include "../text/text.h"
#include "atomic_directory.h"
#include "atomic_file.h"
#include "byte_reader.h"
#include "utf8.h"

namespace mezzo::io {

namespace {

constexpr std::string_view kStep = "step-", kLatest = "latest";
constexpr std::size_t kStepDigits = 6;  // minimum number of digits

[[noreturn]] void fail_with(std::string_view operation, const std::string& path, const char* what,
                            int error) {
  fail<IoError>(str(operation, "(", path, ")"), {.what = what, .got = std::strerror(error)});
}

/** The content of `latest`. */
struct Latest {
  std::optional<std::int64_t> step;  // a step of this directory
  bool elsewhere = false;            // `latest` is a link to another directory
  std::string error;                 // `latest` exists but does not name a step
};

/** Returns the path with all links resolved; empty if a part is missing. */
std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> found(::realpath(path.c_str(), nullptr),
                                                          &std::free);
  return found ? found.get() : "";
}

/** Returns the content of a `latest` that is a link to a directory, as other programs create it. */
Latest latest_of_link(const std::string& directory, const std::string& target) {
  Latest latest;
  latest.step = step_number(target.substr(target.rfind('/') + 1));
  if (latest.step && real_path(str(directory, "/", step_name(*latest.step))) != target)
    latest.step = {};
  latest.elsewhere = !latest.step;
  return latest;
}

Latest read_latest(std::string_view operation, const std::string& directory) {
  const std::string path = str(directory, "/", kLatest);
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0 && errno == ENOENT) return {};
  if (const std::string target = real_path(path); is_directory(target))
    return latest_of_link(directory, target);
  Latest latest;
  try {
    const ByteReader file(std::string(operation), path);
    constexpr std::uint64_t kMost = 64;
    const std::vector<std::byte> bytes = file.bytes(0, std::min(file.size(), kMost));
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.ends_with('\n')) text.remove_suffix(1);
    latest.step = step_number(text);
    if (!latest.step)
      latest.error =
          error_text(str(operation, "(", path, ")"), {.what = "the file does not name a checkpoint",
                                                      .got = quote(text),
                                                      .expected = "a name like step-000001"});
  } catch (const Error& error) {
    latest.error = error.what();
  }
  return latest;
}

/** Returns the numbers of the entries whose names are step names. */
std::vector<std::int64_t> step_numbers(std::string_view operation, const std::string& directory,
                                       bool own_directories_only) {
  std::vector<std::string> names;
  if (const int error = list_directory(directory, names))
    fail_with(operation, directory, "cannot read the directory", error);
  std::vector<std::int64_t> steps;
  for (const std::string& name : names)
    if (const auto step = step_number(name);
        step && (!own_directories_only || is_directory(directory + "/" + name)))
      steps.push_back(*step);
  return steps;
}

/** Sorts steps best first, as steps_best_first() describes. */
void order_steps(std::vector<std::int64_t>& steps, const std::optional<std::int64_t>& latest) {
  std::sort(steps.begin(), steps.end(), std::greater<>());
  if (latest)
    std::stable_partition(steps.begin(), steps.end(),
                          [&](std::int64_t step) { return step <= *latest; });
}

}  // namespace

const std::vector<std::string>& checkpoint_files() {
  static const std::vector<std::string> files{std::string(kModelFile), std::string(kOptimizerFile),
                                              std::string(kAverageFile), std::string(kStateFile)};
  return files;
}

std::string step_name(std::int64_t step) {
  std::string digits = str(step);
  if (digits.size() < kStepDigits) digits.insert(0, kStepDigits - digits.size(), '0');
  return std::string(kStep) + digits;
}

std::optional<std::int64_t> step_number(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  std::int64_t number = -1;
  const auto [end, error] =
      std::from_chars(name.data() + kStep.size(), name.data() + name.size(), number);
  if (error != std::errc{} || number < 0 || step_name(number) != name) return std::nullopt;
  return number;
}

void make_directories(std::string_view operation, const std::string& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) return;
  const std::string above = directory_of(path);
  if (above != path) make_directories(operation, above);
  if (system_call("mkdir", [&] { return ::mkdir(path.c_str(), 0777); }) < 0 && errno != EEXIST)
    fail_with(operation, path, "cannot create the directory", errno);
  if (const int error = sync_directory(above))
    fail_with(operation, path, "cannot make the new directory durable", error);
}

DirectoryLock::DirectoryLock(std::string_view operation, const std::string& directory) {
  file_ = system_call("open directory", [&] {
    return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  });
  if (file_ < 0) fail_with(operation, directory, "cannot open the directory", errno);
  held_ = system_call("flock", [&] { return ::flock(file_, LOCK_EX | LOCK_NB); }) == 0;
  if (held_ || errno != EWOULDBLOCK) return;
  ::close(file_);
  fail<IoError>(
      str(operation, "(", directory, ")"),
      {.what = "another checkpoint is being written here", .expected = "one writer at a time"});
}

DirectoryLock::~DirectoryLock() { ::close(file_); }

StepList steps_best_first(std::string_view operation, const std::string& directory) {
  std::vector<std::int64_t> steps = step_numbers(operation, directory, false);
  Latest latest = read_latest(operation, directory);
  if (latest.step && std::find(steps.begin(), steps.end(), *latest.step) == steps.end())
    steps.push_back(*latest.step);
  order_steps(steps, latest.step);
  StepList list{.best_first = {}, .latest_error = std::move(latest.error)};
  if (latest.elsewhere) list.best_first.emplace_back(kLatest);
  for (const std::int64_t step : steps) list.best_first.push_back(step_name(step));
  return list;
}

std::string without_slash(const std::string& path) {
  std::string out = path;
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

bool is_step(const std::string& path) {
  struct stat facts{};
  return step_number(path.substr(path.rfind('/') + 1)) ||
         ::lstat(str(path, "/", kStateFile).c_str(), &facts) == 0;
}

void read_best_step(std::string_view operation, const std::string& directory,
                    const std::function<void(const std::string& path)>& read,
                    std::vector<std::string>& passed_over) {
  const auto pass_over = [&](std::string text) {
    log_text(Severity::warning, text);
    passed_over.push_back(std::move(text));
  };
  const StepList steps = steps_best_first(operation, directory);
  if (!steps.latest_error.empty())
    pass_over(steps.latest_error + "; the newest checkpoint is tried");
  std::string first;
  for (const std::string& step : steps.best_first) {
    std::string text;
    try {
      return read(str(directory, "/", step));
    } catch (const IoError& error) {
      text = error.what();
    } catch (const FormatError& error) {
      text = error.what();
    }
    pass_over(text + "; the next older checkpoint is tried");
    if (first.empty()) first = text;
  }
  const std::string subject = str(operation, "(", directory, ")");
  if (first.empty())
    fail<IoError>(subject,
                  {.what = "there is no checkpoint", .expected = "directories like step-000001"});
  fail<FormatError>(subject, {.what = "every checkpoint is damaged", .got = first});
}

void set_latest(std::string_view operation, const std::string& directory, const std::string& step) {
  const std::string path = str(directory, "/", kLatest);
  // Replaces a link to a directory, as other programs create it. In between, the newest step is the
  // latest.
  if (is_directory(real_path(path)) && !is_directory(path))
    (void)system_call("unlink", [&] { return ::unlink(path.c_str()); });
  AtomicFile file(operation, path);
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
    if (of == str(".", kLatest))
      (void)system_call("unlink", [&] { return ::unlink(path.c_str()); });
  }
}

namespace {

/** Removes a step. Returns false if that fails; a step with other files is kept, which is not a
 *  failure. */
bool remove_step(const std::string& path) {
  const std::string aside = path + temporary_suffix();
  if (!may_remove_directory(path, checkpoint_files())) return true;
  // Renames it first, so that a directory with the name of a step is always complete.
  if (system_call("rename", [&] { return ::rename(path.c_str(), aside.c_str()); }) < 0)
    return false;
  return remove_directory(aside, checkpoint_files());
}

}  // namespace

void prune_steps(std::string_view operation, const std::string& directory, std::int64_t keep) {
  std::vector<std::int64_t> steps;
  try {
    steps = step_numbers(operation, directory, true);
  } catch (const IoError& error) {
    log_text(Severity::warning, error.what());
    return;
  }
  order_steps(steps, read_latest(operation, directory).step);
  for (std::size_t i = static_cast<std::size_t>(keep); i < steps.size(); ++i)
    if (const std::string path = directory + "/" + step_name(steps[i]); !remove_step(path))
      log_text(Severity::warning,
               str(operation, "(", path, "): an old checkpoint could not be removed"));
}

}  // namespace mezzo::io
