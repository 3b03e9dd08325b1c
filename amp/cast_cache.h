// CastCache: the 16-bit copies of weights, so that a weight used twice in a forward pass is cast once.
// Sees: tensor.
// Read next: casting.h (who asks it).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "../tensor/tensor.h"

namespace mezzo::amp {

struct CacheReport {
  std::int64_t entries = 0;
  std::int64_t bytes = 0;
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t stale = 0;  // found, but the weight was written since
};

/** Casts of weights by identity, version, grad mode and dtype. Several uses of one weight share one node of the graph, so their gradients are
 *  summed in the 16-bit type before the cast back. Thread-safe. */
class MZ_API CastCache {
 public:
  CastCache();
  ~CastCache();
  CastCache(const CastCache&) = delete;
  CastCache& operator=(const CastCache&) = delete;

  /** Whether a cast of x to `dtype` belongs in a cache: an f32 weight, or a leaf that requires a gradient, no view, to a 16-bit type. */
  static bool admits(const Tensor& x, DType dtype);

  /** From here on weights are remembered over clear(), so that on a device all are cast in one launch, with the first of them. For a cache whose
   *  owner keeps the weights alive anyway. */
  void remember_weights();

  /** The cast at hand, or an undefined tensor. `is_new` learns whether it was made with another weight's and is asked for the first time. */
  Tensor find(const Tensor& weight, DType dtype, bool* is_new = nullptr);
  /** Casts a weight that was not found, and keeps that; with it, where they are remembered, the others that it was cast with before. */
  Tensor cast(const Tensor& weight, DType dtype);
  /** Keeps a cast, in place of an older one; forgets weights that exist nowhere else any more. */
  void insert(const Tensor& weight, DType dtype, const Tensor& cast);
  void clear();
  CacheReport report() const;

 private:
  std::vector<Tensor> take_companions(const Tensor& weight, DType dtype);
  struct State;  // its lock and its table cost every program's compilation too much
  std::unique_ptr<State> state_;
};

}  // namespace mezzo::amp
