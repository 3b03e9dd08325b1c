// The f32 masters of one optimizer's 16-bit parameters: when they are created, updated and written
// back.
// See also: master.h (the masters of a session).
#pragma once

#include <deque>
#include <span>

#include "../../optim/optimizer.h"
#include "../session_core.h"
#include "master.h"

namespace mezzo::amp {

/** Returns true for a 16-bit parameter that is updated through its master. */
inline bool through_master(const optim::Slot& slot) { return slot.master.defined(); }

/** Removes the gradients of masters whose parameters' gradients the program has removed or set to
 *  zero since. Errors: StateError in the name of `op`, if that is given, if a 16-bit parameter has
 * a gradient that no scope has unscaled, or one that the program has written to. */
void sync_masters_gradients(optim::Optimizer& optimizer, std::string_view op = {});
/** Sets the gradients of masters to zero where zero_grad(false) has done so for the parameters. */
void set_zero_gradients(optim::Optimizer& optimizer);
/** Returns the unscaled gradient of a parameter that has a master; undefined if there is none. */
Tensor masters_gradient(const Tensor& param, const Tensor& master);

/** Creates masters for the 16-bit parameters of `slots` that require or have gradients. */
void create_masters(const SessionCore& core, std::span<optim::Slot> slots, MasterChanges& changes);
/** Creates the master of a 16-bit parameter, even if it requires no gradient. */
void create_master(optim::Slot& slot, MasterChanges& changes);
/** Creates missing masters of all slots and updates those whose parameters were written to.
 *  `changes` takes effect when it is committed. */
void bring_masters_up_to_date(const SessionCore& core, optim::Optimizer& optimizer,
                              MasterChanges& changes);
/** As above, at once. */
void bring_masters_up_to_date(SessionCore& core, optim::Optimizer& optimizer);
/** Creates the masters that loads of optimizers' states need, and removes them again unless keep()
 *  is called. */
class SavedMasters {
 public:
  SavedMasters() = default;
  ~SavedMasters();
  SavedMasters(const SavedMasters&) = delete;
  SavedMasters& operator=(const SavedMasters&) = delete;

  /** Creates missing masters of an optimizer, also for frozen parameters of which `saved` has a
   *  master: their 16-bit values alone would lose the low bits. `names` are those in `saved`. */
  void create(SessionCore& core, optim::Optimizer& optimizer, const mezzo::StateDict& saved,
              const optim::Names& names);
  void keep() { kept_ = true; }

 private:
  std::deque<MasterChanges> changes_;
  bool kept_ = false;
};

/** Removes the gradients of the masters. */
void drop_masters_gradients(optim::Optimizer& optimizer);
/** Records that all parameters are roundings of their masters. */
void masters_in_step(SessionCore& core, optim::Optimizer& optimizer);

}  // namespace mezzo::amp
