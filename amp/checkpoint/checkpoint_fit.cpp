#include "checkpoint_fit.h"

#include <unordered_map>

#include "../../nn/serialize.h"
#include "../../tensor/io/utf8.h"
#include "../../tensor/text/text.h"

namespace mezzo::amp {

namespace {

constexpr std::string_view kOp = "load_checkpoint";

/** Returns whether a training with one of the loaders can continue that of the other: with the same
 *  batch of each process, or the same of all together. */
bool batches_fit(const SavedLoader& a, const SavedLoader& b) {
  const auto all = [](const SavedLoader& loader) {
    return static_cast<std::uint64_t>(loader.batch) * static_cast<std::uint64_t>(loader.shards);
  };
  return a.batch == b.batch || all(a) == all(b);
}

/** Returns text such as "64" or "64 in each of 2 processes". */
std::string batch_text(const SavedLoader& loader) {
  if (loader.shards == 1) return str(loader.batch);
  return str(loader.batch, " in each of ", loader.shards, " processes");
}

/** Collects the differences, and those that are allowed. */
class Comparison {
 public:
  Comparison(const Training& training, const ReadCheckpoint& saved, bool other_level)
      : training_(training), saved_(saved), other_level_(other_level) {}

  Fit run() {
    compare_names("model", training_.model, saved_.state.models);
    compare_names("optimizer", training_.optimizer, saved_.state.optimizers);
    compare_names("moving average", training_.average, saved_.state.averages);
    compare_names("schedule", training_.schedule, saved_.state.schedules);
    compare_names("loader", training_.loader, saved_.state.loaders);
    compare_names("generator", training_.generator, saved_.state.generators);
    compare_precision_names("session", training_.session, saved_.state.sessions);
    compare_precision_names("scaler", training_.scaler, saved_.state.scalers);
    compare_models();
    compare_optimizers();
    compare_averages();
    compare_sessions();
    compare_scalers();
    compare_schedules();
    compare_loaders();
    report();
    return std::move(fit_);
  }

 private:
  void differs(const std::string& what) { differences_.push_back(what); }
  /** Adds a difference in the level of mixed precision. */
  void level_differs(const std::string& what, const std::string& if_allowed) {
    if (other_level_)
      fit_.conversions.push_back(str(kOp, "(", saved_.path, "): ", what, "; ", if_allowed));
    else {
      level_differs_ = true;
      differs(what);
    }
  }
  /** Runs a check and adds its ValueError as a difference. */
  template <class F> void check(const F& load) {
    try {
      load();
    } catch (const ValueError& error) {
      differs(error.what());
    }
  }

  static std::string called(std::string_view kind, const std::string& name) {
    return name.empty() ? std::string(kind) : str(kind, " ", io::quote(name));
  }

  /** Calls missing(name, in_file) for every name that only one side has. */
  template <class T, class Saved, class F>
  static void each_missing(const Parts<T>& parts, const std::map<std::string, Saved>& saved,
                           const F& missing) {
    std::map<std::string, bool> here;
    for (const auto& part : parts) here[part.name] = true;
    for (const auto& [name, value] : saved)
      if (here.count(name) == 0) missing(name, true);
    for (const auto& [name, value] : here)
      if (saved.count(name) == 0) missing(name, false);
  }

  template <class T, class Saved>
  void compare_names(std::string_view kind, const Parts<T>& parts,
                     const std::map<std::string, Saved>& saved) {
    each_missing(parts, saved, [&](const std::string& name, bool in_file) {
      differs(in_file
                  ? str("the checkpoint has a ", called(kind, name), " that this training lacks")
                  : str("the checkpoint lacks the ", called(kind, name)));
    });
  }

  template <class T, class Saved>
  void compare_precision_names(std::string_view kind, const Parts<T>& parts,
                               const std::map<std::string, Saved>& saved) {
    each_missing(parts, saved, [&](const std::string& name, bool in_file) {
      if (in_file)
        level_differs(str("the checkpoint has a ", called(kind, name), " that this training lacks"),
                      "its loss scales are dropped");
      else
        level_differs(str("the checkpoint lacks the ", called(kind, name)), "its state is kept");
    });
  }

