// save_checkpoint: checks and collects everything, then writes it, then moves it into place.
#include <sstream>

#include "../../nn/parallel/compare_ranks.h"
#include "../../tensor/core/version.h"
#include "../../tensor/device/cpu_isa.h"
#include "../../tensor/io/json_text.h"
#include "../../tensor/text/text.h"
#include "../session_core.h"
#include "checkpoint_parts.h"

namespace mezzo::amp {

namespace {

constexpr std::string_view kSaveCheckpoint = "save_checkpoint";

void require_whole_iteration(const Training& training) {
  for (const auto& session : training.session)
    session.object->core().require_between_iterations(kSaveCheckpoint);
  for (const auto& scaler : training.scaler)
    if (scaler.object->amid_iteration())
      fail<StateError>(kSaveCheckpoint,
                       {.what = "a GradScaler is inside an iteration",
                        .got = "scale(), unscale_() or step() since the last update()",
                        .expected = "a point between update() and the next scale()",
                        .hint = "call update() first"});
}

/** Returns the generators of ranks 1, 2, ...; collective. */
std::map<std::string, SavedParts> gathered_generators(const comm::Communicator& ranks,
                                                      const std::vector<Part>& parts) {
  std::map<std::string, SavedParts> out;
  if (ranks.size() == 1) return out;
  SavedParts mine;
  for (const Part& part : parts)
    if (part.kind >= PartKind::stream) mine[{part.kind, part.name}] = part.state_dict({});
  std::string text;
  for (const auto& [key, part] : mine)
    text += str(part.counts.at("seed"), " ", part.counts.at("draw"), " ");
  const std::vector<std::string> texts = ranks.gather_text(text);
  for (std::size_t r = 1; r < texts.size(); ++r) {
    std::istringstream numbers(texts[r]);
    for (auto& [key, part] : out[std::to_string(r)] = mine)
      numbers >> part.counts["seed"] >> part.counts["draw"];
  }
  return out;
}

/** Collects the parts in `state`. Returns the tensors of each file. */
std::map<std::string, NamedTensors> collect(const std::vector<Part>& parts,
                                            const optim::Names& names, CheckpointState& state) {
  std::map<std::string, NamedTensors> files;
  for (const Part& part : parts) {
    const SavedPart& saved = state.parts[{part.kind, part.name}] = part.state_dict(names);
    if (info_of(part.kind).file.empty()) continue;
    NamedTensors& file = files[std::string(info_of(part.kind).file)];
    for (const auto& [key, tensor] : saved.state)
      file.emplace_back(key_prefix(part.name) + key, tensor);
  }
  return files;
}

/** Writes a step to disk. */
void write_step(const std::string& parent, const std::string& step, CheckpointState& state,
                const std::map<std::string, NamedTensors>& tensors, std::int64_t keep) {
  const std::string path = parent + "/" + step;
  const TensorMetadata metadata{
      {"format", "pt"}, {"version", std::string(version())}, {"step", str(state.step)}};
  io::make_directories(kSaveCheckpoint, parent);
  const io::DirectoryLock lock(kSaveCheckpoint, parent);
  if (lock.held()) io::remove_leftovers(parent);
  io::AtomicDirectory files(kSaveCheckpoint, path, io::checkpoint_files());
  for (const auto& file : tensors) {
    const auto write = [&](const std::function<io::ByteSink()>& ready) {
      io::write_tensors(str(kSaveCheckpoint, "(", path, "/", file.first, ")"), file.second,
                        metadata, ready);
    };
    state.files[file.first] = files.write(file.first, write);
  }
  files.write(std::string(io::kStateFile), state_text(state));
  files.commit();
  io::set_latest(kSaveCheckpoint, parent, step);
  if (lock.held() && keep > 0) io::prune_steps(kSaveCheckpoint, parent, keep);
}

}  // namespace

std::string save_checkpoint(const std::string& directory, const Training& training,
                            const SaveCheckpointOptions& options) {
  io::require_json(kSaveCheckpoint, "checkpoints");
  if (options.keep < 0)
    fail<ValueError>(kSaveCheckpoint, {.what = "keep must not be negative",
                                       .got = str(options.keep),
                                       .expected = "0 (all) or a count"});
  const optim::Names names = parameter_names(training);
  const comm::Communicator ranks = nn::training_ranks("checkpoint", names);
  std::vector<Part> parts;
  comm::on_all_ranks(ranks, kSaveCheckpoint, [&] {
    parts = parts_of(kSaveCheckpoint, training);
    require_whole_iteration(training);
  });
  CheckpointState state{
      .step = training.step, .epoch = training.epoch, .metadata = training.metadata};
  if (trains_on_cpu(names)) state.cpu_products = cpu_product_kind();
  state.ranks = gathered_generators(ranks, parts);
  const std::string parent = io::without_slash(directory), step = io::step_name(training.step);
  comm::on_all_ranks(ranks, kSaveCheckpoint, [&] {
    if (ranks.rank() == 0)
      write_step(parent, step, state, collect(parts, names, state), options.keep);
  });
  return parent + "/" + step;
}

}  // namespace mezzo::amp
