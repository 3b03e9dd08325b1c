// LoadOptions and StagedLoad: loading a StateDict into a module.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../tensor/core/pending_writes.h"
#include "../tensor/core/state_dict.h"

namespace mezzo::nn {

using mezzo::StateDict;

/** Options of loading values into a module. */
struct LoadOptions {
  bool strict = true;  // requires exactly the names of the module
  /** Beginnings of names to leave out, such as "fc.": values and tensors of the module with these
   *  names are ignored. Names are those of the module, after `rename`. */
  std::vector<std::string> skip = {};
  /** Beginnings of the values' names and what replaces them, such as {"backbone.", ""}. The first
   *  one that fits a name applies. */
  std::vector<std::pair<std::string, std::string>> rename = {};
  /** Ignores values of another shape or kind and reports them, instead of an error. The name is
   *  that of Hugging Face's transformers. */
  bool ignore_mismatched_sizes = false;
};

/** Names that a load left out; LoadOptions::skip does not count. */
struct LoadReport {
  std::vector<std::string> missing;          // only in the module; values unchanged
  std::vector<std::string> unexpected;       // only in the given values; ignored
  std::vector<std::string> mismatched = {};  // of another shape or kind; values unchanged
};

class StateRule;

/** A load into a module that was checked and converted but not yet written. To load, call it. */
class MZ_API StagedLoad {
 public:
  /** Adds a write of `value` into `tensor`, by `rule` unless it is null. Errors: OutOfMemory. */
  void add(const Tensor& tensor, const std::shared_ptr<const StateRule>& rule, const Tensor& value);
  /** Writes all values. Allocates no memory. */
  void operator()() const;

  /** Returns the pending writes. */
  const PendingWrites& writes() const { return writes_; }

 private:
  PendingWrites writes_;
  std::vector<std::pair<std::shared_ptr<const StateRule>, Tensor>> ruled_;
};

}  // namespace mezzo::nn
