#include "graph.h"

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "../../tensor/core/dispatch.h"
#include "../../tensor/device/backend.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/memory/transfer.h"
#include "../../tensor/random/generator.h"
#include "../../tensor/text/text.h"

namespace mezzo::gpu {

namespace {

constexpr std::string_view kCapture = "Graph.capture";

/** Participant for a random generator: uploads its state before each replay and advances it by the
 *  number of draws of the step. */
class CapturedGenerator final : public CaptureParticipant {
 public:
  CapturedGenerator(Generator& generator, Device device)
      : generator_(&generator), start_(generator), base_(record_tensor<std::uint64_t>(2, device)) {}

  bool is_of(const Generator& generator) const { return generator_ == &generator; }

  PhiloxStream next_stream() {
    return {0, generator_->next_draw() - start_.draw,
            static_cast<const std::uint64_t*>(base_.raw_data())};
  }

  /** Resets the generator to its state before the capture. */
  void rewind() {
    draws_ = generator_->draw - start_.draw;
    *generator_ = start_;
  }

  void before_replay() override {
    const std::uint64_t state[] = {generator_->seed, generator_->draw};
    upload(base_, state, sizeof state);
  }
  void after_replay() override { generator_->draw += draws_; }

 private:
  Generator* generator_;
  Generator start_;
  Tensor base_;
  std::uint64_t draws_ = 0;
};

using Participants = std::vector<std::shared_ptr<CaptureParticipant>>;

/** A Capture that is the thread's current one during its lifetime. */
class CaptureScope final : public Capture {
 public:
  explicit CaptureScope(Device device) : device_(device) { set_current(this); }
  ~CaptureScope() { end(); }

  void end() {
    set_current(nullptr);
    for (const auto& generator : generators_) generator->rewind();
    generators_.clear();
  }

  Device device() const override { return device_; }
  void join(std::shared_ptr<CaptureParticipant> participant) override {
    if (std::find(participants.begin(), participants.end(), participant) == participants.end())
      participants.push_back(std::move(participant));
  }
  PhiloxStream next_stream(Generator& generator) override {
    for (const auto& known : generators_)
      if (known->is_of(generator)) return known->next_stream();
    const auto fresh = std::make_shared<CapturedGenerator>(generator, device_);
    generators_.push_back(fresh);
    join(fresh);
    return fresh->next_stream();
  }

  Participants participants;

 private:
  Device device_;
  std::vector<std::shared_ptr<CapturedGenerator>> generators_;
};

/** Drops cached casts: replays do not recompute casts made before the capture. */
void forget_casts() {
  if (CastHook* hook = thread_hooks().cast) hook->forget_casts();
}

}  // namespace

// ---- Graph --------------------------------------------------------------------------------------

struct Graph::State {
  Participants participants;
  std::unique_ptr<RecordedWork> work;
};

Graph::Graph() = default;
Graph::Graph(Graph&& other) noexcept = default;
Graph& Graph::operator=(Graph&& other) noexcept = default;
Graph::~Graph() = default;

bool Graph::is_captured() const { return static_cast<bool>(state_); }

void Graph::capture(Device device, const std::function<void()>& step) {
  if (device == cpu)
    fail<Unsupported>(kCapture, {.what = "the CPU does not support capture",
                                 .got = str(device),
                                 .expected = "a CUDA device",
                                 .hint = "call the step directly, or use gpu::CapturedStep"});
  if (Capture::current())
    fail<StateError>(kCapture, {.what = "another step is being captured on this thread"});
  const Backend& backend = require_cuda(kCapture, str(device));
  if (device.index < 0 || device.index >= backend.device_count())
    fail<DeviceError>(kCapture, {.what = "no such CUDA device",
                                 .got = str(device),
                                 .expected = str("an index below ", backend.device_count())});
  state_.reset();
  forget_casts();
  Owner<State> state(new State);
  state->work = backend.begin_recording(device);
  CaptureScope scope(device);
  try {
    step();
    for (const auto& participant : scope.participants) participant->finish_capture();
    forget_casts();
    state->work->finish();
  } catch (...) {
    for (const auto& participant : scope.participants) participant->abandon_capture();
    forget_casts();
    state->work->abandon();
    throw;
  }
  state->participants = std::move(scope.participants);
  state_ = std::move(state);
}

void Graph::replay() {
  if (!state_)
    fail<StateError>("Graph.replay",
                     {.what = "nothing was captured", .hint = "call capture() first"});
  if (Capture::current())
    fail<StateError>("Graph.replay", {.what = "another step is being captured on this thread"});
  state_->work->take_turn();
  for (const auto& participant : state_->participants) participant->before_replay();
  state_->work->replay();
  std::exception_ptr error;  // the last error; all participants are called in any case
  for (const auto& participant : state_->participants) try {
      participant->after_replay();
    } catch (...) {
      error = std::current_exception();
    }
  if (error) std::rethrow_exception(error);
}

// ---- CapturedStep -------------------------------------------------------------------------------

namespace {

std::vector<Tensor> detached(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> out;
  for (const Tensor& x : tensors) out.push_back(x.defined() ? x.detach() : x);
  return out;
}

/** Returns a key of the inputs' shapes, dtypes and formats; a captured step serves inputs of one
 *  key. */
std::string key_of(const std::vector<Tensor>& inputs) {
  std::string key;
  for (const Tensor& x : inputs)
    key += x.defined() ? str(name(x.dtype()), x.shape(), name(x.memory_format()), ";") : "-;";
  return key;
}

}  // namespace

struct CapturedStep::State {
  struct Entry {
    Graph graph;
    std::vector<Tensor> slots, results;
  };

