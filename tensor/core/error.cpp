#include "error.h"

#include "../memory/stack_space.h"

namespace mezzo {

namespace {

thread_local const ModulePathScope* innermost_scope = nullptr;

/** Returns the length in bytes of the control character at the start of the text, 0 if there is
 *  none. Control characters are those of ASCII, and U+0080 to U+009F in UTF-8. */
std::size_t control_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x20 || byte(0) == 0x7F) return 1;
  return text.size() > 1 && byte(0) == 0xC2 && byte(1) >= 0x80 && byte(1) < 0xA0 ? 2 : 0;
}

/** Returns the control character as a C++ escape sequence. */
std::string escaped(std::string_view control) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  switch (control[0]) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: break;
  }
  const auto value = static_cast<unsigned char>(control.back());
  const std::string start = control.size() == 1 ? "\\x" : "\\u00";
  return start + kDigits[value >> 4] + kDigits[value & 15];
}

/** Returns the text with control characters escaped. An error is one line, and quoted data must not
 *  reach a terminal as commands. */
std::string without_controls(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = control_length(text);
    if (length > 0)
      out += escaped(text.substr(0, length));
    else
      out += text[0];
    text.remove_prefix(length > 0 ? length : 1);
  }
  return out;
}

}  // namespace

ModulePathScope::ModulePathScope(std::string_view name) : name_(name), outer_(innermost_scope) {
  // The text omits the path, because it is as long as the stack is deep.
  if (!stack_has_room())
    throw StateError(
        "call: modules are nested too deeply for this thread's stack; raise its limit (ulimit -s)");
  innermost_scope = this;
}

ModulePathScope::~ModulePathScope() { innermost_scope = outer_; }

std::string current_module_path() {
  std::string path;
  current_module_path(path);
  return path;
}

void current_module_path(std::string& path) {
  std::size_t length = 0;
  for (const ModulePathScope* scope = innermost_scope; scope; scope = scope->outer_)
    if (!scope->name_.empty()) length += scope->name_.size() + (length > 0 ? 1 : 0);
  path.resize(length);
  // from the innermost module, whose name is last
  for (const ModulePathScope* scope = innermost_scope; scope; scope = scope->outer_) {
    if (scope->name_.empty()) continue;
    length -= scope->name_.size();
    scope->name_.copy(path.data() + length, scope->name_.size());
    if (length > 0) path[--length] = '.';
  }
}

std::string error_text(std::string_view op, const Complaint& c) {
  std::string text(op);
  if (const std::string path = current_module_path(); !path.empty()) text += "(" + path + ")";
  text += ": " + c.what;
  if (!c.got.empty()) text += "; got " + c.got;
  if (!c.expected.empty()) text += (c.got.empty() ? "; expected " : ", expected ") + c.expected;
  if (!c.hint.empty()) text += "; " + c.hint;
  return without_controls(text);
}

namespace {
thread_local std::string_view outermost_name;
}  // namespace

ApiScope::ApiScope(std::string_view name) : is_outermost_(outermost_name.empty() && !name.empty()) {
  if (is_outermost_) outermost_name = name;
}

ApiScope::~ApiScope() {
  if (is_outermost_) outermost_name = {};
}

std::string_view ApiScope::outermost(std::string_view inner) {
  return outermost_name.empty() ? inner : outermost_name;
}

}  // namespace mezzo
