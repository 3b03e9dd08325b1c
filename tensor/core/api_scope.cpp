#include "api_scope.h"

namespace mezzo {

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
