#include "error.h"

#include "executing.h"
#include "stack_space.h"

namespace mezzo {

namespace {
thread_local const ModulePathScope* innermost_scope = nullptr;
}

ModulePathScope::ModulePathScope(std::string_view name) : name_(name), outer_(innermost_scope) {
  // The path is left out: it is as long as the stack is deep.
  if (!stack_has_room())
    throw StateError(
        "call: modules are nested too deeply for this thread's stack; raise its limit (ulimit -s)");
  innermost_scope = this;
}

ModulePathScope::~ModulePathScope() { innermost_scope = outer_; }

bool module_is_executing() { return innermost_scope != nullptr; }

std::string current_module_path() {
  std::string path;
  for (const ModulePathScope* scope = innermost_scope; scope; scope = scope->outer_) {
    if (scope->name_.empty()) continue;
    path.insert(0, path.empty() ? std::string(scope->name_) : std::string(scope->name_) + ".");
  }
  return path;
}

std::string error_text(std::string_view op, const Complaint& c) {
  std::string text(op);
  if (const std::string path = current_module_path(); !path.empty()) text += "(" + path + ")";
  text += ": " + c.what;
  if (!c.got.empty()) text += "; got " + c.got;
  if (!c.expected.empty()) text += (c.got.empty() ? "; expected " : ", expected ") + c.expected;
  if (!c.hint.empty()) text += "; " + c.hint;
  return text;
}

}  // namespace mezzo
