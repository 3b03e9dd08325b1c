// Directories of files that appear atomically: order of durability, replacement, foreign files.
#include "../../tensor/io/atomic_directory.h"

#include <mezzo.h>

#include <algorithm>
#include <cerrno>

#include "../../tensor/io/checkpoint_directory.h"
#include "../support/catch.h"
#include "../support/throws.h"
#include "files.h"

using namespace mezzo;

namespace {

std::vector<std::string> recorded_calls;
const char* failing = "";
int fail_with = 0, failures_left = 0;

int record(std::string_view call) {
  recorded_calls.emplace_back(call);
  return call == failing && failures_left-- > 0 ? fail_with : 0;
}

/** Records the calls and makes the next `count` calls of a name fail while in scope. */
struct Recording {
  explicit Recording(const char* call = "", int error = 0, int count = 1) {
    recorded_calls.clear();
    failing = call;
    fail_with = error;
    failures_left = count;
    io::set_file_fault(record);
  }
  ~Recording() { io::set_file_fault(nullptr); }
};

const std::vector<std::string> kNames{"a", "b"};

io::FileFacts make(const std::string& path, std::string_view a) {
  io::AtomicDirectory directory("make", path, kNames);
  const io::FileFacts facts = directory.write("a", a);
  directory.write("b", "second");
  directory.commit();
  return facts;
}

std::size_t nth(std::string_view call, int n) {
  for (std::size_t i = 0; i < recorded_calls.size(); ++i)
    if (recorded_calls[i] == call && n-- == 0) return i;
  return recorded_calls.size();
}

}  // namespace

TEST_CASE(
    "files are synced before their directory, the directory before the rename, the rename before "
    "the end",
    "[atomic]") {
  const files::Directory directory;
  const Recording recording;
  make(directory / "new", "first");
  CHECK(recorded_calls == std::vector<std::string>{"mkdir", "open", "write", "fsync", "close",
                                                   "open", "write", "fsync", "close",
                                                   "open directory", "fsync directory", "rename",
                                                   "open directory", "fsync directory"});
}

TEST_CASE("a directory is replaced in a single call, and the old one is removed last", "[atomic]") {
  const files::Directory directory;
  make(directory / "new", "first");
  const Recording recording;
  make(directory / "new", "second time");
  CHECK(files::read(directory / "new/a") == "second time");
  CHECK(directory.count() == 1);
  CHECK(nth("rename", 0) == recorded_calls.size());
  CHECK(nth("renameat2", 0) < nth("fsync directory", 1));
  CHECK(nth("fsync directory", 1) < nth("unlink", 0));
}

TEST_CASE("without RENAME_EXCHANGE the old directory is renamed first", "[atomic]") {
  const files::Directory directory;
  make(directory / "new", "first");
  {
    const Recording recording("renameat2", EINVAL);
    make(directory / "new", "second");
  }
  CHECK(files::read(directory / "new/a") == "second");
  CHECK(directory.count() == 1);
  {
    const Recording recording("renameat2", EIO);
    CHECK_THROWS_WITH_AS_TEXT(make(directory / "new", "third"), IoError,
                              "cannot put the directory in its place");
  }
  CHECK(files::read(directory / "new/a") == "second");
  CHECK(directory.count() == 1);
}

TEST_CASE("file facts are length and CRC-32C, when written and when read", "[atomic]") {
  const files::Directory directory;
  const io::FileFacts facts = make(directory / "new", "123456789");
  CHECK(facts == io::FileFacts{9, 0xE3069283});
  CHECK(io::facts_of(io::ByteReader("facts", directory / "new/a")) == facts);
  std::string large(3'000'000, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * i >> 3);
  CHECK(io::facts_of(io::ByteReader("facts", "memory", std::as_bytes(std::span(large)))) ==
        make(directory / "large", large));
}

