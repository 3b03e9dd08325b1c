#include "recorder.h"

#include <algorithm>

#include "../../amp/diagnose/unobserved.h"
#include "../../amp/scaling/grad_scaler.h"
#include "../../amp/session_core.h"
#include "../../tensor/core/build_facts.h"
#include "../../tensor/core/version.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/device/cpu_isa.h"
#include "../../tensor/memory/allocator.h"
#include "../../tensor/ops/ops.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"

namespace mezzo::amp {

using namespace report;

namespace {

double milliseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

/** Returns the dotted name without its last part. */
std::string parent_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

Device device_of(const Training& training) {
  for (const auto& model : training.model)
    for (const Tensor& parameter : model.object->parameters()) return parameter.device();
  return cpu;
}

/** Returns the 16-bit dtype of a level; empty at O0. */
std::optional<DType> low_dtype(const Options& options) {
  const std::optional<DType> model = options.model_dtype();
  if (model && is_low(*model)) return model;
  return options.casts_ops() ? options.level().low : std::nullopt;
}

/** Returns "inf in fc1.weight" for the first gradient that is not finite; empty if all are. */
std::string nonfinite_row(const std::vector<SampleRow>& rows) {
  for (const SampleRow& row : rows) {
    const Histogram& h = row.histogram;
    if (row.kind == Kind::weight_grad && h.infinities + h.nans > 0)
      return str(h.infinities > 0 ? "inf" : "nan", " in ", row.name);
  }
  return {};
}

}  // namespace

/** Ends a step of the recorder after each replay of a captured step. */
class Report::Recorder::Replays final : public CaptureParticipant {
 public:
  explicit Replays(Recorder& recorder) : recorder_(&recorder) {}

  void before_replay() override {}
  void after_replay() override {
    if (recorder_)
      recorder_->guarded([&] {
        recorder_->drop_sample();
        recorder_->end_step();
      });
  }
  /** The recorder does not exist any more, although the captured step does. */
  void leave() { recorder_ = nullptr; }

