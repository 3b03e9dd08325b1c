// CastCache: cached 16-bit copies of weights, so that a weight used twice in a forward pass is cast
// once, and one that an optimizer has updated not at all.
#pragma once

#include <cstdint>
#include <vector>

#include "../../tensor/core/pointers.h"
#include "../../tensor/core/tensor.h"

namespace mezzo::amp {

/** Size and counters of a CastCache. */
struct CacheReport {
  std::int64_t entries = 0;  // casts held
  std::int64_t bytes = 0;    // of those casts
  std::int64_t hits = 0;     // lookups that found a current cast
  std::int64_t misses = 0;   // lookups that found none
  std::int64_t stale = 0;    // lookups that found a cast older than the weight's last write
  std::int64_t written = 0;  // casts whose values an optimizer had written with the weight
};

/** A cache of casts of weights, keyed by identity, version, grad mode and dtype. Several uses of
 *  one weight share one graph node, so their gradients are summed in the 16-bit type before the
 *  cast back. Thread-safe. */
class MZ_API CastCache {
 public:
  CastCache();
  ~CastCache();
  CastCache(const CastCache&) = delete;
  CastCache& operator=(const CastCache&) = delete;

  /** Returns whether a cast of x to `dtype` may be cached: x is an f32 parameter, or an f32 leaf
   *  that requires a gradient, and not a view; `dtype` is a 16-bit type. */
  static bool admits(const Tensor& x, DType dtype);

  /** From now on keeps the list of weights across end_round() and clear(), so that on a device the
   *  first cast of a weight casts all of them in one launch, and keeps the values of casts across
   *  end_round(), for lend(). For a cache whose owner keeps the weights alive. */
  void remember_weights();

  /** Returns the cached cast, or an undefined tensor. Sets `is_new` to true at the first lookup of
   *  a cast that was made together with another weight's. */
  Tensor find(const Tensor& weight, DType dtype, bool* is_new = nullptr);
  /** Casts a weight that find() did not find, and caches the result. On a device it also casts
   *  the remembered weights of the last round in the same launch. */
  Tensor cast(const Tensor& weight, DType dtype);
  /** Caches a cast in place of an older one. Drops entries whose weights have no other owner when
   *  the cache has grown. */
  void insert(const Tensor& weight, DType dtype, const Tensor& cast);
  /** Returns the values of the last round's cast of a weight, for an optimizer to write when it
   *  updates the weight; undefined if the values are out of date or still in use, or if the
   *  weight's storage is exposed (Storage::expose). No cast uses the values between lend() and
   *  settle(). */
  Tensor lend(const Tensor& weight);
  /** Says that the update has written the weight and the values that lend() returned: the next
   *  cast of the weight takes them, until the weight is written again. */
  void settle(const Tensor& weight);

  /** Drops all casts, but not the values for lend(). */
  void end_round();
  /** Drops everything. */
  void clear();
  /** Returns the current size and the counters since construction. */
  CacheReport report() const;

 private:
  std::vector<Tensor> take_companions(const Tensor& weight, DType dtype);
  Tensor cast_by_update(const Tensor& weight, DType dtype);
  struct State;  // hidden: its mutex and hash table slow down the compilation of every user
  Owner<State> state_;
};

}  // namespace mezzo::amp
