// bench::measure: trains nets at every level of mixed precision, in turns, and reports times, lower
// bounds of time, memory, casts and losses:
//   const bench::Net net{"my net", [](const bench::Setting& setting) {
//     auto model = ...;
//     auto optimizer = std::make_shared<optim::Adam>(model.parameters(), optim::AdamOptions{});
//     return bench::supervised(setting, {.model = model, .optimizer = optimizer, .loss = ...,
//                                        .batches = ...});
//   }};
//   std::cout << bench::table(bench::measure({net}));
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../amp/checkpoint/checkpoint.h"
#include "../nn/data/batches.h"
#include "../nn/module.h"
#include "../optim/optimizer.h"
#include "../tensor/memory/allocator.h"
#include "environment.h"
#include "op_work.h"
#include "report/report_file.h"
#include "roof.h"
#include "statistics.h"
#include "text_table.h"

namespace mezzo::bench {

/** How a net is to be trained. */
struct Setting {
  /** Level of mixed precision, "O0" to "O5". */
  std::string level = "O0";
  Device device = cpu;     // device of the model and of the batches
  std::uint64_t seed = 1;  // this thread's generator starts with it
};

/** The result of a training step. */
struct StepOutcome {
  double loss = 0;       // not scaled
  bool skipped = false;  // the update was skipped because of an overflow
};

/** The training of one net at one level. */
class MZ_API Workload {
 public:
  virtual ~Workload();

  /** Runs training step `number`, counted from 0. On a GPU it returns when the device is done. */
  virtual StepOutcome step(std::int64_t number) = 0;
  /** Returns the parts that the steps train: optimizers, whose updates count as work, sessions or
   *  scalers, of which the first has the loss scale of the rows, and models, for record(). */
  virtual amp::Training training();

  std::int64_t samples = 0;  // in one step
};

/** A model with one optimizer and one loss. */
struct Supervised {
  nn::Module model;                                  // on the CPU, in f32
  std::shared_ptr<optim::Optimizer> optimizer = {};  // of the model's parameters
  std::function<Tensor(const Batch&)> loss = {};     // runs the model on a batch
  std::vector<Batch> batches = {};                   // the steps cycle through them
  double max_norm = 0;       // maximum norm for gradient clipping; 0: no clipping
  std::int64_t samples = 0;  // in one step; 0: the size of the first batch
};

/** Returns the workload of a model. Moves model and batches to the device and initialises mixed
 *  precision at the level. A step runs forward, backward under scale_loss, and the update. Errors:
 *  ValueError without an optimizer or batches; as amp::initialize. */
MZ_API std::unique_ptr<Workload> supervised(const Setting& setting, Supervised parts);

/** A net to be measured: its name and the function that constructs its training. The function is
 *  called once for each level, sometimes twice. Weights and batches must depend on nothing but the
 *  setting and this thread's generator, which starts with the seed. Memory allocated by the
 *  function counts as MemoryCategory::other, apart from weights, masters and optimizer state. */
struct Net {
  std::string name;  // as in the rows
  /** Constructs the training of this net. */
  std::function<std::unique_ptr<Workload>(const Setting& setting)> make;
};

/** Options of measure(). */
struct Options {
  std::vector<std::string> levels = {};  // empty: O0 to O5
  Device device = cpu;                   // device of models and batches
  std::uint64_t seed = 1;                // seed of each net
  std::int64_t warm_up = 5;              // first steps of each run, which are not timed
  std::int64_t steps = 40;    // of each run, with the warm-up; losses and memory are of these
  double seconds = 10;        // limit of the time for more rounds, until every row is stable
  std::int64_t together = 0;  // nets that take turns; 0: as many as fit into memory
  std::int64_t memory = 0;    // bytes for the nets that take turns; 0: on the CPU half of the free
                              // memory, on a GPU all of it
  std::optional<Roof> roof = {};  // unset: measured first
  /** What reports say about the program, such as {"size", "small"}. */
  std::vector<std::pair<std::string, std::string>> notes = {};
};

/** What applies to all rows. */
struct Facts {
  Environment environment;   // machine, build and time
  Roof roof;                 // limits of the device
  std::int64_t warm_up = 0;  // Options::warm_up, and the same for the others
  std::int64_t steps = 0;    // Options::steps
  double seconds = 0;        // Options::seconds
  /** Options::notes. */
  std::vector<std::pair<std::string, std::string>> notes = {};
};

/** A row whose interval is wider than this share of its median is unstable. */
inline constexpr double kStableWidth = 0.1;

/** Figures of one net at one level. */
struct MZ_API Row {
  std::string net;                    // name of the net
  std::string level;                  // level of mixed precision
  std::string error = {};             // why the run failed; such a row has no figures
  bool emulated = false;              // emulates_level(): products are computed in f32
  std::int64_t samples = 0;           // in one step
  MedianInterval step_ms = {};        // of the medians of the turns, without the warm-up
  MedianInterval over_o0 = {};        // step time over that of O0 in the same round; 0 without O0
  double fast_ms = 0;                 // the quantile of the step times at 10 %
  double slow_ms = 0;                 // at 90 %
  double samples_per_s = 0;           // samples of a step over its median time
  OpWork work = {};                   // of one step, with updates
  double floor_ms = 0;                // the sum of the lower bounds of time of a step's ops
  MemoryStats memory = {};            // peak memory of this net
  double loss = 0;                    // of the last of the steps
  double loss_scale = 1;              // after the last of the steps
  std::int64_t skipped_steps = 0;     // how many had an overflow
  double casts_per_step = 0;          // of the forward pass of the last of the steps
  double cast_bytes_per_step = 0;     // written by them
  std::vector<double> losses = {};    // of the steps, with the warm-up
  std::vector<double> times_ms = {};  // of all steps, with the warm-up and the rounds added

