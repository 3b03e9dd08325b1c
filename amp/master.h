// Masters: the f32 twins of 16-bit parameters, and how twin and parameter are kept in step.
// Sees: tensor, autograd.
// Read next: master.cpp, optimizer_link.h (when each of these is called).
#pragma once

#include <cstdint>
#include <unordered_map>

#include "../tensor/pending_writes.h"
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
  /** What the master is to hold, on the device of the parameter: the master itself, unless the
   *  parameter was written to since (clipped, loaded, averaged). Then elements that are still
   *  roundings of the master keep the master's value, the others take the parameter's. */
  static Tensor reconciled(const Master& master);
  /** Ends all: parameters no longer count as having a master. */
  void clear();

  /** Takes masters away again. */
  void erase(const Tensor& param);

 private:
  friend class MasterChanges;
  std::unordered_map<const TensorImpl*, Master> masters_;
};

/** New masters, and old ones brought up to date, all at once: everything that takes memory comes
 *  before commit(). */
class MZ_API MasterChanges {
 public:
  explicit MasterChanges(Masters& masters) : masters_(masters) {}

  /** Gives a 16-bit parameter a master, unless it has one: `value` where given (its elements are
   *  taken over, not copied), else the parameter widened. Returns the one that it has, or will
   *  have. */
  Tensor create(const Tensor& param, const Tensor& value = {});
  /** Reconciles the parameter's master, where it has one. */
  void reconcile(const Tensor& param);
  /** Lets an optimizer's slot point to a master, which becomes a twin of that kind. */
  void point(Tensor& slot, const Tensor& master, Twin twin) { pointers_.push_back({&slot, master, twin}); }
  void commit();
  /** Takes the new masters away again, after commit(). */
  void undo();

 private:
  Masters& masters_;
  std::unordered_map<const TensorImpl*, Master> made_;
  std::vector<Tensor> created_;
  PendingWrites writes_;
  std::vector<Master*> written_;
  struct Pointer {
    Tensor* slot;
    Tensor master;
    Twin twin;
  };
  std::vector<Pointer> pointers_;
};

}  // namespace mezzo::amp
