#include "session.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "../autograd/gradient_receiver.h"
#include "../optim/late_leaves.h"
#include "../tensor/io/utf8.h"
#include "../tensor/text/text.h"
#include "scaling/scale_loss.h"
#include "weights/conversion.h"
#include "weights/master.h"

namespace mezzo::amp {

namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> count{0};
  return ++count;
}

template <class T>
void refuse_duplicates(const std::vector<T*>& objects, const auto& identity,
                       std::string_view what) {
  std::unordered_set<const void*> seen;
  for (const T* object : objects)
    if (!seen.insert(identity(*object)).second)
      fail<ValueError>(kInitialize, {.what = str("the same ", what, " was passed twice")});
}

/** Returns ", through its part blocks.0"; nothing for the model itself. */
std::string part_text(const nn::Module& model, const nn::Module& part) {
  for (const nn::NamedModule& entry : model.named_modules())
    if (entry.module.is_same(part) && !entry.name.empty())
      return ", through its part " + entry.name;
  return {};
}

void refuse_wrapped(const nn::Module& model) {
  const std::vector<Tensor> params = model.parameters();
  if (model.is_parallel_wrapper() ||
      std::any_of(params.begin(), params.end(),
                  [](const Tensor& param) { return gradient_receiver(param) != nullptr; }))
    fail<ValueError>(kInitialize,
                     {.what = "a model is a parallel wrapper",
                      .got = std::string(model.kind()),
                      .hint = "wrap after initialize: pass the model inside, then wrap it"});
}

void check_models(const ModelList& models, const Options& options) {
  refuse_duplicates(models, [](const nn::Module& m) { return &m.state(); }, "model");
  for (const nn::Module* model : models)
    for (const nn::Module& module : model->modules())
      if (module.attached_to())
        fail<StateError>(kInitialize, {.what = "a model belongs to another live session",
                                       .got = str(model->kind(), part_text(*model, module)),
                                       .hint = "close that session first"});
  for (const nn::Module* model : models) refuse_wrapped(*model);
  if (options.allow_incoming_model_not_fp32) return;
  for (const nn::Module* model : models) check_incoming(*model);
}

/** Returns the dotted name of a parameter in models; empty if it is in none. */
std::string name_in(const ModelList& models, const Tensor& param) {
  for (const nn::Module* model : models)
    for (const nn::NamedTensor& entry : model->named_parameters())
      if (entry.tensor.is_same(param)) return entry.name;
  return {};
}

/** Returns the parameters of optimizers. */
std::unordered_set<const TensorImpl*> params_of(const OptimizerList& optimizers) {
  std::unordered_set<const TensorImpl*> params;
  for (const optim::Optimizer* optimizer : optimizers)
    for (const optim::Slot& slot : optimizer->slots()) params.insert(slot.param.impl());
  return params;
}

/** Throws for a parameter that joined a model after its optimizer was made, and is in none. */
void refuse_late(const ModelList& models, const OptimizerList& optimizers) {
  const std::unordered_set<const TensorImpl*> held = params_of(optimizers);
  for (const LateLeaf& late :
       late_leaves([&](const Tensor& leaf) { return held.count(leaf.impl()) > 0; })) {
    const std::string name = name_in(models, late.leaf);
    if (name.empty() || !late.leaf.requires_grad()) continue;
    fail<StateError>(
        kInitialize,
        {.what = "a parameter is in no optimizer",
         .got = str("\"", name, "\" ", late.leaf, ", from ", late.call,
                    "() after the optimizer was made"),
         .expected = "an optimizer over the model as it is now",
         .hint = "make the optimizer later, or call add_param_group() with the parameters"});
  }
}

/** Throws for an optimizer of other models than those given, if it seems to be taken for that of
 *  one of these: it has parameters of a model, but none of these models; and one of these has
 *  parameters to train, but none in an optimizer. Optimizers of tensors that belong to no model,
 *  and optimizers of further models, are right. */
void refuse_foreign(const ModelList& models, const OptimizerList& optimizers) {
  const std::unordered_set<const TensorImpl*> held = params_of(optimizers);
  std::unordered_set<const TensorImpl*> in_models;
  const nn::Module* untrained = nullptr;
  for (const nn::Module* model : models) {
    bool any_to_train = false, any_held = false;
    for (const Tensor& param : model->parameters()) {
      in_models.insert(param.impl());
      any_to_train = any_to_train || param.requires_grad();
      any_held = any_held || held.count(param.impl()) > 0;
    }
    if (any_to_train && !any_held && !untrained) untrained = model;
  }
  if (!untrained) return;
  for (const optim::Optimizer* optimizer : optimizers) {
    bool any_of_models = false;
    Tensor foreign;
    for (const optim::Slot& slot : optimizer->slots()) {
      any_of_models = any_of_models || in_models.count(slot.param.impl()) > 0;
      if (slot.param.impl()->is_parameter && !foreign.defined()) foreign = slot.param;
    }
    if (any_of_models || !foreign.defined()) continue;
    const nn::NamedTensor first = untrained->named_parameters()[0];
    fail<ValueError>(kInitialize,
                     {.what = "an optimizer has no parameter of the models",
                      .got = str(optimizer->type_name(), " with ", foreign, " of another model"),
                      .expected = str("\"", first.name, "\" ", first.tensor, " of ",
                                      untrained->kind(), " in an optimizer"),
                      .hint = "pass the optimizer of this model, or the other model too"});
  }
}

