// Masters: the f32 twins of 16-bit parameters, and how twin and parameter are kept in step.
// Sees: tensor, autograd.
// Read next: master.cpp, optimizer_link.h (when each of these is called).
#pragma once

#include <cstdint>
#include <unordered_map>

#include "../tensor/tensor.h"

namespace mezzo::amp {

/** A 16-bit parameter and its f32 twin. */
struct Master {
  Tensor param;
  Tensor master;
  std::uint32_t written = 0;  // the parameter's version when it was last a rounding of the master

  /** Notes that the parameter is a rounding of the master now. */
  void in_step() { written = param.version(); }
};

/** The masters of one session. A parameter of several optimizers has one. */
class MZ_API Masters {
 public:
  /** The parameter's master, null where it has none. */
  Master* find(const Tensor& param);
  /** Gives a 16-bit parameter a master: `value` where given (its elements are taken over, not copied), else the parameter widened. */
  Master& create(const Tensor& param, const Tensor& value = {});
  /** Moves the master to where the parameter is. Where the parameter was written to since (clipped, loaded, averaged): elements that are still roundings of the master keep the master's
   *  value, the others take the parameter's. */
  static void reconcile(Master& master);
  /** Ends all: parameters no longer count as having a master. */
  void clear();

  auto begin() { return masters_.begin(); }
  auto end() { return masters_.end(); }

 private:
  std::unordered_map<const TensorImpl*, Master> masters_;
};

}  // namespace mezzo::amp
