// The handles in a MemberTable. Private to nn/.
#pragma once

#include <mutex>
#include <unordered_set>

#include "module.h"

namespace mezzo::nn::detail {

/** The handles, and the mutex of the whole table. */
struct MemberTable::Handles {
  std::mutex mutex;
  std::unordered_set<Module*> list;
};

}  // namespace mezzo::nn::detail
