// bench: trains the digit nets at every level from the same seed and prints what each level costs and brings.
//   bench                   the table, on digits drawn by the program
//   bench --data DIR        the same on MNIST
//   bench --micro           the cost of single operations against what the project wants
//   bench --ops             the time of operations forward and backward, for ../compare_torch_ops.py
#include <mezzo.h>

#include <algorithm>

#include "../common/arguments.h"
#include "../common/program.h"
#include "../common/table.h"
#include "../common/training.h"
#include "micro.h"
#include "ops.h"

namespace {

using namespace samples;

struct Options {
  TrainSettings settings{.epochs = 1, .batch = 128};
  std::vector<std::string> nets = net_names(), levels{"O0", "O1", "O2", "O3", "O4", "O5"};
  std::string data, device = "cpu", json;
  std::int64_t threads = 0, seed = 1, train = 8000, test = 2000;
  bool micro = false, ops = false;
  std::vector<std::string> only = op_names();
  std::int64_t rounds = 15;
};

void declare(Arguments& arguments, Options& o) {
  arguments.option("nets", o.nets, "which nets, separated by commas: mlp, lenet");
  arguments.option("levels", o.levels, "which levels, separated by commas");
  arguments.option("data", o.data,
                   "folder with MNIST's IDX files (.gz or not); without it digits are drawn by the program");
  arguments.option("train", o.train, 1, 1000000, "number of drawn digits to train on");
  arguments.option("test", o.test, 1, 1000000, "number of drawn digits to test on");
  arguments.option("epochs", o.settings.epochs, 0, 100000, "walks over the training data");
  arguments.option("batch", o.settings.batch, 1, 1000000, "images per step");
  arguments.option("steps", o.settings.max_steps, 0, 1000000000,
                   "stop each run after so many steps; 0 means no limit");
  arguments.option("lr", o.settings.lr, "learning rate of Adam");
  arguments.option("seed", o.seed, 0, std::int64_t{1} << 62, "of initial weights, order and drawn digits");
  arguments.option("device", o.device, "cpu or cuda[:n]");
  arguments.option("threads", o.threads, 0, 1024, "0 means all cores");
  arguments.option("json", o.json, "write the table's fields to this file");
  arguments.flag("micro", o.micro, "measure single operations instead");
  arguments.flag("ops", o.ops,
                 "measure operations forward and backward instead, on one thread unless told otherwise");
  arguments.option("only", o.only, "which operations, separated by commas; all of them without");
  arguments.option("rounds", o.rounds, 1, 100000, "calls of each operation");
  arguments.flag("quiet", o.settings.quiet, "no progress");
}

void check_names(const Options& o) {
  for (const std::string& level : o.levels) check_level(level);
  for (const std::string& net : o.nets)
    if (std::find(net_names().begin(), net_names().end(), net) == net_names().end())
      throw UsageError("--nets: unknown net; got \"" + net + "\", expected mlp or lenet");
}

std::vector<std::string> row_of(const TrainResult& r, double o0_ms) {
  return {r.net,
          r.level,
          fixed(r.step_ms, 2),
          fixed(r.samples_per_s, 0),
          o0_ms > 0 ? fixed(r.step_ms / o0_ms, 2) : "-",
          bytes_text(static_cast<double>(r.peak_bytes)),
          fixed(r.final_loss, 4),
          fixed(100 * r.accuracy, 2),
          std::to_string(r.skipped_steps),
          fixed(r.loss_scale, 0),
          fixed(r.casts_per_step, 1),
          bytes_text(r.cast_bytes_per_step)};
}

Table table_of(const std::vector<TrainResult>& results) {
  Table table{{"net", "level", "step ms", "samples/s", "time/O0", "peak memory", "loss", "accuracy %",
               "skipped", "loss scale", "casts/step", "cast bytes/step"},
              {}};
  for (const TrainResult& r : results) {
    double o0_ms = 0;
    for (const TrainResult& other : results)
      if (other.net == r.net && other.level == "O0") o0_ms = other.step_ms;
    table.rows.push_back(row_of(r, o0_ms));
  }
  return table;
}

int compare_levels(Options& o) {
  check_names(o);
  o.settings.seed = static_cast<std::uint64_t>(o.seed);
  o.settings.device = parse_device(o.device);
  const mezzo::data::Split digits = load_digits(o.data, o.train, o.test, o.settings.seed);
  if (!o.settings.quiet)
    std::cerr << digits.train.notice() << "\n"
              << digits.train.size() << " to train on, " << digits.test.size() << " to test on; "
              << mezzo::num_threads()
              << " threads. On the CPU, 16-bit levels are emulated: they round as a GPU does, but are not "
                 "faster.\n";
  std::vector<TrainResult> results;
  for (const std::string& net : o.nets)
    for (const std::string& level : o.levels) {
      o.settings.net = net;
      o.settings.level = level;
      results.push_back(train(o.settings, digits));
    }
  print(std::cout, table_of(results));
  if (!o.json.empty()) write_json(o.json, o.settings, digits.train.notice(), results);
  return 0;
}

int measure_operations() {
  Table table{{"operation", "figure", "unit", "target"}, {}};
  for (const MicroResult& r : run_micro())
    table.rows.push_back({r.what, fixed(r.value, 2), r.unit, r.target});
  print(std::cout, table);
  return 0;
}

int measure_ops(const Options& o) {
  if (o.threads == 0) mezzo::set_num_threads(1);
  const std::vector<Figure> figures = run_ops(o.only, o.rounds);
  Table table{{"operation", "ms"}, {}};
  for (const Figure& f : figures) table.rows.push_back({f.name, fixed(f.value, 3)});
  print(std::cout, table);
  if (!o.json.empty()) write_figures(o.json, "ms", figures);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Arguments arguments(
      "bench", "Trains digit nets at every level of mixed precision, side by side, and prints a table.");
  declare(arguments, options);
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return run_program("bench", [&] {
    if (options.threads > 0) mezzo::set_num_threads(static_cast<int>(options.threads));
    if (options.ops) return measure_ops(options);
    return options.micro ? measure_operations() : compare_levels(options);
  });
}
