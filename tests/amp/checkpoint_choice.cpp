// Which checkpoint of a directory is loaded, and which are removed.
#include "../../tensor/io/checkpoint_directory.h"
#include "../support/catch.h"
#include "../support/throws.h"
#include "trainings.h"

using namespace trainings;

TEST_CASE("load_checkpoint loads the checkpoint that latest names, or a given one",
          "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "O1"});
  for (int i = 0; i < 3; ++i) {
    run.step();
    amp::save_checkpoint(directory.path(), run.parts());
  }
  const auto loaded = [&](const std::string& path) {
    return amp::load_checkpoint(path, run.parts()).step;
  };
  CHECK(loaded(directory.path()) == 3);
  CHECK(loaded(directory.path() + "///") == 3);
  CHECK(loaded(directory / "step-000002") == 2);
  CHECK(loaded(directory / "step-000002/") == 2);
  // Continue from the second: the third belongs to an abandoned run.
  run.done = 2;
  amp::save_checkpoint(directory.path(), run.parts());
  CHECK(loaded(directory.path()) == 2);
  nets::LogCapture log;
  std::filesystem::remove(directory / "step-000002/model.safetensors");
  CHECK(loaded(directory.path()) == 1);
  REQUIRE(log.lines.size() == 1);
  CHECK(log.lines[0] == "load_checkpoint(" + (directory / "step-000002/model.safetensors") +
                            "): cannot open the file; got No such file or directory; the next "
                            "older checkpoint is tried");
  std::filesystem::remove(directory / "step-000001/state.json");
  CHECK(loaded(directory.path()) == 3);
  check_refused<IoError>(run, directory / "step-000001",
                         "step-000001/state.json): cannot open the file");
  std::filesystem::remove(directory / "step-000003/state.json");
  check_refused<FormatError>(run, directory.path(),
                             "every checkpoint is damaged; got load_checkpoint(");
  const files::Directory empty = files::Directory::fast();
  check_refused<IoError>(run, empty.path(), "there is no checkpoint");
  check_refused<IoError>(run, empty / "absent",
                         "cannot read the directory; got No such file or directory");
  check_refused<IoError>(run, empty / "step-000009", "cannot open the file");
  files::write(empty / "file", "");
  check_refused<IoError>(run, empty / "file", "cannot read the directory; got Not a directory");
}

TEST_CASE("latest is a hint and not a path", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "O0"});
  amp::save_checkpoint(directory / "elsewhere", run.parts());
  run.steps(1);
  amp::save_checkpoint(directory / "run", run.parts());
  run.steps(1);
  amp::save_checkpoint(directory / "run", run.parts());
  const auto loaded = [&] { return amp::load_checkpoint(directory / "run", run.parts()).step; };
  for (const char* text :
       {"../elsewhere/step-000000", "/etc", "", "step-1", "step-000001/",
        "step-000009999999999999999999", "step-000001x", "state.json", "\xFF\xFE"}) {
    INFO(text);
    files::write(directory / "run/latest", text);
    CHECK(loaded() == 2);
  }
  files::write(directory / "run/latest", std::string(1 << 20, 'a'));
  CHECK(loaded() == 2);
  files::write(directory / "run/latest", "step-000001");
  CHECK(loaded() == 1);
  std::filesystem::remove(directory / "run/latest");
  CHECK(loaded() == 2);
}

TEST_CASE("keep removes the oldest checkpoints and no other files", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "O0"});
  const auto save = [&](std::int64_t keep) {
    run.step();
    amp::save_checkpoint(directory.path(), run.parts(), {.keep = keep});
  };
  for (int i = 0; i < 4; ++i) save(0);
  CHECK(names_in(directory.path()).size() == 5);
  files::write(directory / "step-000002/notes.txt", "mine");
  files::write(directory / "step-5", "mine");
  std::filesystem::create_directory(directory / "step-best");
  std::filesystem::create_directory_symlink("step-best", directory / "step-000000");
  nets::LogCapture log;
  save(2);
  CHECK(names_in(directory.path()) ==
        std::vector<std::string>{"latest", "step-000000", "step-000002", "step-000004",
                                 "step-000005", "step-5", "step-best"});
  CHECK(files::read(directory / "step-000002/notes.txt") == "mine");
  CHECK(std::filesystem::exists(directory / "step-000002/state.json"));
  CHECK(log.lines.empty());
  // Checkpoints newer than the new one belong to an abandoned run and are removed first.
  run.done = 0;
  save(1);
  CHECK(names_in(directory.path()) == std::vector<std::string>{"latest", "step-000000",
                                                               "step-000001", "step-000002",
                                                               "step-5", "step-best"});
  CHECK(amp::load_checkpoint(directory.path(), run.parts()).step == 1);
}