  /** Splits the tensors of a file by the part that their keys begin with. */
  template <class T, class Add>
  void split(std::string_view kind, const NamedTensors& tensors, const Parts<T>& parts,
             const Add& add) {
    for (const auto& [key, tensor] : tensors) {
      const bool alone = parts.size() == 1 && parts.begin()->name.empty();
      const std::size_t dot = alone ? std::string::npos : key.find('.');
      const std::string name = alone ? "" : key.substr(0, dot);
      bool known = false;
      for (const auto& part : parts) known = known || part.name == name;
      if (known && (alone || dot != std::string::npos))
        add(name, alone ? key : key.substr(dot + 1), tensor);
      else
        differs(str("the file has an entry that belongs to no ", kind, ": ", io::quote(key)));
    }
  }

  /** Returns the values of each part. */
  template <class T>
  std::map<std::string, nn::StateDict> values_of(std::string_view kind, const NamedTensors& tensors,
                                                 const Parts<T>& parts) {
    std::map<std::string, nn::StateDict> values;
    for (const auto& part : parts) values[part.name];
    split(kind, tensors, parts,
          [&](const std::string& name, const std::string& key, const Tensor& tensor) {
            values[name].set(key, tensor);
          });
    return values;
  }

  void compare_models() {
    fit_.models = values_of("model", saved_.weights, training_.model);
    for (const auto& model : training_.model) {
      const nn::StateDict& values = fit_.models[model.name];
      if (saved_.state.models.count(model.name) == 0) continue;
      check([&] { model.object->check_state_dict(values); });
      compare_dtypes(called("model", model.name), *model.object, values);
    }
  }

  /** Adds differing dtypes. A plain load converts them, but a resumed training must not. */
  void compare_dtypes(const std::string& who, const nn::Module& model,
                      const nn::StateDict& values) {
    std::unordered_map<std::string, DType> saved;
    for (const auto& [name, tensor] : values) saved.emplace(name, tensor.dtype());
    for (const auto& [name, tensor] : saved_tensors(model))
      if (const auto found = saved.find(name);
          found != saved.end() && found->second != tensor.dtype())
        differs(str(io::quote(name), " of the ", who, " was saved in ", found->second, " and is ",
                    tensor.dtype(), " now"));
  }

  void compare_optimizers() {
    for (const auto& optimizer : training_.optimizer)
      if (const auto found = saved_.state.optimizers.find(optimizer.name);
          found != saved_.state.optimizers.end())
        fit_.optimizers[optimizer.name].scalars = found->second.numbers;
    split("optimizer", saved_.moments, training_.optimizer,
          [&](const std::string& name, const std::string& key, const Tensor& tensor) {
            fit_.optimizers[name].tensors[key] = tensor;
          });
    const optim::Names names = parameter_names(training_.model);
    for (const auto& optimizer : training_.optimizer) {
      const auto found = saved_.state.optimizers.find(optimizer.name);
      if (found == saved_.state.optimizers.end()) continue;
      if (found->second.type != optimizer.object->type_name())
        differs(str("the ", called("optimizer", optimizer.name), " was ",
                    io::quote(found->second.type), " and is ", optimizer.object->type_name(),
                    " now"));
      else
        check(
            [&] { optimizer.object->check_state_dict(fit_.optimizers.at(optimizer.name), names); });
    }
  }

  void compare_averages() {
    fit_.averages = values_of("moving average", saved_.averages, training_.average);
    for (const auto& average : training_.average)
      if (saved_.state.averages.count(average.name) > 0)
        check([&] { average.object->check_state_dict(fit_.averages[average.name]); });
  }

  void compare_sessions() {
    for (const auto& session : training_.session) {
      const auto found = saved_.state.sessions.find(session.name);
      if (found == saved_.state.sessions.end()) continue;
      const SavedSession& was = found->second;
      const SavedSession is{.options = options_of(*session.object), .scalers = {}};
      check([&] { session.object->check_state_dict(was.scalers); });
      const bool keeps_scales = was.options == is.options || (was.dynamic() && is.dynamic());
      compare_options(called("session", session.name), was, is, keeps_scales);
      if (keeps_scales) take_scalers(session, was.scalers);
    }
  }

