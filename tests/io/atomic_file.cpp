// A write that fails at any system call leaves the old file and no other.
#include "../../tensor/io/atomic_file.h"

#include <mezzo.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../support/catch.h"
#include "files.h"

using namespace mezzo;

namespace {

NamedTensors weights(double value) {
  return {{"w", full({64, 1024}, value)}, {"b", full({10}, value)}};
}

bool holds(const std::string& path, double value) {
  const LoadedTensors loaded = load_tensors(path);
  if (loaded.tensors.size() != 2) return false;
  for (const auto& [name, x] : loaded.tensors)
    for (const double v : x.to_vector<double>())
      if (v != value) return false;
  return true;
}

/** Index of the system call that fails, from 0; number of calls so far. */
int fail_at = -1, call_count = 0;

int fail_chosen(std::string_view) { return call_count++ == fail_at ? ENOSPC : 0; }

/** Injects the fault until the end of the scope. */
struct FaultScope {
  explicit FaultScope(int at) {
    fail_at = at;
    call_count = 0;
    io::set_file_fault(fail_chosen);
  }
  ~FaultScope() { io::set_file_fault(nullptr); }
};

mode_t mode_of(const std::string& path) {
  struct stat facts{};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts.st_mode & 07777;
}

}  // namespace

TEST_CASE("a fault at each system call leaves the old file loadable and no other file",
          "[atomic]") {
  const files::Directory directory;
  const std::string path = directory / "m.safetensors";
  save_tensors(path, weights(1));
  int total = 0;
  {
    const FaultScope none(-1);
    save_tensors(path, weights(1));
    total = call_count;
  }
  CHECK(total >= 10);
  for (int at = 0; at < total; ++at) {
    std::string text;
    {
      const FaultScope fault(at);
      text = files::thrown<IoError>([&] { save_tensors(path, weights(2)); });
    }
    INFO("call " << at << ": " << text);
    CHECK(text.find("save_tensors(" + path + "): ") == 0);
    CHECK(text.find("No space left on device") != std::string::npos);
    CHECK(directory.count() == 1);
    // The last two calls make the directory durable. The new file is already in place by then, and
    // the error says so.
    const bool in_place = at >= total - 2;
    CHECK((text.find("the file is in its place") != std::string::npos) == in_place);
    CHECK(holds(path, in_place ? 2 : 1));
    if (in_place) save_tensors(path, weights(1));
  }
}

TEST_CASE("a fault while a new file is written leaves nothing", "[atomic]") {
  const files::Directory directory;
  const FaultScope fault(3);
  CHECK_THROWS_AS(save_tensors(directory / "m", weights(1)), IoError);
  CHECK(directory.count() == 0);
}

TEST_CASE("exceeding the file size limit is an error with its cause", "[atomic]") {
  const files::Directory directory;
  const std::string path = directory / "m.safetensors";
  save_tensors(path, weights(1));
  // In a child process, because the limit is per process.
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{50000, 50000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string text = files::thrown<IoError>([&] { save_tensors(path, weights(2)); });
    ::_exit(text.find("File too large") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(directory.count() == 1);
  CHECK(holds(path, 1));
}

TEST_CASE("kill -9 at any moment leaves a complete file", "[atomic]") {
  const files::Directory directory;
  const std::string path = directory / "m.safetensors";
  save_tensors(path, weights(0));
  int kills = 0;
  for (int round = 0; round < 40; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int value = 1;; ++value) {
        try {
          save_tensors(path, weights(value % 1000));
        } catch (...) {
          ::_exit(1);
        }
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500 + round * 379 % 7000));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    kills += WIFSIGNALED(status) ? 1 : 0;
    const LoadedTensors loaded = load_tensors(path);
    REQUIRE(loaded.tensors.size() == 2);
    CHECK(holds(path, loaded.tensors[1].second.to_vector<double>()[0]));
  }
  CHECK(kills == 40);
}

TEST_CASE("permissions are those of the replaced file, else those the umask allows", "[atomic]") {
  const files::Directory directory;
  const mode_t before = ::umask(027);
  save_tensors(directory / "new", {});
  CHECK(mode_of(directory / "new") == 0640);
  ::chmod((directory / "new").c_str(), 0604);
  save_tensors(directory / "new", {});
  CHECK(mode_of(directory / "new") == 0604);
  ::umask(before);
}

TEST_CASE("a symbolic link stays, and its target is replaced", "[atomic]") {
  const files::Directory directory;
  std::filesystem::create_directory(directory / "real");
  save_tensors(directory / "real/m", weights(1));
  std::filesystem::create_symlink("real/m", directory / "link");
  save_tensors(directory / "link", weights(2));
  CHECK(std::filesystem::is_symlink(directory / "link"));
  CHECK(holds(directory / "real/m", 2));
}

TEST_CASE("paths that cannot be written are IoErrors", "[atomic]") {
  const files::Directory directory;
  const auto refused = [](const std::string& path) {
    return files::thrown<IoError>([&] { save_tensors(path, weights(1)); });
  };
  CHECK(refused(directory / "absent/m") ==
        "save_tensors(" + (directory / "absent/m") +
            "): cannot create a file in the directory; got No such file or directory");
  CHECK(refused(directory.path()).find("no regular file") != std::string::npos);
  CHECK(refused(directory / "m/").find("no regular file") != std::string::npos);
  CHECK(refused("/dev/null").find("no regular file") != std::string::npos);
  CHECK(refused("").find("no regular file") != std::string::npos);
  CHECK(directory.count() == 0);
  // The longest file name leaves no room for a temporary suffix, yet the file is written.
  const std::string longest(255, 'm');
  save_tensors(directory / longest, weights(1));
  CHECK(holds(directory / longest, 1));
  CHECK_FALSE(refused(directory / (longest + "m")) == "nothing");
  CHECK(directory.count() == 1);
}