 private:
  Recorder* recorder_;
};

Report::Recorder::Recorder(const Training& training, ReportFile& file, const ReportOptions& options)
    : training_(training),
      file_(file),
      options_(options),
      run_(file.add_run()),
      device_(device_of(training)),
      first_step_(training.step) {
  line_.step = first_step_;
  if (!options.tensorboard.empty()) events_.emplace(options.tensorboard);
  write_run();
  write_models();
  start_step();
}

Report::Recorder::~Recorder() {
  if (replays_) replays_->leave();
}

void Report::Recorder::finish() {
  if (std::exchange(ended_, true)) return;
  sampler_.reset();
  file_.write(end_line(run_, line_.step - first_step_, milliseconds(Clock::now() - start_) / 1e3));
  if (events_) events_->close();
}

template <class F> void Report::Recorder::guarded(F&& f) noexcept {
  if (ended_ || std::this_thread::get_id() != thread_ || Capture::current()) return;
  try {
    f();
  } catch (const std::exception& e) {
    drop(e);
  }
}

void Report::Recorder::drop(const std::exception& e) noexcept {
  ended_ = true;
  sampler_.reset();
  log_text(Severity::warning, str("amp::Report: the rest of the report is dropped: ", e.what()));
}

void Report::Recorder::write_run() {
  RunLine run{.title = options_.title,
              .group = options_.group.empty() ? options_.title : options_.group,
              .level = training_.scaler.empty() ? "O0" : "autocast",
              .started = utc_now(),
              .version = std::string(version()),
              .commit = build_commit(),
              .device = str(device_),
              .hardware = description(device_),
              .every = options_.every,
              .loss_scale = training_.scaler.empty() ? "" : "dynamic",
              .cast_dtype = {}};
  for (const auto& loader : training_.loader) {
    const data::BatchOptions& batches = loader.object->options();
    run.samples += batches.size * batches.shard.count;
  }
  for (const auto& session : training_.session) {
    const Options& options = session.object->options();
    if (!options.enabled) continue;
    run.level = options.opt_level;
    run.loss_scale = scale_text(options.scale());
    run.options = property_texts(options);
    if (const std::optional<DType> low = low_dtype(options)) {
      run.cast_dtype = name(*low);
      run.emulated = emulates_products(*low, device_);
    }
  }
  file_.write(json_line(run_, run));
}

void Report::Recorder::write_models() {
  std::vector<const void*> with_master;
  for (const auto& optimizer : training_.optimizer)
    for (const optim::Slot& slot : optimizer.object->slots())
      if (slot.master.defined()) with_master.push_back(slot.param.impl());
  std::int64_t number = 0;
  for (const auto& part : training_.model) {
    const std::string prefix = part.name.empty() ? "" : part.name + ".";
    ModelLine line{.number = number++, .name = part.name};
    for (const nn::NamedModule& module : part.object->named_modules()) {
      names_.add_module(prefix + module.name);
      line.modules.push_back(
          {prefix + module.name, std::string(nn::detail::short_name(module.module.type()))});
    }
    for (const nn::NamedTensor& p : part.object->named_parameters()) {
      const std::string name = prefix + p.name;
      names_.add(p.tensor, {.name = name, .module = parent_of(name), .model = prefix});
      line.parameters.push_back({.name = name,
                                 .module = parent_of(name),
                                 .shape = {p.tensor.shape().begin(), p.tensor.shape().end()},
                                 .dtype = p.tensor.dtype(),
                                 .master = std::find(with_master.begin(), with_master.end(),
                                                     p.tensor.impl()) != with_master.end()});
    }
    file_.write(json_line(run_, line));
  }
}

void Report::Recorder::log(const std::string& name, double value) {
  if (name.empty())
    fail<ValueError>("amp::Report::log", {.what = "the name is empty", .expected = "a text"});
  if (ended_) return;
  const std::int64_t step = is_under_way_ ? line_.step : std::max(first_step_, line_.step - 1);
  file_.write(json_line(run_, LogLine{.step = step, .name = name, .value = value}));
  guarded([&] {
    if (events_) events_->add_scalar(name, value, step);
  });
}

std::vector<double> Report::Recorder::learning_rates() const {
  std::vector<double> out;
  for (const auto& optimizer : training_.optimizer)
    for (std::size_t group = 0; group < optimizer.object->num_groups(); ++group)
      out.push_back(optimizer.object->lr(group));
  return out;
}

void Report::Recorder::write_events(const std::vector<SampleRow>& rows) {
  const std::int64_t step = line_.step;
  const auto add_all = [&](const std::string& name, const std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      events_->add_scalar(values.size() == 1 ? name : str(name, "/", i), values[i], step);
  };
  add_all("training/loss", line_.losses);
  add_all("training/loss_scale", line_.scales);
  add_all("training/lr", line_.lrs);
  events_->add_scalar("training/skipped", was_skipped() ? 1 : 0, step);
  events_->add_scalar("training/ms", line_.ms, step);
  for (const SampleRow& row : rows) {
    const Histogram& h = row.histogram;
    if (h.counts.empty()) continue;
    // Of log2(|x|), as that is what was counted: bucket i holds lowest + i up to lowest + i + 1.
    std::vector<double> limits, counts;
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < h.counts.size(); ++i) {
      const double middle = h.lowest + static_cast<double>(i) + 0.5;
      const auto count = static_cast<double>(h.counts[i]);
      limits.push_back(middle + 0.5);
      counts.push_back(count);
      sum += count * middle;
      squares += count * middle * middle;
    }
    const auto kind = kKindNames[static_cast<std::size_t>(row.kind)];
    events_->add_histogram_raw(str(kind, " log2/", row.name), h.lowest, limits.back(), sum, squares,
                               limits, counts, step);
  }
}

void Report::Recorder::start_step() {
  line_ = {.step = line_.step};
  is_under_way_ = false;
  const bool is_sampled = (line_.step - first_step_) % options_.every == 0 && file_.accepts();
  if (is_sampled) {
    line_.sampled = true;
    sampler_ = std::make_unique<Sampler>(names_, device_, sampled_++ < 2);
  }
  casts_ = cast_stats();
  step_start_ = Clock::now();
}

void Report::Recorder::begin_backward(const Tensor& output) noexcept {
  guarded([&] {
    is_under_way_ = true;
    if (sampler_) sampler_->set_loss_scale(scale_of_loss());
    if (output.numel() != 1 || (device_ != cpu && !sampler_)) return;
    const Unobserved quiet;
    // Read now, because an overflow lowers the scale before the step ends.
    if (line_.scales.empty()) line_.scales = scales();
    line_.losses.push_back(output.item<double>() / scale_of_loss());
  });
}

double Report::Recorder::scale_of_loss() const {
  for (const auto& session : training_.session) {
    const SessionCore& core = session.object->core();
    if (core.open_scopes > 0)
      return core.scalers[static_cast<std::size_t>(core.open_loss)]->loss_scale();
  }
  for (const auto& scaler : training_.scaler) return scaler.object->get_scale();
  return 1;
}

std::vector<double> Report::Recorder::scales() const {
  std::vector<double> out;
  if (device_ != cpu && !sampler_) return out;
  for (const auto& session : training_.session)
    for (const auto& scaler : session.object->core().scalers) out.push_back(scaler->loss_scale());
  for (const auto& scaler : training_.scaler) out.push_back(scaler.object->get_scale());
  return out;
}

