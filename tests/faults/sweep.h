// Sweeps of failing allocations: a call is repeated while its n-th allocation fails, for every n,
// and must change nothing each time.
// See also: rows.h (the calls), faults.cpp (the tests).
#pragma once

#include <mezzo.h>

#include <functional>
#include <string>
#include <vector>

#include "../support/state.h"

namespace faults {

using namespace mezzo;

using states::State;  // all state that a call may change

/** A call and the state it works on. */
struct Subject {
  std::function<void()> call;
  std::function<State()> state;
};

/** A factory of equal subjects. */
struct Row {
  std::string name;
  std::function<Subject()> make;
};

/** The allocations that fail: tensor memory on the test device, or operator new. */
enum class Source { tensors, new_calls };

/** The result of sweeping a row. */
struct Result {
  int cases = 0;           // failures that were injected
  int changed = 0;         // failures that changed the state or the result of the next call
  int aborts = 0;          // failures that ended the process
  std::string first = {};  // a description of the first change or abort
};

/** Runs all cases of a row in a child process. */
Result sweep(const Row& row, Source source);

}  // namespace faults
