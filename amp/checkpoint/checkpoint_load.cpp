// load_checkpoint: reads a step completely, stages all parts, then applies them.
#include <algorithm>
#include <set>

#include "../../nn/parallel/compare_ranks.h"
#include "../../tensor/device/cpu_isa.h"
#include "../../tensor/io/utf8.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"
#include "../scaling/scale_loss.h"
#include "../session_core.h"
#include "checkpoint_parts.h"

namespace mezzo::amp {

namespace {

constexpr std::string_view kLoadCheckpoint = "load_checkpoint";

// ---- reading ------------------------------------------------------------------------------------

/** Moves the tensors of a file to the parts of its kind, by the names that their keys begin with.
 */
void add_tensors(const io::ByteReader& file, std::string_view name, SavedParts& parts) {
  for (const auto& [key, tensor] : io::read_tensors(file).tensors) {
    const auto part = std::find_if(parts.begin(), parts.end(), [&, &key = key](const auto& entry) {
      return info_of(entry.first.first).file == name &&
             key.starts_with(key_prefix(entry.first.second));
    });
    if (part == parts.end())
      fail<FormatError>(file.subject(), {.what = "an entry belongs to no part of the checkpoint",
                                         .got = io::quote(key)});
    part->second.state.set(key.substr(key_prefix(part->first.second).size()), tensor);
  }
}

CheckpointState read_step(const std::string& path) {
  const auto open = [&](std::string_view name) {
    return io::ByteReader(std::string(kLoadCheckpoint), str(path, "/", name));
  };
  CheckpointState out = read_state(open(io::kStateFile));
  for (const auto& [name, facts] : out.files) {
    const io::ByteReader file = open(name);
    io::require_facts(file, facts);
    add_tensors(file, name, out.parts);
  }
  return out;
}

/** Replaces the generators of rank 0 by those of another rank as saved. A rank that was not saved
 *  gets streams of its own, split(seed, 2^32 + rank) of rank 0's, and a notice. */
void take_generators(int rank, CheckpointState& saved, Load& load) {
  if (rank == 0) return;
  const SavedParts& theirs = saved.ranks[std::to_string(rank)];
  for (auto& [key, part] : saved.parts) {
    if (key.first < PartKind::stream) continue;
    Generator own{part.counts.at("seed"), part.counts.at("draw")};
    use_own_random_stream(own, rank);
    part.counts = {{"seed", own.seed}, {"draw", own.draw}};
    if (const auto found = theirs.find(key); found != theirs.end()) part = found->second;
  }
  if (theirs.empty())
    load.notices.push_back(
        str(kLoadCheckpoint, ": this rank was not saved and starts new streams of random numbers"));
}

// ---- staging ------------------------------------------------------------------------------------

/** Adds a difference for each part that only the checkpoint or only the training has. */
void compare_names(const std::vector<Part>& parts, const SavedParts& saved, Load& load) {
  std::set<SavedParts::key_type> here;
  for (const Part& part : parts) here.insert({part.kind, part.name});
  const auto differs = [&](PartKind kind, const std::string& what, const char* if_allowed) {
    if (kind == PartKind::session || kind == PartKind::scaler)
      return load.differs_in_level(what, if_allowed);
    load.differs(what);
  };
  for (const auto& [key, part] : saved)
    if (const std::string it = title(key.first, key.second); here.count(key) == 0)
      differs(key.first, str("the checkpoint has a ", it, " that this training lacks"),
              "its loss scales are dropped");
  for (const Part& part : parts)
    if (saved.count({part.kind, part.name}) == 0)
      differs(part.kind, str("the checkpoint lacks the ", title(part.kind, part.name)),
              "its state is kept");
}

/** Stages all parts that the checkpoint has too. Errors: ValueError that lists all differences. */
std::vector<std::function<void()>> staged(const std::vector<Part>& parts, const SavedParts& saved,
                                          Load& load) {
  compare_names(parts, saved, load);
  std::vector<std::function<void()>> out;
  for (const Part& part : parts) {
    const auto found = saved.find({part.kind, part.name});
    if (found == saved.end()) continue;
    load.part = title(part.kind, part.name);
    try {
      if (auto apply = part.stage(found->second, load)) out.push_back(std::move(apply));
    } catch (const ValueError& error) {
      load.differs(error.what());
    }
  }
  if (load.differences.empty()) return out;
  const char* const hint = "pass {.allow_other_level = true} to convert between levels";
  fail<ValueError>(load.subject, {.what = "the checkpoint does not fit this training",
                                  .got = load.differences,
                                  .expected = "what was saved",
                                  .hint = load.level_differs ? hint : ""});
}

/** Loads all parts, which fit, or changes nothing. They are staged again after the masters that
 *  the saved training had are there, because models and optimizers load into those. */
void apply(const Training& training, const std::vector<Part>& parts, const SavedParts& saved,
           const Load& checked) {
  Load load{.subject = checked.subject, .names = checked.names, .other_level = checked.other_level};
  SavedMasters masters;
  for (const auto& [name, optimizer] : training.optimizer)
    if (const auto amp = AmpOptimizerState::of(*optimizer); amp && amp->core->enabled())
      masters.create(*amp->core, *optimizer, saved.at({PartKind::optimizer, name}).state,
                     load.names);
  const std::vector<std::function<void()>> steps = staged(parts, saved, load);
  // Nothing below allocates.
  masters.keep();
  for (const auto& session : training.session) session.object->core().forget_iteration();
  for (const auto& optimizer : training.optimizer) optimizer.object->zero_grad();
  for (const auto& step : steps) step();
}

/** Adds a notice if products on the CPU are computed in another way than in the saved training. */
void compare_products(const CheckpointState& saved, Load& load) {
  const std::optional<std::string>& then = saved.cpu_products;
  if (!then || !trains_on_cpu(load.names) || *then == cpu_product_kind()) return;
  const auto way = [](const std::string& kind) {
    return kind == "f32" ? "in f32" : "by the CPU's instructions (" + kind + ")";
  };
  load.notices.push_back(str(load.subject, ": products of 16-bit operands were computed ",
                             way(*then), " and are now computed ", way(cpu_product_kind()),
                             ", so last bits differ"));
}

/** Throws unless all ranks have read the same step. Errors: IoError. */
void require_one_step(const comm::Communicator& ranks, const std::string& path) {
  const std::vector<std::string> steps = ranks.gather_text(path.substr(path.rfind('/') + 1));
  for (std::size_t r = 1; r < steps.size(); ++r)
    if (steps[r] != steps[0])
      fail<IoError>(kLoadCheckpoint,
                    {.what = "the ranks found different checkpoints",
                     .got = str(steps[0], " on rank 0, ", steps[r], " on rank ", r),
                     .hint = "all ranks need to see the same directory"});
}

}  // namespace

LoadedCheckpoint load_checkpoint(const std::string& path, const Training& training,
                                 const LoadCheckpointOptions& options) {
  LoadedCheckpoint out;
  CheckpointState saved;
  std::vector<Part> parts;
  Load load{.names = parameter_names(training), .other_level = options.allow_other_level};
  const comm::Communicator ranks = nn::training_ranks("checkpoint", load.names);
  comm::on_all_ranks(ranks, kLoadCheckpoint, [&] {
    parts = parts_of(kLoadCheckpoint, training);
    for (const auto& session : training.session)
      session.object->core().require_no_scope(kLoadCheckpoint);
    const auto read = [&](const std::string& step) {
      saved = read_step(step);
      out.path = step;
    };
    if (const std::string place = io::without_slash(path); io::is_step(place))
      read(place);
    else
      io::read_best_step(kLoadCheckpoint, place, read, out.passed_over);
    load.subject = str(kLoadCheckpoint, "(", out.path, ")");
    take_generators(ranks.rank(), saved, load);
    (void)staged(parts, saved.parts, load);
    compare_products(saved, load);
  });
  require_one_step(ranks, out.path);
  for (const std::string& line : load.notices) log_text(Severity::warning, line);
  apply(training, parts, saved.parts, load);
  out.step = saved.step;
  out.epoch = saved.epoch;
  out.metadata = std::move(saved.metadata);
  return out;
}

}  // namespace mezzo::amp
