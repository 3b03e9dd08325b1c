// Masters: f32 master weights of 16-bit parameters, and their synchronisation with the parameters;
// and when those of one optimizer are created, updated and written back.
// See also: ../scaling/scale_loss.h (calls these functions).
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../../optim/optimizer.h"
#include "../../tensor/core/pending_writes.h"
#include "../../tensor/core/tensor.h"

namespace mezzo::amp {

struct SessionCore;

/** A 16-bit parameter or buffer of a session with masters, and its f32 value: the master weight if
 *  an optimizer holds the parameter, else the value from before the session. */
struct Master {
  Tensor param;
  Tensor master;
  std::uint32_t written = 0;  // the parameter's version when it last was a rounding of the master

  /** Records that the parameter is a rounding of the master. */
  void in_step() { written = param.version(); }
  /** Returns true if an optimizer updates the master. */
  bool is_updated() const { return param.impl()->twin == Twin::low; }
};

/** The masters of one session. A parameter of several optimizers has one master. */
class MZ_API Masters {
 public:
  /** Returns the master of a parameter or buffer; null if it has none. */
  Master* find(const Tensor& param);
  /** As above. */
  const Master* find(const Tensor& param) const { return const_cast<Masters*>(this)->find(param); }
  /** Returns the value that the master should have, on the device of the parameter: the master
   *  itself, unless the parameter was written to since (clipped, loaded, averaged). Then elements
   *  that are still roundings of the master keep the master's value; the others take the
   *  parameter's. */
  static Tensor reconciled(const Master& master);
  /** Removes all masters. */
  void clear();

  /** Removes the parameter's master, if it has one. */
  void erase(const Tensor& param);

 private:
  friend class MasterChanges;
  std::unordered_map<const TensorImpl*, Master> masters_;
};

/** A transaction that creates masters and updates existing ones. All allocations precede commit(),
 *  which applies the changes. */
class MZ_API MasterChanges {
 public:
  explicit MasterChanges(Masters& masters) : masters_(masters) {}

  /** Returns the master of a 16-bit parameter for an optimizer to update: the f32 value that the
   *  session has kept of it, brought up to date, else a new one converted from the parameter. */
  Tensor create(const Tensor& param);
  /** Keeps the f32 value of a 16-bit parameter or buffer, sharing its memory. */
  void keep(const Tensor& param, const Tensor& value);
  /** Updates the parameter's master, if it has one, to Masters::reconciled(). */
  void reconcile(const Tensor& param);
  /** Makes an optimizer's slot refer to a master. */
  void point(Tensor& slot, const Tensor& master) { pointers_.push_back({&slot, master}); }
  /** Applies the changes. */
  void commit();
  /** Removes the new masters again after commit(). */
  void undo();

 private:
  Masters& masters_;
  std::unordered_map<const TensorImpl*, Master> made_;
  std::vector<Tensor> created_, adopted_;  // parameters whose masters are new; were kept values
  PendingWrites writes_;
  std::vector<Master*> written_;
  struct Pointer {
    Tensor* slot;
    Tensor master;
  };
  std::vector<Pointer> pointers_;
};

// ---- of one optimizer ---------------------------------------------------------------------------

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

/** Records that all parameters are roundings of their masters. */
void masters_in_step(SessionCore& core, optim::Optimizer& optimizer);

}  // namespace mezzo::amp
