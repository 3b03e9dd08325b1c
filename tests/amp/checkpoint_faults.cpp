// If any system call of a save fails or the process dies there, an intact checkpoint remains, and
// the error says what happened.
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include <sys/wait.h>

#include "../../tensor/io/system_call.h"
#include "../support/catch.h"
#include "trainings.h"

using namespace trainings;

namespace {

// ---- faults -------------------------------------------------------------------------------------

enum class Fault { none, once, from_then_on, short_writes, death };

Fault fault = Fault::none;
int chosen = -1, calls = 0;
std::string failed_call;

int fault_of_call(std::string_view call) {
  const int index = calls++;
  if (fault == Fault::short_writes) return call == "write" ? io::kShortWrite : 0;
  const bool now = index == chosen || (fault == Fault::from_then_on && index > chosen);
  if (!now || fault == Fault::none) return 0;
  if (fault == Fault::death) ::raise(SIGKILL);
  if (index == chosen) failed_call = std::string(call);
  return ENOSPC;
}

struct FaultScope {
  FaultScope(Fault kind, int at) {
    fault = kind;
    chosen = at;
    calls = 0;
    failed_call.clear();
    io::set_file_fault(fault_of_call);
  }
  ~FaultScope() { io::set_file_fault(nullptr); }
};

int calls_of(const std::function<void()>& save) {
  const FaultScope counting(Fault::none, -1);
  save();
  return calls;
}

// ---- a directory with three checkpoints, and the save of a fourth -------------------------------

/** The state of the training after each of its first steps. */
struct Truth {
  std::map<int, std::map<std::string, std::string>> at;
  explicit Truth(const Kind& kind, int steps) {
    Run run(kind);
    for (int i = 0; i <= steps; ++i) {
      at[i] = snapshot(run);
      if (i < steps) run.step();
    }
  }
};

const Kind& kind() {
  static const Kind it{.net = "conv", .surface = "O2", .optimizer = "sgd"};
  return it;
}

/** Loads the best checkpoint of a directory into a new training. Returns its step, or -1 if the
 *  state differs from the saved one. */
int loaded_step(const std::string& directory, const Truth& truth) {
  Kind other = kind();
  other.seed = 9;
  Run run(other);
  run.resumed(amp::load_checkpoint(directory, run.parts()));
  const std::string wrong = difference(truth.at.at(run.done), snapshot(run));
  INFO("loaded step " << run.done << " differs in " << wrong);
  CHECK(wrong == "");
  return wrong.empty() ? run.done : -1;
}

/** Returns the contents of all files below a directory, by path. */
std::map<std::string, std::string> tree(const std::string& path) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
    if (entry.is_regular_file()) out[entry.path().string()] = files::read(entry.path().string());
  return out;
}

/** A save to disturb, into a directory that holds some steps. */
struct Scene {
  const char* what;
  std::vector<int> present;  // steps saved before
  int step;                  // the step to save
  std::int64_t keep;
};

const std::vector<Scene>& scenes() {
  static const std::vector<Scene> all{{"the fourth", {1, 2, 3}, 4, 0},
                                      {"one that prunes", {1, 2, 3}, 4, 2},
                                      {"one in place of an old one", {2, 3}, 3, 0}};
  return all;
}

void set_scene(const Scene& scene, const std::string& directory, Run& run) {
  for (const int step : scene.present) {
    run.steps(step - run.done);
    amp::save_checkpoint(directory, run.parts());
  }
  run.steps(scene.step - run.done);
}

}  // namespace

