// load_checkpoint: reads a step completely, compares it with the training, then applies it.
#include <sys/stat.h>

#include <deque>
#include <functional>

#include "../../nn/serialize.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/device/cpu_isa.h"
#include "../../tensor/io/checkpoint_directory.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"
#include "../scaling/amp_optimizer_state.h"
#include "../weights/optimizer_masters.h"
#include "checkpoint_fit.h"
#include "checkpoint_parts.h"
#include "checkpoint_ranks.h"

namespace mezzo::amp {

namespace {

constexpr std::string_view kOp = "load_checkpoint";

// ---- reading ------------------------------------------------------------------------------------

/** Reads the tensors of one file after checking its length and checksum. */
NamedTensors read_file(const std::string& path, const std::string& name,
                       const io::FileFacts& expected) {
  const io::ByteReader file(std::string(kOp), path + "/" + name);
  const auto text = [](const io::FileFacts& facts) {
    return str(facts.bytes, " bytes with checksum ", crc_text(facts.crc));
  };
  io::FileFacts facts{.bytes = file.size()};
  if (facts.bytes == expected.bytes) facts = io::facts_of(file);
  if (!(facts == expected))
    fail<FormatError>(
        file.subject(),
        {.what = "the file is damaged",
         .got = facts.bytes == expected.bytes ? text(facts) : str(facts.bytes, " bytes"),
         .expected = text(expected)});
  return io::read_tensors(file).tensors;
}

ReadCheckpoint read_step(const std::string& path) {
  ReadCheckpoint out{.path = path};
  out.state = read_state(io::ByteReader(std::string(kOp), str(path, "/", io::kStateFile)));
  for (const auto& [name, facts] : out.state.files) {
    NamedTensors& tensors = name == io::kModelFile       ? out.weights
                            : name == io::kOptimizerFile ? out.moments
                                                         : out.averages;
    tensors = read_file(path, name, facts);
  }
  return out;
}

bool is_step(const std::string& path) {
  struct stat facts {};
  return io::step_number(path.substr(path.rfind('/') + 1)) ||
         ::lstat(str(path, "/", io::kStateFile).c_str(), &facts) == 0;
}

/** Reads the best intact step of a directory. Logs the damaged ones and adds them to
 *  `passed_over`. */
ReadCheckpoint read_best(const std::string& directory, std::vector<std::string>& passed_over) {
  const auto pass_over = [&](std::string text) {
    log_text(Severity::warning, text);
    passed_over.push_back(std::move(text));
  };
  const io::StepList steps = io::steps_best_first(kOp, directory);
  if (!steps.latest_error.empty())
    pass_over(steps.latest_error + "; the newest checkpoint is tried");
  std::string first;
  for (const std::string& step : steps.best_first) {
    std::string text;
    try {
      return read_step(directory + "/" + step);
    } catch (const IoError& error) {
      text = error.what();
    } catch (const FormatError& error) {
      text = error.what();
    }
    pass_over(text + "; the next older checkpoint is tried");
    if (first.empty()) first = text;
  }
  const std::string subject = str(kOp, "(", directory, ")");
  if (first.empty())
    fail<IoError>(subject,
                  {.what = "there is no checkpoint", .expected = "directories like step-000001"});
  fail<FormatError>(subject, {.what = "every checkpoint is damaged", .got = first});
}

// ---- putting back -------------------------------------------------------------------------------

/** Creates the masters that a load needs; removes them again unless keep() is called. */
class SavedMasters {
 public:
  SavedMasters(const Training& training, const Fit& fit, const optim::Names& names) {
    std::map<const TensorImpl*, std::string_view> name_of;
    for (const optim::NamedTensor& entry : names) name_of.emplace(entry.tensor.impl(), entry.name);
    for (const auto& optimizer : training.optimizer) {
      const auto link = AmpOptimizerState::of(*optimizer.object);
      if (link && link->core->enabled() && link->core->properties.masters())
        create(*link, fit.optimizers.at(optimizer.name), name_of);
    }
  }
  ~SavedMasters() {
    if (kept_) return;
    for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) change->undo();
  }
  SavedMasters(const SavedMasters&) = delete;
  SavedMasters& operator=(const SavedMasters&) = delete;

  void keep() { kept_ = true; }

 private:
  /** Creates masters for the parameters that had one when they were saved, frozen ones included:
   *  their 16-bit values alone would lose the low bits. */
  void create(AmpOptimizerState& link, const optim::StateDict& saved,
              const std::map<const TensorImpl*, std::string_view>& name_of) {
    MasterChanges& changes = changes_.emplace_back(link.core->masters);
    for (std::size_t group = 0; group < link.optimizer()->num_groups(); ++group) {
      const auto slots = link.optimizer()->slots(group);
      create_masters(*link.core, *link.optimizer(), slots, changes);
      for (optim::Slot& slot : slots) {
        const auto name = name_of.find(slot.param.impl());
        if (slot.master.defined() || !is_low(slot.param.dtype()) || name == name_of.end()) continue;
        if (saved.tensors.count(str(name->second, ".master")) > 0)
          create_master(*link.core, *link.optimizer(), slot, changes);
      }
    }
    changes.commit();
  }

