// Workload: the training of one net, for the bench, the loss curves of tests/samples, and the
// comparison with PyTorch.
#pragma once

#include <mezzo.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace samples {

enum class Size : std::uint8_t {
  tiny,    // for tests, takes a second or two
  small,   // for a laptop
  full,    // for a GPU
  of_net,  // that of the net at which products dominate: full on a GPU
};

/** Settings of a workload. */
struct Setting {
  Size size = Size::tiny;
  std::string level = "O0";           // level of mixed precision
  std::int64_t batch = 0;             // samples in a step; 0: the default of the size
  std::int64_t width = 0;             // width of the net; 0: the default of the size
  mezzo::Device device = mezzo::cpu;  // device of the net and the batches
  std::uint64_t seed = 1;             // seed of weights and data

  /** Returns the value for this size, which is not of_net. */
  template <class T> T pick(T tiny, T small, T full) const {
    return size == Size::tiny ? tiny : size == Size::small ? small : full;
  }
  /** Returns the user's batch, or the value for this size. */
  std::int64_t pick_batch(std::int64_t tiny, std::int64_t small, std::int64_t full) const {
    return batch > 0 ? batch : pick(tiny, small, full);
  }
  /** Returns the user's width, or the value for this size. */
  std::int64_t pick_width(std::int64_t tiny, std::int64_t small, std::int64_t full) const {
    return width > 0 ? width : pick(tiny, small, full);
  }
};

using mezzo::bench::StepOutcome;
using mezzo::bench::Supervised;

/** The training of a sample net. A sample is an image or a stretch of text. */
class Workload : public mezzo::bench::Workload {
 public:
  // Data for the same training in another program: initial weights and all batches by name, and
  // the options of net and optimizer.
  mezzo::NamedTensors tensors;
  mezzo::TensorMetadata facts;
};

/** Number of different batches. The steps cycle through them. */
inline constexpr std::int64_t kBatches = 4;

/** Returns the workload of mezzo::bench::supervised(). Its `tensors` contain the weights and the
 *  batches. */
std::unique_ptr<Workload> supervised(const Setting& setting, const Supervised& parts,
                                     mezzo::TensorMetadata facts);

/** Returns the first kBatches batches of a data set. */
std::vector<mezzo::Batch> batches_of(const mezzo::data::Dataset& data, std::int64_t size);
/** Appends the parameters and buffers of a module, with `prefix` before their names. */
void add_weights(mezzo::NamedTensors& tensors, const std::string& prefix,
                 const mezzo::nn::Module& module);

/** The name of a net and the function that makes its workload. */
struct NetEntry {
  std::string_view name;
  std::unique_ptr<Workload> (*make)(const Setting& setting);
};

/** Returns all nets of samples/bench/nets, in alphabetical order. The list is in
 *  samples/meson.build. */
std::span<const NetEntry> all_nets();
/** Returns the names of the nets that the bench trains by default: one of each kind. */
std::vector<std::string> default_nets();
/** Returns the nets of --nets, where "all" stands for all_nets(). Errors: UsageError for an unknown
 *  name. */
std::vector<std::string> parse_nets(const std::vector<std::string>& names);
/** Seeds the generator and returns a workload. Errors: UsageError for an unknown name. */
std::unique_ptr<Workload> make_workload(const std::string& name, const Setting& setting);
/** Returns a net for mezzo::bench::measure(), which sets the setting's level, device and seed.
 *  Errors: UsageError for an unknown name. */
mezzo::bench::Net bench_net(const std::string& name, const Setting& setting);
/** Returns the size of a name. Errors: UsageError unless it is default, tiny, small or full. */
Size parse_size(const std::string& text);

}  // namespace samples
