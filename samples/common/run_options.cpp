#include "run_options.h"

#include <filesystem>

#include "program.h"
#include "report_file.h"

namespace samples {

using namespace mezzo;

void declare(Arguments& arguments, NumericsOptions& o) {
  arguments.flag("allow-tf32", o.tf32, "f32 products and convolutions on a GPU may round to TF32");
  arguments.flag("allow-nondeterministic", o.nondeterministic,
                 "on a GPU, use faster kernels whose last bits differ from run to run");
  arguments.flag("search-products", o.search_products,
                 "time the algorithms of cuBLASLt for each kind of matrix product");
}

void apply(const NumericsOptions& o) {
  set_allow_tf32(o.tf32);
  set_allow_nondeterministic(o.nondeterministic);
  set_search_products(o.search_products);
}

void declare(Arguments& arguments, RunOptions& o) {
  arguments.option("opt-level", o.level, "level of mixed precision, O0 to O5");
  arguments.option("steps", o.steps, 0, 1000000000, "maximum number of steps; 0 means no limit");
  arguments.option("seed", o.seed, 0, std::int64_t{1} << 62, "seed of all random numbers");
  arguments.option("device", o.device, "cpu or cuda[:n]");
  arguments.option("threads", o.threads, 0, 1024, "0 means all cores");
  arguments.option("save", o.save, "directory for checkpoints");
  arguments.option("save-every", o.save_every, 0, 1000000000,
                   "steps between additional checkpoints; 0 means none");
  arguments.option("resume", o.resume, "continue from this checkpoint or directory of checkpoints");
  arguments.option("json", o.json, "write the run's figures to this file");
  arguments.option("report", o.report,
                   "write a page that shows the numbers of the run to this file (.html)");
  arguments.option("tensorboard", o.tensorboard,
                   "with --report: write event files for TensorBoard and a CSV to this folder");
  arguments.option("profile", o.profile,
                   "write a trace of steps 4 to 8 to this file and print where their time goes");
  arguments.flag("quiet", o.quiet, "print no progress");
  declare(arguments, o.numerics);
}

namespace {

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    fail<IoError>("save(" + path + ")",
                  {.what = "cannot create the directory", .got = error.message()});
}

/** Throws UsageError unless a precision report can be written to that path. */
void check_report(const std::string& path) {
  if (!path.ends_with(".html") && !path.ends_with(".jsonl"))
    throw UsageError("--report: expected a path that ends in .html or .jsonl; got " + path);
  check_writable(path);
}

/** Throws unless the files that the options name can be written. */
void check_files(const RunOptions& options) {
  if (!options.json.empty()) check_writable(options.json);
  if (!options.profile.empty()) check_writable(options.profile);
  if (!options.report.empty()) check_report(options.report);
  if (!options.tensorboard.empty() && options.report.empty())
    throw UsageError("--tensorboard needs --report FILE.html");
  if (!options.save.empty()) make_folder(options.save);
}

}  // namespace

Device prepare(const RunOptions& options) {
  check_level(options.level);
  const Device device = parse_device(options.device);
  if (comm::init().is_main()) check_files(options);
  if (options.threads > 0) set_num_threads(static_cast<int>(options.threads));
  apply(options.numerics);
  manual_seed(static_cast<std::uint64_t>(options.seed));
  tune_malloc();
  return device;
}

void check_level(const std::string& level) {
  if (amp::find_level(level)) return;
  const std::string hint = level.starts_with("0") ? "; the letter O, not zero" : "";
  throw UsageError("unknown level; got \"" + level + "\", expected " +
                   std::string(amp::kLevels.front().name) + ".." +
                   std::string(amp::kLevels.back().name) + hint);
}

Device parse_device(const std::string& text) {
  try {
    return Device::parse(text);
  } catch (const ValueError& e) {
    throw UsageError(e.what());
  }
}

}  // namespace samples