  void compare_options(const std::string& who, const SavedSession& was, const SavedSession& is,
                       bool keeps_scales) {
    std::map<std::string, std::pair<std::string, std::string>> both;
    for (const auto& [name, value] : was.options) both[name].first = value;
    for (const auto& [name, value] : is.options) both[name].second = value;
    const auto text = [](const std::string& value) {
      return value.empty() ? "not there" : io::quote(value);
    };
    std::string changes;
    for (const auto& [name, values] : both)
      if (values.first != values.second)
        changes += str(changes.empty() ? "" : ", ", name, " was ", text(values.first), " and is ",
                       text(values.second), " now");
    if (changes.empty()) return;
    std::string done = "weights and optimizer state are converted";
    if (!is.has_masters() && was.has_masters())
      done += ", masters dropped (the weights hold their values)";
    if (!keeps_scales && !was.scalers.empty()) done += ", loss scales dropped";
    level_differs(str("the ", who, " differs: ", changes), done);
  }

  /** Takes the scalers that the session has; the others are differences. */
  void take_scalers(const Parts<Session>::Entry& session, const StateDict& saved) {
    const StateDict here = session.object->state_dict();
    StateDict& taken = fit_.sessions[session.name];
    for (const auto& [name, fields] : saved)
      if (here.count(name) > 0)
        taken[name] = fields;
      else
        level_differs(str("the checkpoint has a ", name, " that this training lacks"),
                      "it is dropped");
    for (const auto& [name, fields] : here)
      if (saved.count(name) == 0)
        level_differs(str("the checkpoint lacks ", name), "its state is kept");
  }

  void compare_scalers() {
    for (const auto& scaler : training_.scaler) {
      const auto found = saved_.state.scalers.find(scaler.name);
      if (found == saved_.state.scalers.end()) continue;
      if (found->second.empty() == scaler.object->is_enabled()) {
        level_differs(str("the ", called("scaler", scaler.name), " was ",
                          found->second.empty() ? "disabled and is enabled now"
                                                : "enabled and is disabled now"),
                      found->second.empty() ? "its state is kept" : "its loss scale is dropped");
        continue;
      }
      const std::map<std::string, double> values(found->second.begin(), found->second.end());
      check([&] { scaler.object->check_state_dict(values); });
      fit_.scalers[scaler.name] = values;
    }
  }

  void compare_schedules() {
    for (const auto& schedule : training_.schedule)
      if (const auto found = saved_.state.schedules.find(schedule.name);
          found != saved_.state.schedules.end())
        check(
            [&] { schedule.object->check_state_dict({.tensors = {}, .scalars = found->second}); });
  }

  void compare_loaders() {
    for (const auto& loader : training_.loader) {
      const auto found = saved_.state.loaders.find(loader.name);
      if (found == saved_.state.loaders.end()) continue;
      const SavedLoader& was = found->second;
      const SavedLoader is = saved_loader(*loader.object);
      const auto compare = [&](const char* what, const auto& saved, const auto& now) {
        if (saved != now)
          differs(str(what, " of the ", called("loader", loader.name), " was ", saved, " and is ",
                      now, " now"));
      };
      compare("number of samples", was.samples, is.samples);
      if (!batches_fit(was, is)) compare("batch size", batch_text(was), batch_text(is));
      compare("shuffle", was.shuffle, is.shuffle);
      compare("drop_last", was.drop_last, is.drop_last);
      if (was.samples == is.samples) check([&] { loader.object->check(was.position); });
    }
  }

  void report() const {
    if (differences_.empty()) return;
    std::string all;
    for (const std::string& difference : differences_)
      all += (all.empty() ? "" : "; ") + difference;
    fail<ValueError>(
        str(kOp, "(", saved_.path, ")"),
        {.what = "the checkpoint does not fit this training",
         .got = all,
         .expected = "what was saved",
         .hint =
             level_differs_ ? "pass {.allow_other_level = true} to convert between levels" : ""});
  }

  const Training& training_;
  const ReadCheckpoint& saved_;
  bool other_level_, level_differs_ = false;
  Fit fit_;
  std::vector<std::string> differences_;
};

}  // namespace

Fit fit_to(const Training& training, const ReadCheckpoint& saved,
           const LoadCheckpointOptions& options) {
  return Comparison(training, saved, options.allow_other_level).run();
}

}  // namespace mezzo::amp
