// Separable linear maps: along each dimension every result is a weighted sum of few operands. Used
// for resizing and for the adjoint of padding.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "../../cpu/workspace.h"
#include "../../device/parallel.h"

namespace mezzo::cpu_kernels {

/** The map along one dimension: result i is the sum of weight[k] * operand[source[k]] for k in
 *  start[i] .. start[i+1] - 1. */
template <class C> struct SparseRows {
  std::int64_t operands = 0;
  std::vector<std::int64_t> start{0}, source;
  std::vector<C> weight;

  explicit SparseRows(std::int64_t size) : operands(size) {}

  std::int64_t results() const { return static_cast<std::int64_t>(start.size()) - 1; }
  /** Adds a term to the current result. Terms of weight 0 are dropped, because their operand may be
   *  infinite. */
  void add(std::int64_t from, C by) {
    if (by == 0) return;
    source.push_back(from);
    weight.push_back(by);
  }
  void finish_row() { start.push_back(static_cast<std::int64_t>(source.size())); }

  bool is_identity() const {
    if (results() != operands || static_cast<std::int64_t>(source.size()) != operands) return false;
    for (std::size_t i = 0; i < source.size(); ++i)
      if (source[i] != static_cast<std::int64_t>(i) || start[i] != source[i] || weight[i] != 1)
        return false;
    return true;
  }

  /** Returns the transposed map; terms stay in the order of the results they came from. */
  SparseRows transposed() const {
    SparseRows t(results());
    t.start.assign(static_cast<std::size_t>(operands) + 1, 0);
    for (const std::int64_t s : source) ++t.start[static_cast<std::size_t>(s) + 1];
    std::partial_sum(t.start.begin(), t.start.end(), t.start.begin());
    t.source.resize(source.size());
    t.weight.resize(source.size());
    std::vector<std::int64_t> next(t.start.begin(), t.start.end() - 1);
    for (std::int64_t row = 0; row < results(); ++row)
      for (std::int64_t k = start[static_cast<std::size_t>(row)];
           k < start[static_cast<std::size_t>(row) + 1]; ++k) {
        const auto at = static_cast<std::size_t>(
            next[static_cast<std::size_t>(source[static_cast<std::size_t>(k)])]++);
        t.source[at] = row;
        t.weight[at] = weight[static_cast<std::size_t>(k)];
      }
    return t;
  }
};

/** Applies a map to each of `lines` contiguous lines. */
template <class C>
void map_lines_in_memory(const SparseRows<C>& map, const C* x, C* y, std::int64_t lines) {
  const std::int64_t results = map.results();
  const auto line = [&](const C* from, C* to) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(results); ++i) {
      const auto begin = static_cast<std::size_t>(map.start[i]),
                 end = static_cast<std::size_t>(map.start[i + 1]);
      C sum = begin < end ? map.weight[begin] * from[map.source[begin]] : C(0);
      for (std::size_t k = begin + 1; k < end; ++k) sum += map.weight[k] * from[map.source[k]];
      to[i] = sum;
    }
  };
  parallel_chunks(
      lines, std::max<std::int64_t>(1, kElementwiseChunk / results),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) line(x + r * map.operands, y + r * results);
      },
      static_cast<double>(results) + static_cast<double>(map.source.size()));
}

/** Applies a map along one dimension of x [outer][operands][inner]. */
template <class C>
void map_dimension(const SparseRows<C>& map, const C* x, C* y, std::int64_t outer,
                   std::int64_t inner) {
  if (inner == 1) return map_lines_in_memory(map, x, y, outer);
  const std::int64_t results = map.results();
  const auto row = [&](const C* from, C* to, std::int64_t i) {
    const auto begin = static_cast<std::size_t>(map.start[static_cast<std::size_t>(i)]),
               end = static_cast<std::size_t>(map.start[static_cast<std::size_t>(i) + 1]);
    if (begin == end) std::fill(to, to + inner, C(0));
    for (std::size_t k = begin; k < end; ++k) {
      const C* const term = from + map.source[k] * inner;
      const C by = map.weight[k];
      if (k == begin)
        for (std::int64_t j = 0; j < inner; ++j) to[j] = by * term[j];
      else
        for (std::int64_t j = 0; j < inner; ++j) to[j] += by * term[j];
    }
  };
  const auto terms = static_cast<double>(map.source.size()) / static_cast<double>(results) + 1;
  parallel_chunks(
      outer * results, std::max<std::int64_t>(1, kElementwiseChunk / inner),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r)
          row(x + r / results * map.operands * inner, y + r * inner, r % results);
      },
      terms * static_cast<double>(inner));
}

/** Computes y by applying the maps of all dimensions to x, one after another. Both are row-major
 *  and non-empty; x has the maps' operand sizes. Dimensions that shrink most come first; of equal
 *  ones, the last. This leaves less work and longer contiguous runs for the following maps. */
template <class C> void map_separably(const std::vector<SparseRows<C>>& maps, const C* x, C* y) {
  std::vector<std::int64_t> sizes;
  std::vector<std::size_t> order;
  for (const SparseRows<C>& map : maps) sizes.push_back(map.operands);
  for (std::size_t d = maps.size(); d-- > 0;)
    if (!maps[d].is_identity()) order.push_back(d);
  const auto growth = [&](std::size_t d) {
    return static_cast<double>(maps[d].results()) / static_cast<double>(maps[d].operands);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return growth(a) < growth(b); });
  const auto product = [&](std::size_t from, std::size_t to) {
    return std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(from),
                           sizes.begin() + static_cast<std::ptrdiff_t>(to), std::int64_t{1},
                           std::multiplies<>());
  };
  if (order.empty()) std::copy(x, x + product(0, sizes.size()), y);
  Workspace<C> current;
  for (std::size_t n = 0; n < order.size(); ++n) {
    const std::size_t d = order[n];
    const std::int64_t outer = product(0, d), inner = product(d + 1, sizes.size());
    sizes[d] = maps[d].results();
    const bool last = n + 1 == order.size();
    Workspace<C> next(last ? 0 : outer * sizes[d] * inner);
    map_dimension(maps[d], x, last ? y : next.data(), outer, inner);
    current = std::move(next);
    x = current.data();
  }
}

}  // namespace mezzo::cpu_kernels
