// Masters: f32 master weights of 16-bit parameters, and their synchronisation with the parameters.
// See also: ../scaling/scale_loss.h (calls these functions).
#pragma once

#include <cstdint>
#include <unordered_map>

#include "../../tensor/core/pending_writes.h"
#include "../../tensor/core/tensor.h"

namespace mezzo::amp {

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

}  // namespace mezzo::amp