  /** Returns whether the interval of step_ms is wider than kStableWidth of the median. */
  bool unstable() const;
  /** Returns floor_ms over the median time: 1 means a step without any overhead. */
  double share_of_floor() const;
};

/** What measure() returns. */
struct Results {
  Facts facts;            // of all rows
  std::vector<Row> rows;  // by net, then by level
};

/** Receives facts and rows as soon as they are known. A function may be empty; it must not throw.
 */
struct Sink {
  /** Called once, before the first net. */
  std::function<void(const Facts& facts)> facts = {};
  /** Called for each row, in the order in which they are complete. */
  std::function<void(const Row& row)> row = {};
  /** Called after each turn, with the seconds so far and an estimate of the seconds left: every run
   *  that has trained goes on at its own speed, and all others cost their mean. */
  std::function<void(double done, double left)> time = {};
};

/** Trains every net at every level and returns their figures.
 *
 *  Nets and levels take turns of 5 steps: in each round, every level of every net has one, so that
 *  a machine that becomes slower slows all of them. The median of a turn is one value of the
 *  statistics, because steps of a turn are not independent. Rounds go on after the last step until
 *  all rows of a net are stable, or until the time for them is over. Nets that do not fit into
 *  memory together are measured one group after the other. Losses have the same bits in any order
 *  and for any number of threads; each run has a random generator of its own.
 *
 *  A level that throws becomes a row with an error, and the others continue. Errors: ValueError if
 *  the options leave nothing to time; as measure_roof() and environment(). */
MZ_API Results measure(const std::vector<Net>& nets, const Options& options = {},
                       const Sink& sink = {});

/** Trains every net at every level with amp::Report, one run after the other from the same weights,
 *  whose page compares the runs of one net:
 *    amp::ReportFile file("levels.html");
 *    bench::record({net}, file);
 *  Of the options only levels, device, seed and steps apply. About 20 steps of each run are
 *  sampled, at most every second one. Returns a line for each run that failed, as errors(). */
MZ_API std::vector<std::string> record(const std::vector<Net>& nets, amp::ReportFile& file,
                                       const Options& options = {});

/** Returns two text tables of about 80 columns: time, memory and loss of each row, and the other
 *  figures. Below are lines that say which rows are unstable or emulated, errors() and the
 *  summary(). */
MZ_API std::string table(const Results& results);
/** Returns the cells of both tables in one. */
MZ_API TextTable text_table(const Results& results);
/** Returns two sentences, a line each: what each level costs, in step times over those of O0, and
 *  which one to take. Rows that are unstable or failed do not count, nor do rows whose net has no
 *  stable row of O0. The level to take updates weights in f32 (not O3), and none is more than 3 %
 *  faster in the geometric mean over the nets. Of levels that are as fast it is the first of O4,
 *  O1, O5, O2: those that leave the weights in f32, then those without a dynamic loss scale. Empty
 *  unless there are rows of O0 and of another level. */
MZ_API std::string summary(const Results& results);
/** Returns a line for each row that failed: net, level and error. */
MZ_API std::vector<std::string> errors(const Results& results);
/** Returns the facts as a JSON object in one line. Numbers that are not finite are null. */
MZ_API std::string json(const Facts& facts);
/** Returns a row as a JSON object in one line; of a row that failed net, level and error. */
MZ_API std::string json(const Row& row);
/** Returns the JSON object of the facts with the member "runs": the rows. */
MZ_API std::string json(const Results& results);
/** Returns comma-separated values (RFC 4180): a heading, and one line per row with all facts and
 *  figures. Lists are separated by spaces within their cell. */
MZ_API std::string csv(const Results& results);
/** Writes a page that needs no network: the facts, the table, and for each net drawings of times,
 *  peak memory and losses. Errors: IoError with the path. */
MZ_API void write_page(const std::string& path, const Results& results);

}  // namespace mezzo::bench
