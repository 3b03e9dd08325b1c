#include "call_name.h"

namespace mezzo {

namespace {
thread_local std::string_view the_name;
}  // namespace

CallName::CallName(std::string_view name) : is_outermost_(the_name.empty() && !name.empty()) {
  if (is_outermost_) the_name = name;
}

CallName::~CallName() {
  if (is_outermost_) the_name = {};
}

std::string_view CallName::outermost(std::string_view inner) { return the_name.empty() ? inner : the_name; }

}  // namespace mezzo
