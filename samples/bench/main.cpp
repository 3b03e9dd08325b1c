// bench: trains every sample net at every level from the same seed and prints time, memory and loss
// of each level.
//   bench                                 prints the table for five nets, at sizes at which
//   products
//                                         dominate, and which level to take on this machine
//   bench --nets all --html page.html     trains all nets, and writes a page with bars and curves
//   bench --report page.html              trains each net once more with amp::Report, and writes a
//                                         page of where its numbers lie at each level
//   bench --json all.json --csv all.csv   writes all figures, with the time of every step
//   bench --json-lines rows.jsonl         writes each row to a file as soon as it is measured
//   bench --export DIR                    writes initial weights and data for bench_torch.py
//   bench --peer FILE.json                prints times and ratios that bench_torch.py measured
//   bench --micro                         prints the cost of single operations and their targets
//   bench --micro --device cuda --size full
//                                         does so for a GPU: bandwidth, products, captured steps
//   bench --ops                           prints the time of operations, forward and backward, for
//                                         compare_torch_ops.py
//   mpirun -np 2 bench --ranks            trains on 2 ranks with nn::DistributedDataParallel, and
//                                         prints their efficiency and what communication costs
//   mpirun -np 2 bench --scaling-model    measures the communicator and the nets, and predicts the
//                                         steps of 2 to 512 ranks
#include <mezzo.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>

#include "../common/arguments.h"
#include "../common/program.h"
#include "../common/report_file.h"
#include "../common/run_options.h"
#include "../common/table.h"
#include "micro.h"
#include "ops.h"
#include "ranks_report.h"
#include "report.h"