TEST_CASE("an uncommitted directory leaves nothing; foreign directories are left alone",
          "[atomic]") {
  const files::Directory directory;
  {
    io::AtomicDirectory abandoned("make", directory / "new", kNames);
    abandoned.write("a", "half");
    CHECK(directory.count() == 1);
  }
  CHECK(directory.count() == 0);
  std::filesystem::create_directories(directory / "theirs");
  files::write(directory / "theirs/c", "c");
  CHECK_THROWS_WITH_AS_TEXT(
      make(directory / "theirs", "x"), IoError,
      "make(" + (directory / "theirs") + "): the path exists and will not be replaced");
  CHECK_FALSE(io::remove_directory(directory / "theirs", kNames));
  std::filesystem::create_directory_symlink("theirs", directory / "link");
  CHECK_FALSE(io::remove_directory(directory / "link", {"c"}));
  CHECK(files::read(directory / "theirs/c") == "c");
  CHECK_THROWS_WITH_AS_TEXT(make(directory / "absent/new", "x"), IoError,
                            "cannot create a directory; got No such");
}

TEST_CASE("names of steps", "[atomic]") {
  CHECK(io::step_name(0) == "step-000000");
  CHECK(io::step_name(123) == "step-000123");
  CHECK(io::step_name(12345678) == "step-12345678");
  CHECK(io::step_number("step-000123") == 123);
  CHECK(io::step_number("step-9223372036854775807") == INT64_MAX);
  for (const char* name : {"", "step-", "step-1", "step-0000001", "step-000123x", "step-00012 ",
                           "step--00001", "step-+00001", "Step-000001", "step-9223372036854775808",
                           "step-000123.tmp-0123456789abc", "latest"})
    CHECK_FALSE(io::step_number(name).has_value());
  CHECK(io::is_temporary("x" + io::temporary_suffix()));
  for (const char* name : {"", "x.tmp-", "x.tmp-0123456789ab", "x.tmp-0123456789abz",
                           "x-tmp-0123456789abc", "tmp-0123456789abc"})
    CHECK_FALSE(io::is_temporary(name));
}

TEST_CASE("leftovers of killed writers are removed; similarly named files stay", "[atomic]") {
  const files::Directory directory;
  const std::string random = ".tmp-0123456789abc";
  for (const std::string& name : {"step-000001" + random, "step-000002" + random, "mine" + random})
    std::filesystem::create_directory(directory / name);
  files::write(directory / ("step-000001" + random + "/state.json"), "half");
  files::write(directory / ("step-000002" + random + "/notes.txt"), "mine");
  files::write(directory / (".latest" + random), "ste");
  files::write(directory / ("latest" + random), "mine");
  files::write(directory / ("step-000003" + random), "a file");
  io::remove_leftovers(directory.path());
  CHECK(directory.count() == 4);
  CHECK_FALSE(std::filesystem::exists(directory / ("step-000001" + random)));
  CHECK_FALSE(std::filesystem::exists(directory / (".latest" + random)));
}

TEST_CASE("one writer at a time", "[atomic]") {
  const files::Directory directory;
  {
    const io::DirectoryLock lock("save", directory.path());
    CHECK(lock.held());
    CHECK_THROWS_WITH_AS_TEXT(
        io::DirectoryLock("save", directory.path()), IoError,
        "save(" + directory.path() + "): another checkpoint is being written here");
  }
  CHECK_NOTHROW(io::DirectoryLock("save", directory.path()));
  const Recording recording("flock", ENOTSUP);
  CHECK_FALSE(io::DirectoryLock("save", directory.path()).held());
}

TEST_CASE("an old step that cannot be removed is reported, and the others are removed",
          "[atomic]") {
  const files::Directory directory;
  for (const std::int64_t step : {1, 2, 3})
    std::filesystem::create_directory(directory / io::step_name(step));
  io::set_latest("save", directory.path(), io::step_name(3));
  std::vector<std::string> lines;
  const LogSink former =
      set_log_sink([&](Severity, std::string_view line) { lines.emplace_back(line); });
  {
    const Recording recording("rename", EACCES);
    io::prune_steps("save", directory.path(), 1);
  }
  set_log_sink(former);
  CHECK(lines == std::vector<std::string>{"save(" + (directory / "step-000002") +
                                          "): an old checkpoint could not be removed"});
  CHECK(io::steps_best_first("load", directory.path()).best_first ==
        std::vector<std::string>{"step-000003", "step-000002"});
}