std::string Report::Recorder::first_nonfinite() const {
  const auto latest = [](const std::vector<ScaleEvent>& events) {
    const bool overflowed = !events.empty() && events.back().reason == ScaleReason::overflow;
    return overflowed ? events.back().first_nonfinite : std::string();
  };
  for (const auto& session : training_.session)
    for (const auto& scaler : session.object->core().scalers)
      if (std::string text = latest(scaler->events()); !text.empty()) return text;
  return {};
}

std::string Report::Recorder::name_of(const optim::Optimizer& optimizer, std::size_t group,
                                      std::size_t index) const {
  const ParameterName* name = names_.find(optimizer.slots(group)[index].param);
  return name ? name->name : str("group ", group, " parameter ", index);
}

void Report::Recorder::before_update(optim::Optimizer& optimizer, const optim::Factor& unscale,
                                     bool skips) noexcept {
  guarded([&] {
    if (!sampler_ && !skips) return;
    const Unobserved quiet;
    std::vector<PendingRow>& rows = sampler_ ? sampler_->rows() : overflow_rows_;
    // A factor in device memory is 1 / scale.
    const double scale =
        unscale.is_number() && !unscale.numerator ? 1 / unscale.number : scale_of_loss();
    for (std::size_t group = 0; group < optimizer.num_groups(); ++group) {
      const auto slots = optimizer.slots(group);
      for (std::size_t i = 0; i < slots.size(); ++i) {
        const optim::Slot& slot = slots[i];
        const std::string name = name_of(optimizer, group, i);
        const SampleRow row{.name = name, .module = parent_of(name)};
        const auto of_kind = [&](Kind kind, double contained) {
          SampleRow out = row;
          out.kind = kind;
          out.scale = contained;
          return out;
        };
        if (sampler_) rows.push_back(pending_row(of_kind(Kind::weight, 1), slot.param));
        const Tensor gradient = optimizer.gradient_of(slot);
        if (!gradient.defined()) continue;
        rows.push_back(pending_row(of_kind(Kind::weight_grad, scale), gradient));
        if (!sampler_ || skips) continue;
        const CategoryScope other(MemoryCategory::other);
        before_.push_back({of_kind(Kind::update, 1), slot.target(), slot.target().clone()});
      }
    }
  });
}

void Report::Recorder::after_step(optim::Optimizer& optimizer,
                                  const optim::StepResult& result) noexcept {
  const bool is_last = &optimizer == std::prev(training_.optimizer.end())->object;
  if (Capture::current() && is_last) follow_replays();
  guarded([&] {
    if (sampler_ || result.is_known()) {
      line_.results.emplace_back(name(result.value()));
      if (result == optim::StepResult::skipped) line_.first_nonfinite = first_nonfinite();
    }
    if (sampler_ && result == optim::StepResult::stepped)
      for (const Before& b : before_)
        sampler_->rows().push_back(pending_update(b.row, b.value, b.target));
    before_.clear();
    if (sampler_) sampler_->note_memory(std::string(optimizer.type_name()), "step");
    if (is_last) end_step();
  });
}

void Report::Recorder::follow_replays() noexcept {
  if (ended_ || std::this_thread::get_id() != thread_) return;
  try {
    if (!replays_) replays_ = std::make_shared<Replays>(*this);
    Capture::current()->join(replays_);
  } catch (const std::exception& e) {
    drop(e);
  }
}

void Report::Recorder::drop_sample() {
  sampler_.reset();
  line_.sampled = false;
}

void Report::Recorder::end_step() {
  line_.ms = milliseconds(Clock::now() - step_start_);
  if (line_.scales.empty()) line_.scales = scales();
  line_.lrs = learning_rates();
  const CastStats casts = cast_stats() - casts_;
  line_.casts = casts.casts;
  line_.cast_bytes = casts.bytes;
  line_.memory = memory_stats(device_).total.current;
  const std::vector<SampleRow> rows = finished(sampler_ ? sampler_->rows() : overflow_rows_);
  overflow_rows_.clear();
  if (line_.first_nonfinite.empty() && was_skipped()) line_.first_nonfinite = nonfinite_row(rows);
  file_.write(json_line(run_, line_));
  if (events_) write_events(rows);
  if (sampler_ || !rows.empty()) file_.write(json_line(run_, line_.step, rows));
  if (sampler_) {
    file_.write(json_line(run_, line_.step, sampler_->casts()));
    if (sampled_ == 1) file_.write(json_line(run_, line_.step, sampler_->graph()));
    if (sampled_ <= 2) file_.write(json_line(run_, line_.step, sampler_->memory()));
    sampler_.reset();
  }
  ++line_.step;
  start_step();
}

bool Report::Recorder::was_skipped() const {
  return std::find(line_.results.begin(), line_.results.end(), "skipped") != line_.results.end();
}

}  // namespace mezzo::amp
