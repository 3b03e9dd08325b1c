// Iteration over lists of tensors on the CPU: chunks distributed over threads, and cache-sized
// blocks converted to the type of the arithmetic.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "../../tensor/cpu/convert.h"
#include "../../tensor/device/parallel.h"
#include "tensor_list.h"

namespace mezzo::optim::blocks {

/** Elements per block: several f64 buffers of this size fit the first-level cache. */
constexpr std::int64_t kBlock = 512;

/** A range of elements of one item. */
struct Chunk {
  std::size_t item;
  std::int64_t begin, end;
};

/** Per-thread buffers, kept between calls so that reserve() can allocate them before an update
 *  writes anything. */
struct Scratch {
  std::vector<Chunk> chunks;
  std::vector<double> partials, sums;

  static Scratch& here() {
    static thread_local Scratch scratch;
    return scratch;
  }
};

/** Splits all items into chunks. */
inline std::vector<Chunk>& chunks_of(std::span<const TensorListEntry> items) {
  std::vector<Chunk>& chunks = Scratch::here().chunks;
  chunks.clear();
  for (std::size_t i = 0; i < items.size(); ++i)
    for (std::int64_t begin = 0; begin < items[i].numel; begin += kMultiTensorChunk)
      chunks.push_back({i, begin, std::min(items[i].numel, begin + kMultiTensorChunk)});
  return chunks;
}

/** Allocates the buffers for iterating over these items. */
inline void reserve(std::span<const TensorListEntry> items) {
  Scratch& scratch = Scratch::here();
  scratch.partials.reserve(chunks_of(items).size());
  scratch.sums.reserve(items.size());
}

/** Runs body(chunk, index of the chunk) over all items, on as many threads as are worthwhile. */
template <class Body>
void for_each_chunk(std::span<const TensorListEntry> items, double element_ns, const Body& body) {
  const std::vector<Chunk>& chunks = chunks_of(items);
  double total = 0;
  for (const TensorListEntry& item : items) total += static_cast<double>(item.numel);
  const auto one = [&](std::int64_t i) {
    body(chunks[static_cast<std::size_t>(i)], static_cast<std::size_t>(i));
  };
  parallel_for(static_cast<std::int64_t>(chunks.size()), one, total * element_ns);
}

/** A block of one tensor in the type V of the arithmetic: the tensor's memory if it has that type,
 *  else a converted copy. */
template <class V> class Block {
 public:
  /** Positions the block at `begin`; with `load`, makes its values readable. */
  V* open(const TensorListEntry& item, std::size_t list, std::int64_t begin, std::int64_t n,
          bool load) {
    dtype_ = item.dtype[list];
    address_ = nullptr;
    if (!item.data[list]) return buffer_;
    char* at =
        static_cast<char*>(item.data[list]) + begin * static_cast<std::int64_t>(item_size(dtype_));
    if (dtype_ == dtype_of<V>()) return static_cast<V*>(static_cast<void*>(at));
    address_ = at;
    if (load) cpu_kernels::convert(dtype_, at, dtype_of<V>(), buffer_, n);
    return buffer_;
  }
  /** Rounds a converted copy into the tensor's memory. */
  void store(std::int64_t n) const {
    if (address_) cpu_kernels::convert(dtype_of<V>(), buffer_, dtype_, address_, n);
  }

 private:
  DType dtype_ = DType::f32;
  void* address_ = nullptr;
  alignas(64) V buffer_[kBlock];
};

}  // namespace mezzo::optim::blocks
