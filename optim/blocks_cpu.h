// How the CPU walks through lists of tensors: chunks over threads, blocks that fit the cache and have the type the arithmetic runs in.
// Sees: multi_tensor.h; tensor/cpu.
// Read next: updates_cpu.cpp, lists_cpu.cpp (the kernels).
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "../tensor/cpu/convert.h"
#include "../tensor/parallel.h"
#include "multi_tensor.h"

namespace mezzo::optim::blocks {

/** Elements per block: a handful of f64 buffers of this size stay in the first-level cache. */
constexpr std::int64_t kBlock = 512;

/** A piece of one item. */
struct Piece {
  std::size_t item;
  std::int64_t begin, end;
};

/** This thread's memory for what a walk notes: kept, so that it can be had before anything is
 *  written. */
struct Scratch {
  std::vector<Piece> pieces;
  std::vector<double> partials, sums;

  static Scratch& here() {
    static thread_local Scratch scratch;
    return scratch;
  }
};

inline std::vector<Piece>& cut(std::span<const MultiItem> items) {
  std::vector<Piece>& pieces = Scratch::here().pieces;
  pieces.clear();
  for (std::size_t i = 0; i < items.size(); ++i)
    for (std::int64_t begin = 0; begin < items[i].numel; begin += kMultiTensorChunk)
      pieces.push_back({i, begin, std::min(items[i].numel, begin + kMultiTensorChunk)});
  return pieces;
}

/** Takes the memory for walking through these items. */
inline void reserve(std::span<const MultiItem> items) {
  Scratch& scratch = Scratch::here();
  scratch.partials.reserve(cut(items).size());
  scratch.sums.reserve(items.size());
}

/** Runs body(piece, index of the piece) over all items, on as many threads as the work is worth. */
template <class Body>
void for_each_piece(std::span<const MultiItem> items, double element_ns, const Body& body) {
  const std::vector<Piece>& pieces = cut(items);
  double total = 0;
  for (const MultiItem& item : items) total += static_cast<double>(item.numel);
  const auto one = [&](std::int64_t i) {
    body(pieces[static_cast<std::size_t>(i)], static_cast<std::size_t>(i));
  };
  parallel_for(static_cast<std::int64_t>(pieces.size()), one, total * element_ns);
}

/** Block of one list in the type the arithmetic runs in: the memory itself where it has that type, else a converted copy. */
template <class V> class Block {
 public:
  /** Places the block at `begin`; with `load`, its values are there to be read. */
  V* open(const MultiItem& item, std::size_t list, std::int64_t begin, std::int64_t n, bool load) {
    dtype_ = item.dtype[list];
    address_ = nullptr;
    if (!item.data[list]) return buffer_;
    char* at = static_cast<char*>(item.data[list]) + begin * static_cast<std::int64_t>(item_size(dtype_));
    if (dtype_ == dtype_of<V>()) return static_cast<V*>(static_cast<void*>(at));
    address_ = at;
    if (load) cpu_kernels::convert(dtype_, at, dtype_of<V>(), buffer_, n);
    return buffer_;
  }
  /** Rounds the buffer into memory, where the block is not the memory itself. */
  void store(std::int64_t n) const {
    if (address_) cpu_kernels::convert(dtype_of<V>(), buffer_, dtype_, address_, n);
  }

 private:
  DType dtype_ = DType::f32;
  void* address_ = nullptr;
  alignas(64) V buffer_[kBlock];
};

}  // namespace mezzo::optim::blocks