  Function function;
  Device device;
  CopyOptions copying;
  std::map<std::string, Entry> entries;

  std::vector<Tensor> moved(const std::vector<Tensor>& inputs) const {
    std::vector<Tensor> out;
    for (const Tensor& x : inputs) out.push_back(x.defined() ? x.detach().to(device) : x);
    return out;
  }

  std::vector<Tensor> run(const std::vector<Tensor>& inputs) const {
    return detached(function(moved(inputs)));
  }

  void fill(const std::vector<Tensor>& slots, const std::vector<Tensor>& inputs) const {
    const CastScope no_casts(nullptr);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (!slots[i].defined() || slots[i].numel() == 0) continue;
      const Tensor source = inputs[i].detach();
      if (source.device() == cpu) {
        const Tensor dense = source.contiguous(slots[i].memory_format());
        upload(slots[i], dense.raw_data(),
               static_cast<std::size_t>(dense.numel()) * item_size(dense.dtype()), copying);
      } else {
        slots[i].copy_(source);
      }
    }
  }

  /** Captures the step with input buffers of its own, for inputs like these. Returns nothing if the
   *  step must run once more first. */
  std::optional<Entry> captured(const std::vector<Tensor>& inputs) const {
    Entry entry;
    for (const Tensor& x : inputs)
      entry.slots.push_back(
          x.defined() ? empty_tensor(x.shape(), x.dtype(), device, false, x.memory_format()) : x);
    try {
      entry.graph.capture(device, [&] { entry.results = detached(function(entry.slots)); });
    } catch (const CapturePostponed&) {
      return std::nullopt;
    }
    return entry;
  }
};

CapturedStep::CapturedStep(Function function, const CapturedStepOptions& options)
    : state_(new State) {
  if (!function) fail<ValueError>("CapturedStep", {.what = "there is no function to call"});
  state_->function = std::move(function);
  state_->device = options.device;
  state_->copying.non_blocking = options.non_blocking;
}
CapturedStep::CapturedStep(CapturedStep&& other) noexcept = default;
CapturedStep& CapturedStep::operator=(CapturedStep&& other) noexcept = default;
CapturedStep::~CapturedStep() = default;

std::vector<Tensor> CapturedStep::operator()(const std::vector<Tensor>& inputs) {
  if (!state_)
    fail<StateError>("CapturedStep",
                     {.what = "the step was moved from", .hint = "call the moved-to object"});
  if (state_->device == cpu || thread_hooks().trace) return state_->run(inputs);
  // The function may call reset(), so entries are looked up again after it.
  auto& entries = state_->entries;
  const std::string key = key_of(inputs);
  auto at = entries.find(key);
  if (at == entries.end()) {
    std::vector<Tensor> results = state_->run(inputs);
    entries.try_emplace(key);
    return results;
  }
  if (!at->second.graph.is_captured()) {
    std::optional<State::Entry> captured;
    try {
      captured = state_->captured(inputs);
      if (!captured) return state_->run(inputs);
    } catch (...) {
      entries.erase(key);
      throw;
    }
    at = entries.insert_or_assign(key, std::move(*captured)).first;
  }
  at->second.graph.state_->work->take_turn();
  state_->fill(at->second.slots, inputs);
  at->second.graph.replay();
  return at->second.results;
}

std::size_t CapturedStep::captures() const {
  if (!state_) return 0;
  return static_cast<std::size_t>(
      std::count_if(state_->entries.begin(), state_->entries.end(),
                    [](const auto& entry) { return entry.second.graph.is_captured(); }));
}

void CapturedStep::reset() {
  if (state_) state_->entries.clear();
}

}  // namespace mezzo::gpu