void check_optimizers(const ModelList& models, const OptimizerList& optimizers) {
  refuse_duplicates(optimizers, [](const optim::Optimizer& o) { return &o; }, "optimizer");
  for (const optim::Optimizer* optimizer : optimizers) {
    optimizer->refuse_closure(kInitialize);
    if (optimizer->hooks())
      fail<StateError>(
          kInitialize,
          {.what = "A given optimizer should only be passed through amp::initialize once",
           .got = std::string(optimizer->type_name()),
           .hint = "close its session first"});
    AmpOptimizerState::require_own(kInitialize, nullptr, optimizer->slots(),
                                   [&](const Tensor& param) { return name_in(models, param); });
    for (const optim::Slot& slot : optimizer->slots())
      if (slot.master.defined())
        fail<StateError>(kInitialize,
                         {.what = "an optimizer has its own masters",
                          .got = str(optimizer->type_name(), " with a master of ", slot.param)});
  }
  if (late_leaves_exist()) refuse_late(models, optimizers);
  refuse_foreign(models, optimizers);
}

std::shared_ptr<SessionCore> make_core(const Options& options) {
  auto core = std::make_shared<SessionCore>();
  core->number = next_number();
  core->options = options;
  if (!options.enabled) return core;
  core->casts_ops = options.casts_ops();
  core->low = options.level().low.value_or(f16);
  core->prints_casts = options.verbosity >= 2;
  core->cache.remember_weights();
  for (int i = 0; i < options.num_losses; ++i) {
    core->scalers.push_back(std::make_shared<LossScaler>(options));
    core->scalers.back()->index = static_cast<std::size_t>(i);
    core->scalers.back()->optimizers = core->scalers[0]->optimizers;
  }
  return core;
}

void link_optimizer(const std::shared_ptr<SessionCore>& core, optim::Optimizer& optimizer) {
  LossScaler* const scaler = core->enabled() ? core->scalers[0].get() : nullptr;
  const auto state = std::make_shared<AmpOptimizerState>(core, scaler, optimizer);
  core->optimizers.push_back(state.get());
  optimizer.attach(state);
  state->before_add(optimizer, optimizer.slots());
}

/** Returns the device of the models' first parameter; the CPU without one. */
Device device_of(const ModelList& models) {
  for (const nn::Module* model : models)
    for (const Tensor& param : model->parameters()) return param.device();
  return cpu;
}

/** Drops the gradients of 16-bit parameters with a master: they start without one. */
void drop_gradients(const OptimizerList& optimizers) {
  for (optim::Optimizer* optimizer : optimizers)
    for (const optim::Slot& slot : optimizer->slots())
      if (slot.master.defined()) slot.param.set_grad({});
}

/** Removes everything that a session attached. Does not allocate. */
void detach(SessionCore& core) {
  core.live = false;
  core.cache.clear();
  ThreadCasts::here().deactivate(core);
  detach_models(core);
  while (!core.optimizers.empty())  // detaching removes it from the list
    core.optimizers.back()->optimizer()->attach(nullptr);
  core.masters.clear();
  core.stash.clear();
}

/** Ends a session. Errors: OutOfMemory; the session stays live then. */
void end(SessionCore& core) {
  if (!core.live) return;
  core.finish_gradients();
  const Restoration restoration(core);
  restoration.apply();
  detach(core);
}

}  // namespace

std::shared_ptr<SessionCore> SessionCore::current(std::string_view op) {
  auto session = std::dynamic_pointer_cast<SessionCore>(ThreadCasts::here().current_session());
  if (!session)
    refuse(op, "there is no session on this thread",
           "call amp::initialize first and keep what it returns");
  return session;
}

void SessionCore::print(std::string_view text) const {
  if (options.verbosity >= 1) log_text(Severity::info, text);
}

