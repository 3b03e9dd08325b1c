#include "checkpoint_parts.h"

#include <algorithm>

#include "../../nn/serialize.h"
#include "../../tensor/io/utf8.h"
#include "../../tensor/text/text.h"
#include "../session_core.h"

namespace mezzo::amp {

void Load::differs_in_level(const std::string& what, const std::string& if_allowed) {
  if (other_level) return notices.push_back(str(subject, ": ", what, "; ", if_allowed));
  level_differs = true;
  differs(what);
}

std::string title(PartKind kind, const std::string& name) {
  return name.empty() ? info_of(kind).noun : str(info_of(kind).noun, " ", io::quote(name));
}

std::string key_prefix(const std::string& name) { return name.empty() ? name : name + "."; }

optim::Names parameter_names(const Training& training) {
  optim::Names names;
  for (const auto& model : training.model)
    for (const nn::NamedTensor& entry : model.object->named_parameters())
      names.push_back({key_prefix(model.name) + entry.name, entry.tensor});
  return names;
}

bool trains_on_cpu(const optim::Names& names) {
  return std::any_of(names.begin(), names.end(),
                     [](const auto& entry) { return entry.tensor.device() == cpu; });
}

namespace {

using Names = optim::Names;
using Apply = std::function<void()>;

// ---- models, optimizers, averages, schedules ----------------------------------------------------

SavedPart saved(const nn::Module& model, const Names&) {
  return {.type = std::string(model.kind()), .state = mezzo::StateDict(saved_tensors(model))};
}

Apply stage(const nn::Module& model, const SavedPart& was, Load& load) {
  // A load of weights converts dtypes, but a resumed training must not.
  for (const auto& [key, tensor] : saved_tensors(model))
    if (const Tensor value = was.state.find(key);
        value.defined() && value.dtype() != tensor.dtype())
      load.differs(str(io::quote(key), " of the ", load.part, " was saved in ", value.dtype(),
                       " and is ", tensor.dtype(), " now"));
  nn::StagedLoad staged = model.stage(was.state);
  const auto& writes = staged.writes().all();
  load.incoming.insert(load.incoming.end(), writes.begin(), writes.end());
  return staged;
}

SavedPart saved(const optim::Optimizer& optimizer, const Names& names) {
  return {.type = std::string(optimizer.type_name()), .state = optimizer.state_dict(names)};
}

Apply stage(optim::Optimizer& optimizer, const SavedPart& was, Load& load) {
  if (was.type == optimizer.type_name())
    return optimizer.stage(was.state, load.names, load.incoming);
  load.differs(str("the ", load.part, " was ", io::quote(was.type), " and is ",
                   optimizer.type_name(), " now"));
  return {};
}

SavedPart saved(const nn::ExponentialMovingAverage& average, const Names&) {
  return {.type = "ExponentialMovingAverage", .state = average.state_dict()};
}

SavedPart saved(const optim::SchedulerBase& schedule, const Names&) {
  return {.state = schedule.state_dict()};
}

template <class T> Apply stage(T& object, const SavedPart& was, Load&) {
  return object.stage(was.state);
}

// ---- mixed precision ----------------------------------------------------------------------------

SavedPart saved(const GradScaler& scaler, const Names&) {
  SavedPart out;
  for (const auto& [name, number] : scaler.state_dict()) out.state.numbers[name] = number;
  return out;
}

Apply stage(GradScaler& scaler, const SavedPart& was, Load& load) {
  const bool was_enabled = !was.state.numbers.empty();
  if (was_enabled == scaler.is_enabled()) return scaler.stage(was.state);
  load.differs_in_level(
      str("the ", load.part, " was ",
          was_enabled ? "enabled and is disabled" : "disabled and is enabled", " now"),
      was_enabled ? "its loss scale is dropped" : "its state is kept");
  return {};
}

SavedPart saved(const Session& session, const Names&) {
  SavedPart out{.options = texts_of(session.options())};
  for (const auto& [name, fields] : session.state_dict())
    for (const auto& [field, number] : fields) out.state.numbers[str(name, ".", field)] = number;
  return out;
}

Apply stage(Session& session, const SavedPart& was, Load& load) {
  (void)session.stage(was.state);
  const SavedPart is = saved(session, {});
  const OptionChanges changes = option_changes(was.options, is.options);
  std::string done = "weights and optimizer state are converted";
  if (changes.drops_masters) done += ", masters dropped (the weights hold their values)";
  if (changes.drops_scales && !was.state.numbers.empty()) done += ", loss scales dropped";
  if (!changes.text.empty())
    load.differs_in_level(str("the ", load.part, " differs: ", changes.text), done);
  if (changes.drops_scales) return {};
  mezzo::StateDict taken = was.state;
  const std::string_view ending = ".loss_scale";  // each scaler has one
  for (const auto& [key, number] : was.state.numbers) {
    if (is.state.numbers.count(key) > 0) continue;
    taken.numbers.erase(key);
    if (key.ends_with(ending))
      load.differs_in_level(str("the checkpoint has a ", key.substr(0, key.size() - ending.size()),
                                " that this training lacks"),
                            "it is dropped");
  }
  for (const auto& [key, number] : is.state.numbers)
    if (key.ends_with(ending) && was.state.numbers.count(key) == 0)
      load.differs_in_level(str("the checkpoint lacks ", key.substr(0, key.size() - ending.size())),
                            "its state is kept");
  return session.stage(taken);
}

// ---- positions in data and random streams -------------------------------------------------------

SavedPart saved(const data::Batches& loader, const Names&) {
  const data::Position at = loader.position();
  const data::BatchOptions& o = loader.options();
  const auto count = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  return {.counts = {{"seed", at.seed},
                     {"epoch", at.epoch},
                     {"sample", count(at.sample)},
                     {"samples", count(loader.samples())},
                     {"batch", count(o.size)},
                     {"shuffle", o.shuffle},
                     {"drop_last", o.drop_last},
                     {"shards", count(o.shard.count)}}};
}

/** Returns text such as "64" or "64 in each of 2 processes". */
std::string batch_text(std::map<std::string, std::uint64_t>& loader) {
  if (loader["shards"] == 1) return str(loader["batch"]);
  return str(loader["batch"], " in each of ", loader["shards"], " processes");
}

Apply stage(data::Batches& loader, const SavedPart& saved_part, Load& load) {
  auto was = saved_part.counts, is = saved(loader, {}).counts;
  const auto compare = [&](const char* what, const auto& then, const auto& now) {
    if (then != now)
      load.differs(str(what, " of the ", load.part, " was ", then, " and is ", now, " now"));
  };
  compare("number of samples", was["samples"], is["samples"]);
  // A loader of other processes continues with the same batch of each, or of all together.
  if (was["batch"] != is["batch"] && was["batch"] * was["shards"] != is["batch"] * is["shards"])
    compare("batch size", batch_text(was), batch_text(is));
  for (const char* flag : {"shuffle", "drop_last"}) compare(flag, was[flag] != 0, is[flag] != 0);
  const data::Position at{was["seed"], was["epoch"], static_cast<std::int64_t>(was["sample"])};
  if (was["samples"] == is["samples"]) loader.check(at);
  return [&loader, at] { loader.resume(at); };
}

SavedPart saved(const Generator& generator, const Names&) {
  return {.counts = {{"seed", generator.seed}, {"draw", generator.draw}}};
}

Apply stage(Generator& generator, const SavedPart& was, Load&) {
  return [&generator, to = Generator{was.counts.at("seed"), was.counts.at("draw")}] {
    generator = to;
  };
}

// ---- checks of a training -----------------------------------------------------------------------

void require_names(std::string_view op, const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    const char* const noun = info_of(part.kind).noun;
    const auto alike = [&](bool any_name) {
      return std::count_if(parts.begin(), parts.end(), [&](const Part& other) {
        return other.kind == part.kind && (any_name || other.name == part.name);
      });
    };
    if ((part.name.empty() && alike(true) > 1) || part.name.find('.') != std::string::npos ||
        io::find_non_utf8(part.name) != std::string::npos)
      fail<ValueError>(op, {.what = str("invalid name for a ", noun),
                            .got = io::quote(part.name),
                            .expected = "UTF-8 text without a dot"});
    if (alike(false) > 1)
      fail<ValueError>(op,
                       {.what = str("duplicate name for a ", noun), .got = io::quote(part.name)});
  }
}

void require_metadata(std::string_view op, const Training& training) {
  if (const std::int64_t number = std::min(training.step, training.epoch); number < 0)
    fail<ValueError>(op, {.what = "step and epoch must not be negative", .got = str(number)});
  for (const auto& [key, value] : training.metadata)
    for (const std::string* text : {&key, std::get_if<std::string>(&value)})
      if (text && io::find_non_utf8(*text) != std::string::npos)
        fail<ValueError>(op, {.what = "the metadata is not UTF-8", .got = io::quote(*text)});
}

}  // namespace

std::vector<Part> parts_of(std::string_view op, const Training& training) {
  std::vector<Part> out;
  const auto add = [&out](PartKind kind, const auto& objects) {
    for (const auto& [name, object] : objects)
      out.push_back(
          {kind, name, [it = object](const Names& names) { return saved(*it, names); },
           [it = object](const SavedPart& was, Load& load) { return stage(*it, was, load); }});
  };
  add(PartKind::model, training.model);
  add(PartKind::schedule, training.schedule);
  add(PartKind::optimizer, training.optimizer);
  add(PartKind::ema, training.average);
  add(PartKind::session, training.session);
  add(PartKind::scaler, training.scaler);
  add(PartKind::loader, training.loader);
  add(PartKind::generator, training.generator);
  add(PartKind::stream, Parts<Generator>(default_generator()));
  require_names(op, out);
  require_metadata(op, training);
  require_sessions(op, training.session, training.optimizer, training.model);
  return out;
}

}  // namespace mezzo::amp
