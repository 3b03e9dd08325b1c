// Part: an object of a training as a checkpoint sees it: a kind, a name, state_dict() and stage().
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint_state.h"

namespace mezzo::amp {

/** What a load of all parts needs, and what it collects while they are staged. */
struct Load {
  std::string subject = {};                              // in messages: "load_checkpoint(PATH)"
  optim::Names names = {};                               // of the parameters of all models
  bool other_level = false;                              // other levels of precision are allowed
  std::string part = {};                                 // being staged: `optimizer "critic"`
  std::vector<std::pair<Tensor, Tensor>> incoming = {};  // parameters, and their values after it
  std::string differences = {};                          // why the checkpoint does not fit
  std::vector<std::string> notices = {};                 // the allowed differences, as log lines
  bool level_differs = false;                            // some `differences` could be allowed

  /** Adds a difference. */
  void differs(const std::string& what) { differences += (differences.empty() ? "" : "; ") + what; }
  /** Adds a difference in the level of mixed precision; `if_allowed` says what is done then. */
  void differs_in_level(const std::string& what, const std::string& if_allowed);
};

/** A part of a training. */
struct Part {
  PartKind kind;
  std::string name;
  /** Returns what a checkpoint holds of it; `names` are those of the models' parameters. */
  std::function<SavedPart(const optim::Names& names)> state_dict;
  /** Adds the differences to the Load and returns the load of this part, which does not allocate;
   *  nothing changes before its call. Errors: ValueError for a difference. */
  std::function<std::function<void()>(const SavedPart&, Load&)> stage;
};

/** Returns text such as `optimizer "critic"`. */
std::string title(PartKind kind, const std::string& name);
/** Returns "name.", or nothing for a single object without a name. */
std::string key_prefix(const std::string& name);
/** Returns the parameters of all models with the names that key the optimizers' entries. */
optim::Names parameter_names(const Training& training);
/** Returns whether a model has parameters on the CPU. */
bool trains_on_cpu(const optim::Names& names);

/** Returns the parts of a training in the order in which they are loaded: models before optimizers,
 *  as a saved master is used only if it rounds to the loaded parameter; schedules before
 *  optimizers, as both set learning rates and the optimizer's was the one in use. Errors:
 *  ValueError for names that cannot be keys or occur twice, a negative step or epoch, metadata that
 *  is not UTF-8, and an optimizer or model whose session is not among the parts; StateError for a
 *  closed session. */
std::vector<Part> parts_of(std::string_view op, const Training& training);

}  // namespace mezzo::amp
