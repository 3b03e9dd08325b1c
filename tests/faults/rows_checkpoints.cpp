// Rows: checkpoints of whole trainings, and data loaders.
#include "../amp/trainings.h"
#include "../support/levels.h"
#include "look.h"
#include "rows.h"

namespace faults {

namespace {

/** A training whose state differs from the checkpoint in its directory. */
struct Stopped {
  files::Directory directory{scratch()};
  std::optional<trainings::Run> run;

  explicit Stopped(const trainings::Kind& kind) {
    {
      trainings::Run other(kind);
      other.steps(3);
      amp::save_checkpoint(directory.path(), other.parts());
    }
    trainings::Kind here = kind;
    here.seed = 77;
    run.emplace(here);
    run->steps(2);
  }
  State state() {
    State out = trainings::snapshot(*run);
    look(out, run->net.module);
    look(out, *run->optimizer);
    look(out, *run->schedule);
    if (run->session) look(out, *run->session);
    if (run->scaler) look(out, *run->scaler);
    // When a save fails, the new step may already exist: it appears whole or not at all. The next
    // save removes leftovers.
    for (const std::string& name : trainings::names_in(directory.path()))
      if (name != "step-000002" && name.find(".tmp-") == std::string::npos)
        out["files"] += " " + name;
    for (const char* file : {"model.safetensors", "optim.safetensors", "state.json"})
      out[file] = files::read(directory / (std::string("step-000003/") + file));
    return out;
  }
};

void add_stopped(std::vector<Row>& rows, const std::string& name, const trainings::Kind& kind,
                 const std::function<void(Stopped&)>& call) {
  rows.push_back({name, [=] {
                    const auto made = std::make_shared<Stopped>(kind);
                    return Subject{[=] { call(*made); }, [=] { return made->state(); }};
                  }});
}

void add_checkpoints(std::vector<Row>& rows) {
  const auto load = [](Stopped& s) {
    s.run->resumed(amp::load_checkpoint(s.directory.path(), s.run->parts()));
  };
  std::vector<const char*> surfaces = levels::names();
  surfaces.push_back("scaler");
  for (const char* surface : surfaces) {
    const trainings::Kind kind{.net = "conv", .surface = surface};
    add_stopped(rows, str("load_checkpoint at ", surface), kind, load);
    add_stopped(rows, str("save_checkpoint at ", surface), kind,
                [](Stopped& s) { amp::save_checkpoint(s.directory.path(), s.run->parts()); });
  }
  add_stopped(rows, "load_checkpoint of a word net", {.net = "word", .surface = "O2"}, load);
}

/** Adds rows on data loaders; `prepare` reads the batches that come before the call. */
void add_loader(std::vector<Row>& rows, const char* name, std::int64_t prefetch,
                const std::function<void(data::Batches&)>& prepare,
                const std::function<void(data::Batches&)>& call) {
  rows.push_back(
      {name, [=] {
         const auto loader = std::make_shared<data::Batches>(trainings::samples().batches(
             {.size = 4, .seed = 3, .prefetch = static_cast<int>(prefetch)}));
         prepare(*loader);
         return Subject{[=] { call(*loader); },
                        [=] {
                          const data::Position at = loader->position();
                          return State{{"loader", str(at.seed, " ", at.epoch, " ", at.sample)}};
                        }};
       }});
}

void add_loaders(std::vector<Row>& rows) {
  const auto nothing = [](data::Batches&) {};
  const auto two = [](data::Batches& all) { ++all.begin(); };
  for (const std::int64_t prefetch : {0, 2}) {
    const bool ahead = prefetch > 0;
    add_loader(rows, ahead ? "begin with a thread" : "begin", prefetch, nothing,
               [](data::Batches& all) { (void)all.begin(); });
    add_loader(rows, ahead ? "begin again with a thread" : "begin again", prefetch, two,
               [](data::Batches& all) { (void)all.begin(); });
    add_loader(rows, ahead ? "resume with a thread" : "resume", prefetch, two,
               [](data::Batches& all) { all.resume({.seed = 5, .epoch = 2, .sample = 8}); });
  }
  rows.push_back({"the next batch", [] {
                    const auto loader = std::make_shared<data::Batches>(
                        trainings::samples().batches({.size = 4, .seed = 3, .prefetch = 0}));
                    const auto at = std::make_shared<data::Batches::Iterator>(loader->begin());
                    return Subject{
                        [=] { ++*at; },
                        [=] {
                          const data::Position position = loader->position();
                          State out{{"loader", str(position.epoch, " ", position.sample)}};
                          look(out, "batch", (*at)->x);
                          return out;
                        }};
                  }});
}

}  // namespace

std::vector<Row> checkpoint_rows() {
  (void)scratch();  // created here, so that this process removes it
  std::vector<Row> rows;
  add_checkpoints(rows);
  add_loaders(rows);
  return rows;
}

}  // namespace faults
