// Sweeps of failing allocations: a call is made again and again while the n-th allocation fails,
// for every n, and each time nothing may change.
// Sees: mezzo.h.
// Read next: sweep.cpp, rows.h (the calls), faults.cpp (the tests).
#pragma once

#include <mezzo.h>

#include <functional>
#include <string>
#include <vector>

#include "../support/state.h"

namespace faults {

using namespace mezzo;

using states::State;  // everything that a call may change

/** A call and what it works on. */
struct Subject {
  std::function<void()> call;
  std::function<State()> state;
};

/** Makes a subject, the same each time. */
struct Row {
  std::string name;
  std::function<Subject()> make;
};

/** Which allocations fail: tensors' on the test device, or the program's own. */
enum class Source { tensors, new_calls };

/** What became of a row. */
struct Result {
  int cases = 0;           // failures that were injected
  int changed = 0;         // those that left something changed, or changed what the next good call gives
  int aborts = 0;          // those that ended the process
  std::string first = {};  // of both: what the first was
};

/** Runs all cases of a row, in a process of its own. */
Result sweep(const Row& row, Source source);

}  // namespace faults
