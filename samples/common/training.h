// Training a digit net at one level: what both `mnist` and `bench` do.
// Sees: mezzo.h, progress.h.
// Read next: training.cpp, nets.h.
#pragma once

#include <mezzo.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace samples {

struct TrainSettings {
  std::string net = "lenet";  // or "mlp"
  std::string level = "O0";
  std::int64_t epochs = 2;
  std::int64_t batch = 64;
  std::int64_t max_steps = 0;  // 0: no limit besides the epochs
  double lr = 1e-3;
  std::uint64_t seed = 1;
  mezzo::Device device = mezzo::cpu;
  std::string save = {}, resume = {};  // directories of checkpoints; empty for none
  bool quiet = false;
};

/** What came of a run. */
struct TrainResult {
  std::string net, level;
  std::int64_t steps =
      0;               // with those before a resumed run's checkpoint, as are the other figures of training
  double step_ms = 0;  // median over the steps
  double samples_per_s = 0;  // batch over the median step
  std::int64_t peak_bytes = 0;
  double final_loss = 0;  // mean over the last steps of training
  double accuracy = 0;    // share of the test images, 0..1
  std::int64_t skipped_steps = 0;
  double loss_scale = 1;  // at the end
  double casts_per_step = 0;
  double cast_bytes_per_step = 0;
  std::vector<double> losses;  // of every step of this process
};

/** A net of any type, as a module and as a function of a batch of images. */
struct Net {
  mezzo::nn::Module module;
  std::function<mezzo::Tensor(const mezzo::Tensor&)> forward;
};

/** "mlp" or "lenet", with initial values drawn from this thread's generator. */
Net make_net(const std::string& name);
const std::vector<std::string>& net_names();

/** Errors: UsageError unless the name is one of O0..O5. */
void check_level(const std::string& level);
/** Errors: UsageError for a text that names no device, DeviceError for one that is not here. */
mezzo::Device parse_device(const std::string& text);

/** Digits from IDX files in `dir`, or drawn by the program where `dir` is empty. */
mezzo::data::Split load_digits(const std::string& dir, std::int64_t train, std::int64_t test,
                               std::uint64_t seed);

/** Trains and judges. Same settings, data and build: same losses, bit for bit, for any number of threads. */
TrainResult train(const TrainSettings& settings, const mezzo::data::Split& digits);

/** Share of the samples whose largest logit is the label. */
double accuracy(const Net& net, const mezzo::data::Dataset& test);

/** Writes results, with settings and data, as JSON. */
void write_json(const std::string& path, const TrainSettings& settings, const std::string& data,
                const std::vector<TrainResult>& results);

}  // namespace samples