namespace {

using namespace samples;

std::vector<std::string> names_of_levels() {
  std::vector<std::string> names;
  for (const mezzo::amp::Level& level : mezzo::amp::kLevels) names.emplace_back(level.name);
  return names;
}

struct Options {
  Setting setting;
  mezzo::bench::Options bench;
  std::vector<std::string> nets = default_nets(), levels = names_of_levels();
  std::string size = "default", device = "cpu", json, csv, json_lines, html, report, export_to,
              peer;
  std::int64_t threads = 0, seed = 1;
  bool micro = false, ops = false, ranks = false, scaling_model = false;
  bool quiet = false;
  std::vector<std::string> only = op_names();
  std::int64_t rounds = 15;
  NumericsOptions numerics;
};

void declare(Arguments& arguments, Options& o) {
  arguments.option("nets", o.nets, "which nets, separated by commas; all: every net");
  arguments.option("levels", o.levels, "which levels, separated by commas");
  arguments.option("size", o.size,
                   "default: each net's own, at which products dominate; tiny: a second or two; "
                   "small: for a laptop; full: for a GPU");
  arguments.option("batch", o.setting.batch, 0, 1000000,
                   "samples per step; 0 means the default of the size");
  arguments.option("width", o.setting.width, 0, 100000,
                   "width of the nets; 0 means the default of the size");
  arguments.option("steps", o.bench.steps, 1, 1000000000, "steps of each run");
  arguments.option("warm-up", o.bench.warm_up, 0, 1000000000,
                   "first steps of each run that are not timed");
  arguments.option("seconds", o.bench.seconds, 0, 1e6,
                   "limit of the time for more steps, until the 95 % interval of each median is at "
                   "most a tenth of it wide; 0: none");
  arguments.option("together", o.bench.together, 0, 1000000,
                   "nets that take turns; 0: as many as fit into half of the free memory");
  arguments.option("seed", o.seed, 0, std::int64_t{1} << 62, "seed of initial weights and data");
  arguments.option("device", o.device, "cpu or cuda[:n]");
  arguments.option("threads", o.threads, 0, 1024,
                   "0 means all cores; with --ranks and --scaling-model divided among the ranks");
  arguments.option("json", o.json, "write all figures to this file");
  arguments.option("csv", o.csv, "write all figures to this file, a line for each row");
  arguments.option("json-lines", o.json_lines,
                   "write each row to this file as soon as it is measured, also with --micro");
  arguments.option("html", o.html, "write a page with bars and curves to this file");
  arguments.option("report", o.report,
                   "then train each net once more at each level from the same weights, and write a "
                   "page of where the numbers lie (.html or .jsonl)");
  arguments.option("export", o.export_to,
                   "write each net's initial weights and data to this folder and exit");
  arguments.option("peer", o.peer, "print the comparison that bench_torch.py wrote to this file");
  arguments.flag("micro", o.micro, "measure single operations instead");
  arguments.flag(
      "ops", o.ops,
      "measure operations forward and backward instead, on one thread unless --threads is given");
  arguments.option("only", o.only, "which operations of --ops, separated by commas");
  arguments.option("rounds", o.rounds, 1, 100000,
                   "calls of each operation of --ops, and all-reduces of --scaling-model");
  arguments.flag("ranks", o.ranks,
                 "measure training on the ranks of mpirun, each with batches of --batch, instead: "
                 "efficiency, communication, CPU time");
  arguments.flag(
      "scaling-model", o.scaling_model,
      "predict the steps of 2 to 512 ranks instead, from the gradients' times and, under "
      "mpirun, the communicator's, which are measured");
  arguments.flag("quiet", o.quiet, "print no progress");
  declare(arguments, o.numerics);
}

/** Checks all options before anything is measured. */
void check(Options& o) {
  for (const std::string& level : o.levels) check_level(level);
  o.setting.size = parse_size(o.size);
  o.nets = parse_nets(o.nets);
  o.setting.device = parse_device(o.device);
  o.setting.seed = static_cast<std::uint64_t>(o.seed);
  if (o.bench.steps <= o.bench.warm_up)
    throw UsageError("--steps " + std::to_string(o.bench.steps) +
                     " leaves nothing to time after --warm-up " + std::to_string(o.bench.warm_up));
  for (const std::string& report : {o.json, o.csv, o.html})
    if (!report.empty()) check_writable(report);
}

int export_nets(const Options& o) {
  std::filesystem::create_directories(o.export_to);
  for (const std::string& net : o.nets) {
    const auto workload = make_workload(net, o.setting);
    mezzo::save_tensors(o.export_to + "/" + net + ".safetensors", workload->tensors,
                        workload->facts);
  }
  return 0;
}

/** Returns the exit status, and reports how many measurements failed. */
int status_of(std::size_t failed, std::size_t all, const char* of_what) {
  if (failed == 0) return 0;
  std::cerr << "bench: " << failed << " of " << all << " " << of_what << " failed\n";
  return 1;
}

/** Returns a sentence that says how this machine computes the products of a net. */
std::string products_on(const mezzo::Device& device) {
  if (device != mezzo::cpu)
    return "Steps run op by op, and each step synchronises to read its loss";
  const std::string kind = mezzo::cpu_product_kind();
  const auto how = [&](mezzo::DType dtype) {
    return mezzo::emulates_products(dtype, device) ? "f32" : kind;
  };
  return "Products of bf16 are computed by " + how(mezzo::bf16) + ", those of f16 by " +
         how(mezzo::f16) + (mezzo::exact_products() ? " (MEZZO_EXACT_PRODUCTS)" : "");
}

/** Returns the options for the library. */
mezzo::bench::Options bench_options(const Options& o) {
  mezzo::bench::Options options = o.bench;
  options.levels = o.levels;
  options.device = o.setting.device;
  options.seed = o.setting.seed;
  options.notes = {{"size", o.size}};
  return options;
}

int compare_levels(const Options& o) {
  JsonLines lines(o.json_lines);
  std::optional<mezzo::amp::ReportFile> report;
  if (!o.report.empty()) report.emplace(o.report);
  if (!o.quiet)
    std::cerr << description(o.setting.device) << ". " << products_on(o.setting.device) << '\n';
  std::vector<mezzo::bench::Net> nets;
  for (const std::string& net : o.nets) nets.push_back(bench_net(net, o.setting));
  mezzo::Progress progress("bench", static_cast<std::int64_t>(o.nets.size() * o.levels.size()),
                           o.quiet);
  std::int64_t rows = 0;
  const mezzo::bench::Results results =
      measure(nets, bench_options(o),
              {.facts = [&](const mezzo::bench::Facts& facts) { lines.write(facts); },
               .row =
                   [&](const mezzo::bench::Row& row) {
                     lines.write(row);
                     ++rows;
                   },
               .time = [&](double done, double left) { progress.time(done, left, rows); }});
  progress.clear();
  std::cout << table(results);
  if (!o.json.empty()) write_report(o.json, json(results));
  if (!o.csv.empty()) write_report(o.csv, csv(results));
  if (!o.html.empty()) mezzo::bench::write_page(o.html, results);
  lines.finish();
  std::size_t runs = results.rows.size(), failed = errors(results).size();
  if (report) {
    for (const std::string& error : record(nets, *report, bench_options(o))) {
      std::cout << error << "\n";
      ++failed;
    }
    report->close();
    runs *= 2;
  }
  return status_of(failed, runs, "runs");
}

int print_peer(const std::string& path) {
  const PeerReport peer = read_peer(path);
  std::cout << peer.facts << "\n";
  std::cout << peer.table.text();
  for (const std::string& error : peer.errors) std::cout << error << "\n";
  return 0;
}

int measure_operations(const Options& o) {
  const mezzo::Device device = parse_device(o.device);
  const Size size = parse_size(o.size);
  JsonLines lines(o.json_lines);
  lines.write(mezzo::bench::Facts{
      .environment = mezzo::environment(device), .roof = {}, .notes = {{"size", o.size}}});
  MicroResults results([&](const MicroResult& row) { lines.write(row); });
  device == mezzo::cpu ? run_micro(results) : run_gpu_micro(device, size, results);
  Table table{{"operation", "figure", "unit", "target"}, {}};
  std::vector<std::string> errors;
  for (const MicroResult& r : results.rows()) {
    const bool failed = !r.error.empty();
    table.rows.push_back({r.what, failed ? "failed" : fixed(r.value, 2), r.unit, r.target});
    if (failed) errors.push_back(mezzo::error_text(r.what + " failed", {.what = r.error}));
  }
  std::cout << table.text();
  for (const std::string& error : errors) std::cout << error << "\n";
  lines.finish();
  return status_of(errors.size(), results.rows().size(), "operations");
}

int measure_ops(const Options& o) {
  if (o.threads == 0) mezzo::set_num_threads(1);
  const std::vector<Figure> figures = run_ops(o.only, o.rounds);
  Table table{{"operation", "ms"}, {}};
  for (const Figure& f : figures) table.rows.push_back({f.name, fixed(f.value, 3)});
  std::cout << table.text();
  if (!o.json.empty()) write_figures(o.json, "ms", figures);
  return 0;
}

// ---- several ranks ------------------------------------------------------------------------------

/** Throws UsageError for options that --ranks and --scaling-model do not have. */
void check_mode_options(const Options& o) {
  const std::string mode = o.ranks ? "--ranks" : "--scaling-model";
  const auto refuse = [&](const char* name, const std::string& value) {
    if (!value.empty()) throw UsageError(mode + " has no --" + name);
  };
  if (o.ranks && o.scaling_model) throw UsageError("--ranks and --scaling-model: choose one");
  if (o.device != "cpu")
    throw UsageError("--device " + o.device + ": " + mode + " measures on the CPU only");
  refuse("csv", o.csv);
  refuse("json-lines", o.json_lines);
  refuse("report", o.report);
  if (!o.ranks) refuse("html", o.html);
}

/** Without --threads, divides the threads among the ranks of the machine. */
void share_cores(const Options& o, int local_ranks) {
  if (o.threads == 0 && std::getenv("MEZZO_NUM_THREADS") == nullptr)
    mezzo::set_num_threads(std::max(1, mezzo::num_threads() / local_ranks));
}

int compare_ranks(const RankOptions& options, const Options& o,
                  const mezzo::comm::Communicator& all) {
  mezzo::Progress progress("bench", static_cast<std::int64_t>(o.nets.size() * o.levels.size()),
                           o.quiet);
  std::vector<RankRow> rows;
  measure_ranks(all, options, [&](const RankRow& row) {
    rows.push_back(row);
    progress.step(std::ssize(rows), row.net + " " + row.level);
  });
  progress.clear();
  if (all.rank() != 0) return 0;
  const RankFacts facts{o.size, options.warm_up, options.steps};
  std::cout << text_table(rows).text();
  if (!o.json.empty()) write_report(o.json, json(facts, rows));
  if (!o.html.empty()) write_report(o.html, page(facts, rows));
  return 0;
}

int predict_ranks(const RankOptions& options, const Options& o,
                  const mezzo::comm::Communicator& all) {
  mezzo::Progress progress("bench", static_cast<std::int64_t>(o.nets.size() * o.levels.size()),
                           o.quiet);
  std::int64_t rows = 0;
  const ScalingResults results = measure_scaling(
      all, options, o.rounds,
      [&](const ScalingRow& row) { progress.step(++rows, row.net + " " + row.level); });
  progress.clear();
  if (all.rank() != 0) return 0;
  std::cout << tables(results);
  if (!o.json.empty())
    write_report(o.json, json({o.size, options.warm_up, options.steps}, results));
  return 0;
}

/** Runs --ranks or --scaling-model. Rank 0 prints and writes, the others are quiet. */
int measure_with_ranks(Options& o) {
  const mezzo::comm::World world = mezzo::comm::init();
  const mezzo::comm::Communicator all = world.all();
  const int local_ranks = 1 + static_cast<int>(all.max(world.local_rank()));
  share_cores(o, local_ranks);
  if (all.size() == 1 && !o.quiet)
    std::cerr << "One rank. To measure N: mpirun -np N build/samples/bench "
              << (o.ranks ? "--ranks" : "--scaling-model") << '\n';
  if (all.rank() != 0) o.quiet = true;
  const RankOptions options{.nets = o.nets,
                            .levels = o.levels,
                            .setting = o.setting,
                            .warm_up = o.bench.warm_up,
                            .steps = o.bench.steps,
                            .seconds = o.bench.seconds,
                            .local_ranks = local_ranks};
  return o.ranks ? compare_ranks(options, o, all) : predict_ranks(options, o, all);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Arguments arguments("bench",
                      "Trains the sample nets at every level of mixed precision, side by side, and "
                      "prints a table.");
  declare(arguments, options);
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return run_program("bench", [&] {
    if (options.ops && options.device != "cpu")
      throw UsageError("--device " + options.device + ": --ops measures on the CPU only");
    const bool has_rows = !options.ops && options.peer.empty() && options.export_to.empty();
    if (!options.json_lines.empty() && !has_rows)
      throw UsageError("--json-lines: --ops, --peer and --export write no rows");
    if (options.threads > 0) mezzo::set_num_threads(static_cast<int>(options.threads));
    apply(options.numerics);
    if (options.ops) return measure_ops(options);
    if (options.micro) return measure_operations(options);
    if (!options.peer.empty()) return print_peer(options.peer);
    mezzo::tune_malloc();
    if (options.ranks || options.scaling_model) check_mode_options(options);
    check(options);
    if (options.ranks || options.scaling_model) return measure_with_ranks(options);
    return options.export_to.empty() ? compare_levels(options) : export_nets(options);
  });
}