TEST_CASE("a fault at each system call of a save leaves an intact checkpoint", "[checkpoint]") {
  const Truth truth(kind(), 4);
  int faults = 0;
  for (const Scene& scene : scenes())
    for (const Fault mode : {Fault::once, Fault::from_then_on}) {
      int total = 1000;
      for (int at = 0; at < total; ++at) {
        const files::Directory directory = files::Directory::fast();
        const std::string path = directory / "run";
        Run run(kind());
        set_scene(scene, path, run);
        const auto before = tree(path);
        nets::LogCapture log;
        const auto save = [&] { amp::save_checkpoint(path, run.parts(), {.keep = scene.keep}); };
        if (at == 0) {
          const files::Directory other = files::Directory::fast();
          Run same(kind());
          set_scene(scene, other / "run", same);
          total = calls_of(
              [&] { amp::save_checkpoint(other / "run", same.parts(), {.keep = scene.keep}); });
          REQUIRE(total > 20);
        }
        std::string text;
        {
          const FaultScope scope(mode, at);
          text = files::thrown<IoError>(save);
        }
        ++faults;
        INFO(scene.what << ", call " << at << " (" << failed_call << "): " << text);
        const int step = loaded_step(path, truth);
        CHECK((step == scene.step || step == scene.present.back()));
        if (text == "nothing") {
          // Failures without effect: removing leftovers and old checkpoints.
          CHECK(step == scene.step);
        } else {
          CHECK(text.find("save_checkpoint(" + path) == 0);
          CHECK(text.find("No space left on device") != std::string::npos);
          for (const auto& [name, content] : before)
            if (step != scene.step && name.find("latest") == std::string::npos)
              CHECK(files::read(name) == content);
        }
        const bool in_place = text.find("is in its place") != std::string::npos;
        if (mode == Fault::once && text != "nothing" && !in_place)
          for (const auto& entry : std::filesystem::directory_iterator(path))
            CHECK(entry.path().string().find(".tmp-") == std::string::npos);
        // The next save succeeds and removes the leftovers.
        run.step();
        const std::string next = amp::save_checkpoint(path, run.parts(), {.keep = 1});
        CHECK(std::filesystem::exists(next + "/state.json"));
        for (const auto& entry : std::filesystem::directory_iterator(path))
          CHECK(entry.path().string().find(".tmp-") == std::string::npos);
      }
    }
  CHECK(faults > 200);
}

TEST_CASE("death at each system call of a save leaves an intact checkpoint", "[checkpoint]") {
  const Truth truth(kind(), 4);
  int deaths = 0;
  for (const Scene& scene : scenes()) {
    bool died = true;
    for (int at = 0; died; ++at) {
      const files::Directory directory = files::Directory::fast();
      Run run(kind());
      set_scene(scene, directory.path(), run);
      const pid_t child = ::fork();
      if (child == 0) {
        const FaultScope scope(Fault::death, at);
        amp::save_checkpoint(directory.path(), run.parts(), {.keep = scene.keep});
        ::_exit(0);
      }
      int status = 0;
      REQUIRE(::waitpid(child, &status, 0) == child);
      died = WIFSIGNALED(status);
      deaths += died ? 1 : 0;
      INFO(scene.what << ", death before call " << at);
      const int step = loaded_step(directory.path(), truth);
      CHECK((step == scene.step || step == scene.present.back()));
    }
  }
  CHECK(deaths > 100);
}

TEST_CASE("short writes are continued", "[checkpoint]") {
  const Truth truth(kind(), 1);
  const files::Directory directory = files::Directory::fast();
  Run run(kind());
  run.step();
  {
    const FaultScope scope(Fault::short_writes, -1);
    amp::save_checkpoint(directory.path(), run.parts());
  }
  CHECK(loaded_step(directory.path(), truth) == 1);
}

TEST_CASE("kill -9 at any moment leaves an intact checkpoint", "[checkpoint]") {
  constexpr int kKills = 100, kMost = 400;
  const Truth truth(kind(), kMost);
  const files::Directory directory = files::Directory::fast();
  const auto start = std::chrono::steady_clock::now();
  {
    Run run(kind());
    amp::save_checkpoint(directory.path(), run.parts());
    amp::save_checkpoint(directory.path(), run.parts());
  }
  const std::chrono::duration<double> a_while = std::chrono::steady_clock::now() - start;
  int kills = 0, furthest = 0;
  // On a busy machine a step may take many times as long as measured above: the delays grow until
  // one is saved.
  int rounds = 0;
  for (; rounds < kKills || (furthest == 0 && rounds < 20 * kKills); ++rounds) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        Run run(kind());
        run.resumed(amp::load_checkpoint(directory.path(), run.parts()));
        for (;;) {
          if (run.done < kMost) run.step();
          amp::save_checkpoint(directory.path(), run.parts(), {.keep = 2});
        }
      } catch (...) {
        ::_exit(1);
      }
    }
    std::this_thread::sleep_for(a_while * (0.25 + rounds * 37 % kKills * 0.03) *
                                (1 + rounds / kKills));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    kills += WIFSIGNALED(status) ? 1 : 0;
    const int step = loaded_step(directory.path(), truth);
    CHECK(step >= furthest);
    furthest = step;
  }
  CHECK(kills == rounds);
  CHECK(furthest > 0);
}