  std::deque<MasterChanges> changes_;
  bool kept_ = false;
};

/** Prepares the whole load; the returned functions do not allocate. Models come before optimizers,
 *  as a saved master is used only if it rounds to the loaded parameter. Schedules come before
 *  optimizers, as both set learning rates and the optimizer's was the one in use. */
std::vector<std::function<void()>> staged(const Training& training, const ReadCheckpoint& saved,
                                          const Fit& fit, const optim::Names& names) {
  std::vector<std::function<void()>> steps;
  std::vector<std::pair<Tensor, Tensor>> incoming;
  for (const auto& model : training.model) {
    const auto load =
        std::make_shared<nn::StagedLoad>(model.object->stage_state_dict(fit.models.at(model.name)));
    incoming.insert(incoming.end(), load->writes().all().begin(), load->writes().all().end());
    steps.emplace_back([load] { load->commit(); });
  }
  for (const auto& schedule : training.schedule)
    steps.push_back(schedule.object->stage_state_dict(
        {.tensors = {}, .scalars = saved.state.schedules.at(schedule.name)}));
  for (const auto& optimizer : training.optimizer)
    steps.push_back(
        optimizer.object->stage_state_dict(fit.optimizers.at(optimizer.name), names, incoming));
  for (const auto& average : training.average)
    steps.push_back(average.object->stage_state_dict(fit.averages.at(average.name)));
  for (const auto& session : training.session)
    if (const auto found = fit.sessions.find(session.name); found != fit.sessions.end())
      steps.push_back(session.object->stage_state_dict(found->second));
  for (const auto& scaler : training.scaler)
    if (const auto found = fit.scalers.find(scaler.name); found != fit.scalers.end())
      steps.push_back(scaler.object->stage_state_dict(found->second));
  return steps;
}

void apply(const Training& training, const ReadCheckpoint& saved, const Fit& fit,
           const RankGenerators& generators) {
  const optim::Names names = parameter_names(training.model);
  SavedMasters masters(training, fit, names);
  const std::vector<std::function<void()>> steps = staged(training, saved, fit, names);
  // Nothing below allocates.
  masters.keep();
  for (const auto& session : training.session) session.object->core().forget_iteration();
  for (const auto& optimizer : training.optimizer) optimizer.object->zero_grad();
  for (const auto& step : steps) step();
  for (const auto& loader : training.loader)
    loader.object->resume(saved.state.loaders.at(loader.name).position);
  for (const auto& generator : training.generator)
    *generator.object = generators.generators.at(generator.name);
  default_generator() = generators.default_generator;
}

/** Logs if products on the CPU are computed in another way than in the saved training. */
void report_products(const Training& training, const ReadCheckpoint& saved) {
  const std::optional<std::string>& then = saved.state.cpu_products;
  if (!then || !trains_on_cpu(training) || *then == cpu_product_kind()) return;
  const auto way = [](const std::string& kind) {
    return kind == "f32" ? "in f32" : "by the CPU's instructions (" + kind + ")";
  };
  log_text(Severity::warning,
           str(kOp, "(", saved.path, "): products of 16-bit operands were computed ", way(*then),
               " and are now computed ", way(cpu_product_kind()), ", so last bits differ"));
}

/** Throws unless all ranks have read the same step. Errors: IoError. */
void require_one_step(const comm::Communicator& ranks, const std::string& path) {
  const std::string step = path.substr(path.rfind('/') + 1);
  const std::vector<std::string> steps = ranks.gather_text(step);
  for (std::size_t r = 1; r < steps.size(); ++r)
    if (steps[r] != steps[0])
      fail<IoError>(kOp, {.what = "the ranks found different checkpoints",
                          .got = str(steps[0], " on rank 0, ", steps[r], " on rank ", r),
                          .hint = "all ranks need to see the same directory"});
}

}  // namespace

LoadedCheckpoint load_checkpoint(const std::string& path, const Training& training,
                                 const LoadCheckpointOptions& options) {
  const comm::Communicator ranks = ranks_of(training);
  std::vector<std::string> passed_over;
  ReadCheckpoint saved;
  Fit fit;
  on_all_ranks(ranks, kOp, [&] {
    require_valid_parts(kOp, training);
    for (const auto& session : training.session) session.object->core().require_no_scope(kOp);
    const std::string place = without_slash(path);
    saved = is_step(place) ? read_step(place) : read_best(place, passed_over);
    fit = fit_to(training, saved, options);
  });
  require_one_step(ranks, saved.path);
  for (const std::string& line : fit.conversions) log_text(Severity::warning, line);
  report_products(training, saved);
  apply(training, saved, fit, generators_for(ranks.rank(), saved.state));
  return {std::move(saved.path), saved.state.step, saved.state.epoch,
          std::move(saved.state.metadata), std::move(passed_over)};
}

}  // namespace mezzo::amp
