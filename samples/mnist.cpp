// mnist: trains one net on digits at one level of mixed precision.
//   mnist --net lenet --opt-level O2 --data DIR
#include <mezzo.h>

#include "common/arguments.h"
#include "common/program.h"
#include "common/table.h"
#include "common/training.h"

namespace {

using namespace samples;

struct Options {
  TrainSettings settings;
  std::string data, device = "cpu", json;
  std::int64_t threads = 0, seed = 1, train = 8000, test = 2000;
};

void declare(Arguments& arguments, Options& o) {
  arguments.choice("net", o.settings.net, net_names(), "which net");
  arguments.option("opt-level", o.settings.level, "level of mixed precision, O0 to O5");
  arguments.option("data", o.data,
                   "folder with MNIST's IDX files (.gz or not); without it digits are drawn by the program");
  arguments.option("train", o.train, 1, 1000000, "number of drawn digits to train on");
  arguments.option("test", o.test, 1, 1000000, "number of drawn digits to test on");
  arguments.option("epochs", o.settings.epochs, 0, 100000, "walks over the training data");
  arguments.option("batch", o.settings.batch, 1, 1000000, "images per step");
  arguments.option("steps", o.settings.max_steps, 0, 1000000000,
                   "stop after so many steps; 0 means no limit");
  arguments.option("lr", o.settings.lr, "learning rate of Adam");
  arguments.option("seed", o.seed, 0, std::int64_t{1} << 62, "of initial weights, order and drawn digits");
  arguments.option("device", o.device, "cpu or cuda[:n]");
  arguments.option("threads", o.threads, 0, 1024, "0 means all cores");
  arguments.option("save", o.settings.save, "directory for checkpoints, one after each epoch");
  arguments.option("resume", o.settings.resume, "directory of checkpoints, or one of them, to go on from");
  arguments.option("json", o.json, "write the result to this file");
  arguments.flag("quiet", o.settings.quiet, "no progress");
}

/** What was measured; and last what was learned, which is the same for any run with these settings, resumed or not. */
void print_result(const TrainResult& r) {
  std::cout << r.net << " " << r.level << ": " << fixed(r.step_ms, 2) << " ms per step, peak memory "
            << bytes_text(static_cast<double>(r.peak_bytes)) << "\n"
            << r.net << " " << r.level << ": test accuracy " << fixed(100 * r.accuracy, 2) << " %, loss "
            << fixed(r.final_loss, 6) << ", " << r.steps << " steps, " << r.skipped_steps
            << " skipped, loss scale " << fixed(r.loss_scale, 0) << "\n";
}

int train_and_report(Options& o) {
  check_level(o.settings.level);
  o.settings.seed = static_cast<std::uint64_t>(o.seed);
  o.settings.device = parse_device(o.device);
  if (o.threads > 0) mezzo::set_num_threads(static_cast<int>(o.threads));
  const mezzo::data::Split digits = load_digits(o.data, o.train, o.test, o.settings.seed);
  if (!o.settings.quiet) std::cerr << digits.train.notice() << "\n";
  const TrainResult result = train(o.settings, digits);
  print_result(result);
  if (!o.json.empty()) write_json(o.json, o.settings, digits.train.notice(), {result});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Arguments arguments("mnist", "Trains a net on digits at one level of mixed precision.");
  declare(arguments, options);
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return run_program("mnist", [&] { return train_and_report(options); });
}