std::string SessionCore::description() const {
  std::string text;
  for (const auto& texts : {property_texts(options), further_texts(options)})
    for (const auto& [name, value] : texts) text += str(name, " = ", value, "\n");
  for (std::size_t i = 0; i < scalers.size(); ++i)
    text += str("loss scale ", i, " = ", scalers[i]->loss_scale(), "\n");
  for (const AmpOptimizerState* state : optimizers)
    if (state->optimizer()) text += str("optimizer ", state->optimizer()->type_name(), "\n");
  return text;
}

std::string SessionCore::name_of(const Tensor& param) const {
  for (const nn::Module& model : models)
    for (const nn::NamedTensor& entry : model.named_parameters())
      if (entry.tensor.is_same(param)) return entry.name;
  return {};
}

Session initialize(const ModelList& models, const OptimizerList& optimizers,
                   const Options& options) {
  const Options resolved = resolve(options);
  if (resolved.enabled) {
    check_models(models, resolved);
    check_optimizers(models, optimizers);
  }
  const auto core = make_core(resolved);
  if (resolved.enabled)
    for (const nn::Module* model : models) core->models.push_back(*model);
  Conversion conversion(core->models, resolved);
  const std::string losses = conversion.losses(core->models);
  if (resolved.enabled) core->print(headline(resolved, device_of(models)));
  if (resolved.enabled && resolved.verbosity >= 2) core->print(explanation(resolved));
  try {
    conversion.apply(*core);
    if (resolved.masters()) conversion.keep_originals(*core);
    attach_models(core);
    for (optim::Optimizer* optimizer : optimizers)
      if (!optimizer->hooks()) link_optimizer(core, *optimizer);
    ThreadCasts::here().activate(core);
  } catch (...) {
    detach(*core);
    conversion.undo();
    throw;
  }
  drop_gradients(optimizers);
  if (!losses.empty() && resolved.verbosity >= 1)
    log_text(
        Severity::warning,
        str(kInitialize, ": weights or buffers do not fit ", *resolved.model_dtype(), ": ", losses,
            resolved.masters() ? "; the session keeps their f32 values"
                               : "; at this level the f32 values are lost"));
  return Session(core);
}

// ---- Session ------------------------------------------------------------------------------------

Activation::Activation(std::shared_ptr<SessionCore> core) : core_(std::move(core)) {
  ThreadCasts::here().activate(core_);
}

Activation::~Activation() { ThreadCasts::here().deactivate(*core_); }

SessionCore& Session::core() const {
  if (!core_) fail<StateError>("Session", {.what = "this session was moved from"});
  return *core_;
}

Session& Session::operator=(Session&& other) noexcept {
  if (this != &other) {
    const Session former(std::move(*this));
    core_ = std::move(other.core_);
  }
  return *this;
}

Session::~Session() {
  if (!core_) return;
  try {
    core_->require_no_scope("Session.close");
  } catch (const std::exception& error) {
    log_text(Severity::error, error.what());  // the gradients of the scope stay scaled
  }
  try {
    end(*core_);
  } catch (const std::exception& error) {
    log_text(Severity::error, error.what());
  }
}

void Session::close() {
  if (!core_) return;
  core_->require_no_scope("Session.close");
  end(*core_);
}

const Options& Session::options() const { return core().options; }

LossScaler& Session::loss_scaler(int loss_id) {
  const std::vector<std::shared_ptr<LossScaler>>& scalers = core().scalers;
  if (loss_id < 0 || loss_id >= static_cast<int>(scalers.size()))
    fail<IndexError>("Session.loss_scaler", {.what = "no such scaler",
                                             .got = str(loss_id),
                                             .expected = str("one of ", scalers.size()),
                                             .hint = "set num_losses in amp::initialize"});
  return *scalers[static_cast<std::size_t>(loss_id)];
}

Activation Session::activate() {
  (void)core();
  return Activation(core_);
}

CastCache& Session::cast_cache() { return core().cache; }

// ---- checkpoints -------------------------------------------------------------------------------

namespace {

std::string scaler_name(std::size_t index) { return str("loss_scaler", index); }

StateDict saved_scalers(const SessionCore& core) {
  StateDict out;
  for (std::size_t i = 0; i < core.scalers.size(); ++i)
    out[scaler_name(i)] = {{"loss_scale", core.scalers[i]->loss_scale()},
                           {"unskipped", static_cast<double>(core.scalers[i]->unskipped())}};
  return out;
}

/** Returns the index in "loss_scaler<index>". Errors: ValueError for any other name. */
std::size_t scaler_index(const std::string& name) {
  constexpr std::string_view prefix = "loss_scaler";
  std::size_t index = 0;
  const char* end = name.data() + name.size();
  if (name.starts_with(prefix)) {
    const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, index);
    if (error == std::errc{} && stop == end && scaler_name(index) == name) return index;
  }
  fail<ValueError>("amp::load_state_dict", {.what = "unknown entry",
                                            .got = str("\"", name, "\""),
                                            .expected = "loss_scaler0, loss_scaler1, ..."});
}

