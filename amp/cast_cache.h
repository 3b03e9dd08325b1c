// CastCache: the 16-bit copies of weights, so that a weight used twice in a forward pass is cast once.
// Sees: tensor.
// Read next: casting.h (who asks it).
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

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
  CastCache() = default;
  CastCache(const CastCache&) = delete;
  CastCache& operator=(const CastCache&) = delete;

  /** Whether a cast of x to `dtype` belongs in a cache: an f32 weight, or a leaf that requires a gradient, no view, to a 16-bit type. */
  static bool admits(const Tensor& x, DType dtype);

  /** The cast at hand, or an undefined tensor. */
  Tensor find(const Tensor& weight, DType dtype);
  /** Keeps a cast, in place of an older one; forgets weights that exist nowhere else any more. */
  void insert(const Tensor& weight, DType dtype, const Tensor& cast);
  void clear();
  CacheReport report() const;

 private:
  struct Key {
    const TensorImpl* weight;
    DType dtype;
    bool recorded;  // with gradients: its cast is a node of the graph
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct HashKey {
    std::size_t operator()(const Key& key) const {
      return std::hash<const void*>()(key.weight) ^
             (static_cast<std::size_t>(key.dtype) << 1 | (key.recorded ? 1u : 0u));
    }
  };
  struct Entry {
    Tensor weight;
    std::uint32_t version;
    Tensor cast;
  };
  static Key key_of(const Tensor& weight, DType dtype);
  static bool expired(const Key& key, const Entry& entry);

  mutable std::mutex mutex_;
  std::unordered_map<Key, Entry, HashKey> entries_;
  std::size_t prune_at_ = 64;
  std::int64_t hits_ = 0, misses_ = 0, stale_ = 0;
};

}  // namespace mezzo::amp