TEST_CASE("a step directory with foreign files is not replaced", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "O0"});
  const std::string path = amp::save_checkpoint(directory.path(), run.parts());
  files::write(path + "/notes.txt", "mine");
  CHECK_THROWS_WITH_AS_TEXT(amp::save_checkpoint(directory.path(), run.parts()), IoError,
                            "holds other files; move it away");
  std::filesystem::remove(path + "/notes.txt");
  CHECK_NOTHROW(amp::save_checkpoint(directory.path(), run.parts()));
  CHECK(names_in(directory.path()) == std::vector<std::string>{"latest", "step-000000"});
  std::filesystem::remove_all(path);
  files::write(path, "a file");
  CHECK_THROWS_WITH_AS_TEXT(amp::save_checkpoint(directory.path(), run.parts()), IoError,
                            "not a directory");
  CHECK(files::read(path) == "a file");
}

TEST_CASE("links are followed, and skipped checkpoints are reported", "[checkpoint]") {
  namespace fs = std::filesystem;
  const files::Directory directory = files::Directory::fast();
  const std::string run_path = directory / "run", latest = directory / "run/latest";
  Run run({.surface = "O0"});
  for (int i = 0; i < 3; ++i) {
    run.step();
    amp::save_checkpoint(run_path, run.parts());
  }
  nets::LogCapture log;
  const auto load = [&] {
    log.lines.clear();
    amp::LoadedCheckpoint loaded = amp::load_checkpoint(run_path, run.parts());
    CHECK(loaded.passed_over == log.lines);
    run.resumed(loaded);
    return loaded;
  };
  const auto says = [&](const std::string& part) {
    return log.lines.size() == 1 && log.lines[0].find(part) != std::string::npos;
  };
  CHECK(load().step == 3);
  CHECK(log.lines.empty());

  // A step that is a link.
  fs::rename(directory / "run/step-000003", directory / "kept");
  CHECK(load().step == 2);
  CHECK(
      says("step-000003/state.json): cannot open the file; got No such file or directory; the next "
           "older"));
  fs::create_directory_symlink("../kept", directory / "run/step-000003");
  CHECK(load().step == 3);
  CHECK(log.lines.empty());
  fs::remove(directory / "run/step-000003");
  fs::create_directory_symlink("../gone", directory / "run/step-000003");
  CHECK(load().step == 2);
  CHECK(says("the next older checkpoint is tried"));
  fs::remove(directory / "run/step-000003");
  files::write(directory / "run/step-000003", "a file");
  CHECK(load().step == 2);
  CHECK(says("Not a directory"));
  fs::remove(directory / "run/step-000003");
  fs::rename(directory / "kept", directory / "run/step-000003");

  // A latest that is a link: to a file, a step here, a step elsewhere, nothing.
  fs::rename(latest, directory / "pointer");
  files::write(directory / "pointer", "step-000002\n");
  fs::create_symlink("../pointer", latest);
  CHECK(load().step == 2);
  fs::remove(latest);
  fs::create_directory_symlink("step-000001", latest);
  const amp::LoadedCheckpoint first = load();
  CHECK(first.step == 1);
  CHECK(first.path == directory / "run/step-000001");
  CHECK(log.lines.empty());
  fs::remove(latest);
  run.step();
  amp::save_checkpoint(directory / "other", run.parts());
  const std::int64_t other_step = run.done;
  fs::create_directory_symlink(directory / ("other/" + io::step_name(other_step)), latest);
  CHECK(load().step == other_step);
  CHECK(log.lines.empty());
  fs::remove(latest);
  fs::create_symlink("nothing", latest);
  CHECK(load().step == 3);
  CHECK(says("latest): cannot open the file"));
  fs::remove(latest);
  fs::create_directory_symlink("step-000001", latest);
  run.step();
  amp::save_checkpoint(run_path, run.parts());  // replaces the link, not its target
  CHECK_FALSE(fs::is_symlink(latest));
  CHECK(fs::exists(directory / "run/step-000001/state.json"));
  CHECK(load().step == 4);

  // A latest that names no checkpoint.
  files::write(latest, "step-000009\n");
  CHECK(load().step == 4);
  CHECK(says("step-000009/state.json): cannot open the file"));
  files::write(latest, "the best one\n");
  CHECK(load().step == 4);
  CHECK(says("latest): the file does not name a checkpoint; got \"the best one\""));
  fs::remove(latest);
  CHECK(load().step == 4);
  CHECK(log.lines.empty());
}
