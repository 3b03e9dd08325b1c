// save_checkpoint: checks and collects everything, then writes it, then moves it into place.
#include "../../nn/serialize.h"
#include "../../tensor/core/version.h"
#include "../../tensor/io/checkpoint_directory.h"
#include "../../tensor/io/json_text.h"
#include "../../tensor/text/text.h"
#include "../session_core.h"
#include "checkpoint_parts.h"
#include "checkpoint_ranks.h"
#include "checkpoint_state.h"

namespace mezzo::amp {

namespace {

constexpr std::string_view kOp = "save_checkpoint";

void require_whole_iteration(const Training& training) {
  for (const auto& session : training.session)
    session.object->core().require_between_iterations(kOp);
  for (const auto& scaler : training.scaler)
    if (scaler.object->amid_iteration())
      fail<StateError>(kOp, {.what = "a GradScaler is inside an iteration",
                             .got = "scale(), unscale_() or step() since the last update()",
                             .expected = "a point between update() and the next scale()",
                             .hint = "call update() first"});
}

NamedTensors model_tensors(const Training& training) {
  NamedTensors out;
  for (const auto& model : training.model)
    for (auto& [name, tensor] : saved_tensors(*model.object))
      out.emplace_back(key_prefix(model.name) + name, tensor);
  return out;
}

/** Returns the tensors of all optimizers, and stores their numbers in `state`. */
NamedTensors optimizer_tensors(const Training& training, CheckpointState& state) {
  const optim::Names names = parameter_names(training.model);
  NamedTensors out;
  for (const auto& optimizer : training.optimizer) {
    optim::StateDict saved = optimizer.object->state_dict(names);
    for (auto& [key, tensor] : saved.tensors)
      out.emplace_back(key_prefix(optimizer.name) + key, tensor);
    state.optimizers[optimizer.name] = {std::string(optimizer.object->type_name()),
                                        std::move(saved.scalars)};
  }
  return out;
}

NamedTensors average_tensors(const Training& training) {
  NamedTensors out;
  for (const auto& average : training.average)
    for (const auto& [name, tensor] : average.object->state_dict())
      out.emplace_back(key_prefix(average.name) + name, tensor);
  return out;
}

void write_tensor_file(io::AtomicDirectory& directory, CheckpointState& state,
                       std::string_view name, const std::string& path,
                       const NamedTensors& tensors) {
  const TensorMetadata metadata{
      {"format", "pt"}, {"version", std::string(version())}, {"step", str(state.step)}};
  state.files[std::string(name)] =
      directory.write(std::string(name), [&](const std::function<io::ByteSink()>& ready) {
        io::write_tensors(str(kOp, "(", path, "/", name, ")"), tensors, metadata, ready);
      });
}

}  // namespace

namespace {

/** Writes the collected training to disk. */
void write_step(const std::string& parent, const std::string& step, CheckpointState& state,
                const Training& training, std::int64_t keep) {
  const std::string path = parent + "/" + step;
  // The models come first: their saved values agree with the masters, which the optimizers save.
  const NamedTensors weights = model_tensors(training);
  const NamedTensors moments = optimizer_tensors(training, state);
  const NamedTensors averages = average_tensors(training);
  io::make_directories(kOp, parent);
  const io::DirectoryLock lock(kOp, parent);
  if (lock.held()) io::remove_leftovers(parent);
  io::AtomicDirectory files(kOp, path, io::checkpoint_files());
  if (!training.model.empty()) write_tensor_file(files, state, io::kModelFile, path, weights);
  if (!training.optimizer.empty())
    write_tensor_file(files, state, io::kOptimizerFile, path, moments);
  if (!training.average.empty()) write_tensor_file(files, state, io::kAverageFile, path, averages);
  files.write(std::string(io::kStateFile), state_text(state));
  files.commit();
  io::set_latest(kOp, parent, step);
  if (lock.held() && keep > 0) io::prune_steps(kOp, parent, keep);
}

}  // namespace

std::string save_checkpoint(const std::string& directory, const Training& training,
                            const SaveCheckpointOptions& options) {
  io::require_json(kOp, "checkpoints");
  if (options.keep < 0)
    fail<ValueError>(kOp, {.what = "keep must not be negative",
                           .got = str(options.keep),
                           .expected = "0 (all) or a count"});
  const comm::Communicator ranks = ranks_of(training);
  CheckpointState state;
  on_all_ranks(ranks, kOp, [&] {
    require_valid_parts(kOp, training);
    require_whole_iteration(training);
    state = state_of(training);
  });
  gather_generators(ranks, training, state);
  const std::string parent = without_slash(directory), step = io::step_name(training.step);
  on_all_ranks(ranks, kOp, [&] {
    if (ranks.rank() == 0) write_step(parent, step, state, training, options.keep);
  });
  return parent + "/" + step;
}

}  // namespace mezzo::amp
