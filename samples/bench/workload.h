// Workload: one net in training, as the bench, the golden curves and PyTorch's side of the comparison run it.
// Sees: mezzo.h.
// Read next: nets/mlp.cpp (the simplest one), workload.cpp, measure.h (who runs them).
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
  tiny,   // a second or two, for tests
  small,  // a laptop
  full,   // a GPU
};

/** How a workload is to be made. */
struct Setting {
  Size size = Size::tiny;
  std::string level = "O0";
  std::int64_t batch = 0;  // samples in a step; 0: what goes with the size
  mezzo::Device device = mezzo::cpu;
  std::uint64_t seed = 1;

  /** The entry for this size. */
  template <class T> T pick(T tiny, T small, T full) const {
    return size == Size::tiny ? tiny : size == Size::small ? small : full;
  }
  /** The user's batch, or the entry for this size. */
  std::int64_t pick_batch(std::int64_t tiny, std::int64_t small, std::int64_t full) const {
    return batch > 0 ? batch : pick(tiny, small, full);
  }
};

/** What a step did. */
struct StepOutcome {
  double loss = 0;
  bool skipped = false;
};

class Workload {
 public:
  virtual ~Workload() = default;

  /** Training step `number`, counted from 0, on the batch whose turn it is. */
  virtual StepOutcome step(std::int64_t number) = 0;
  /** Of the first loss. */
  virtual double loss_scale() = 0;
  virtual std::vector<const mezzo::optim::Optimizer*> optimizers() const = 0;

  std::int64_t samples = 0;  // in a step: images, or stretches of text
  // Enough to train the same elsewhere: initial weights and all batches by name, and what is done with them.
  mezzo::NamedTensors tensors;
  mezzo::TensorMetadata facts;
};

/** Number of different batches; steps take them in turns. */
inline constexpr std::int64_t kBatches = 4;

/** A net with one optimizer and one loss. */
struct Supervised {
  mezzo::nn::Module net;
  std::shared_ptr<mezzo::optim::Optimizer> optimizer;
  std::function<mezzo::Tensor(const mezzo::Batch&)> loss;
  std::vector<mezzo::Batch> batches;
  double max_norm = 0;  // gradients are clipped to it; 0: they are not
};

/** Adds the weights and the batches to its `tensors`, moves all to the device and puts the net under the level. */
std::unique_ptr<Workload> supervised(const Setting& setting, const Supervised& parts,
                                     mezzo::TensorMetadata facts);

/** kBatches batches of what a data set begins with. */
std::vector<mezzo::Batch> batches_of(const mezzo::data::Dataset& data, std::int64_t size);
/** Appends the parameters and buffers of a module under PREFIX and their names. */
void add_weights(mezzo::NamedTensors& tensors, const std::string& prefix, const mezzo::nn::Module& module);

/** A workload by name. */
struct NetEntry {
  std::string_view name;
  std::unique_ptr<Workload> (*make)(const Setting& setting);
};

/** Every net of nets/, in alphabetical order; the list is in ../meson.build. */
std::span<const NetEntry> all_nets();
/** Errors: UsageError for a name that is none. */
void check_nets(const std::vector<std::string>& names);
/** Makes one, seeded. Errors: UsageError for a name that is none. */
std::unique_ptr<Workload> make_workload(const std::string& name, const Setting& setting);
/** Errors: UsageError unless it is tiny, small or full. */
Size parse_size(const std::string& text);

}  // namespace samples
