// Calls of modules: what a thread executes, and modules that are called without having been added.
#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "../tensor/text/log.h"
#include "../tensor/text/text.h"
#include "module.h"

namespace mezzo::nn {

namespace {

thread_local const detail::ModuleCall* innermost_call = nullptr;

/** Returns true if a net that calls the module without add() computes or trains something wrong: it
 *  has parameters that are trained, or depends on the training mode, which the net does not
 *  switch. */
bool matters(const ModuleState& module) {
  std::unordered_set<const ModuleState*> seen{&module};
  std::vector<const ModuleState*> left{&module};
  while (!left.empty()) {
    const ModuleState& state = *left.back();
    left.pop_back();
    if (state.training && (state.uses_mode || !state.buffers.empty())) return true;
    for (const NamedTensor& parameter : state.parameters)
      if (parameter.tensor.requires_grad()) return true;
    for (const NamedModule& child : state.children)
      if (seen.insert(&child.module.state()).second) left.push_back(&child.module.state());
  }
  return false;
}

/** Logs that `net` calls a module that no module has added; once for each text. */
void log_unadded(const ModuleState& net, const ModuleState& module) {
  constexpr std::size_t kMostLines = 64;  // of a net whose forward constructs modules
  const std::string text = detail::described(module);
  {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    std::vector<std::string>& logged = net.logged_unadded;
    if (logged.size() == kMostLines ||
        std::find(logged.begin(), logged.end(), text) != logged.end())
      return;
    logged.push_back(text);
  }
  log_text(Severity::warning,
           error_text(detail::short_name(net.type),
                      {.what = "the net calls a module that was not added to it, and does not "
                               "train, move, save or switch it",
                       .got = text,
                       .expected = "a member that is initialised by add(\"name\", ...), or a "
                                   "ModuleList",
                       .hint = "a module that is to stay outside is frozen and in evaluation "
                               "mode"}));
}

}  // namespace

std::string detail::described(const ModuleState& module) {
  return str(short_name(module.type), module.summary.empty() ? "" : "(" + module.summary + ")");
}

void detail::check_caller(const ModuleState& module) {
  if (!innermost_call || module.registrations.load(std::memory_order_relaxed) > 0) [[likely]]
    return;
  for (const ModuleCall* call = innermost_call; call; call = call->caller_)
    if (&call->module_ == &module) return;  // it calls itself
  if (module.replaced)
    fail<StateError>(short_name(module.type),
                     {.what = "a net calls a module that replace() removed from it",
                      .got = str("the old \"", module.name, "\""),
                      .hint = "give this handle to replace(), too: net.replace(handle, module)"});
  if (matters(module)) log_unadded(innermost_call->module_, module);
}

detail::ModuleCall::ModuleCall(const ModuleState& module)
    : module_((check_caller(module), module)), caller_(innermost_call), path_(module.name) {
  innermost_call = this;
}

detail::ModuleCall::~ModuleCall() { innermost_call = caller_; }

}  // namespace mezzo::nn