struct SavedScaler {
  double loss_scale;
  std::int64_t unskipped;
};

SavedScaler checked_entry(const std::string& name, const std::map<std::string, double>& fields) {
  const auto refuse = [&](const std::string& what, const std::string& got) {
    fail<ValueError>("amp::load_state_dict", {.what = str("entry \"", name, "\": ", what),
                                              .got = got,
                                              .expected = "loss_scale > 0 and unskipped >= 0"});
  };
  for (const char* field : {"loss_scale", "unskipped"})
    if (fields.count(field) == 0) refuse(str("field ", field, " is missing"), "");
  if (fields.size() != 2) refuse("unexpected fields", str(fields.size(), " fields"));
  const double scale = fields.at("loss_scale"), unskipped = fields.at("unskipped");
  if (!is_usable_scale(scale)) refuse("bad loss_scale", str(scale));
  if (!(unskipped >= 0) || unskipped > 0x1p53 || unskipped != std::floor(unskipped))
    refuse("bad unskipped", str(unskipped));
  return {scale, static_cast<std::int64_t>(unskipped)};
}

std::map<std::size_t, SavedScaler> checked_entries(const StateDict& saved) {
  std::map<std::size_t, SavedScaler> entries;
  for (const auto& [name, fields] : saved)
    entries[scaler_index(name)] = checked_entry(name, fields);
  return entries;
}

/** Checks and prepares a load of scalers. The returned function performs it and does not
 *  allocate. */
std::function<void()> staged_scalers(SessionCore& core, const StateDict& saved) {
  std::map<std::size_t, SavedScaler> entries = checked_entries(saved);
  const std::size_t count = core.scalers.size();
  std::vector<std::string> notices;
  if (entries.size() != count)
    notices.push_back(str("Warning: state_dict contains ", entries.size(), " entries, while ",
                          count, " loss_scalers are used"));
  for (const auto& [index, entry] : entries)
    if (index >= count)
      notices.push_back(
          str("Skipping loss_scaler[", index, "], since num_losses was set to ", count));
  return [&core, entries = std::move(entries), notices = std::move(notices)] {
    for (const std::string& notice : notices) core.print(notice);
    for (const auto& [index, entry] : entries)
      if (index < core.scalers.size())
        core.scalers[index]->restore(entry.loss_scale, entry.unskipped);
  };
}

}  // namespace

StateDict Session::state_dict() const { return saved_scalers(core()); }
void Session::load_state_dict(const StateDict& saved) { staged_scalers(core(), saved)(); }
void Session::check_state_dict(const StateDict& saved) const { (void)checked_entries(saved); }
std::function<void()> Session::stage(const mezzo::StateDict& saved) const {
  StateDict by_scaler;
  for (const auto& [name, number] : saved.numbers) {
    const std::size_t dot = std::min(name.rfind('.'), name.size());
    by_scaler[name.substr(0, dot)][name.substr(std::min(dot + 1, name.size()))] = number;
  }
  for (const std::string& name : saved.tensors.names()) by_scaler[name];
  return staged_scalers(core(), by_scaler);
}
StateDict state_dict() { return saved_scalers(*SessionCore::current("amp")); }
void load_state_dict(const StateDict& saved) {
  staged_scalers(*SessionCore::current("amp"), saved)();
}

void require_sessions(std::string_view op, const Parts<Session>& sessions,
                      const Parts<optim::Optimizer>& optimizers,
                      const Parts<const nn::Module>& models) {
  for (const auto& session : sessions)
    if (!session.object->core().live)
      fail<StateError>(op, {.what = "a session is closed", .got = io::quote(session.name)});
  const auto require = [&](const nn::AttachedSession* core, const char* what,
                           std::string_view which) {
    for (const auto& session : sessions)
      if (&session.object->core() == core) return;
    fail<ValueError>(op,
                     {.what = str(what, " belongs to a session that is not in .session"),
                      .got = std::string(which),
                      .hint = "add the session to .session; training cannot resume without it"});
  };
  for (const auto& optimizer : optimizers)
    if (const auto amp = AmpOptimizerState::of(*optimizer.object); amp && amp->core->enabled())
      require(amp->core.get(), "an optimizer", optimizer.object->type_name());
  for (const auto& model : models)
    for (const nn::Module& module : model.object->modules())
      if (module.attached_to()) require(module.attached_to(), "a model", model.object->kind());
}

std::string Session::explain() const { return amp::explain(core()); }

}  // namespace mezzo::amp
