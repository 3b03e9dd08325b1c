// sort_entries: sorts entries by key, then index.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "sort_key.h"

namespace mezzo::cpu_kernels {

namespace detail {

/** The number of entries with each value of each byte of the key; [0] is the lowest byte. */
template <class Entry>
using ByteCounts =
    std::array<std::array<std::size_t, 256>, static_cast<std::size_t>(Entry::kKeyBytes)>;

template <class Entry> std::size_t key_byte(const Entry& entry, std::size_t byte) {
  return static_cast<std::size_t>(entry.sorted_by() >> (8 * byte) & 0xFF);
}

template <class Entry> ByteCounts<Entry> count_bytes(const std::vector<Entry>& entries) {
  ByteCounts<Entry> counts{};
  for (const Entry& entry : entries)
    for (std::size_t byte = 0; byte < counts.size(); ++byte) ++counts[byte][key_byte(entry, byte)];
  return counts;
}

}  // namespace detail

/** Sorts entries that are in the order of their index: by a byte of the key at a time, from the
 *  lowest on, each time keeping the order of entries with equal bytes. Bytes that are the same in
 *  all keys cost nothing. */
template <class Entry> void sort_entries(std::vector<Entry>& entries) {
  constexpr std::size_t kShort = 256;  // counting bytes would take longer than std::sort
  if (entries.size() < kShort) return std::sort(entries.begin(), entries.end());
  auto counts = detail::count_bytes(entries);
  std::vector<Entry> sorted(entries.size());
  for (std::size_t byte = 0; byte < counts.size(); ++byte) {
    auto& next = counts[byte];  // becomes the place of the next entry with each value
    if (next[detail::key_byte(entries[0], byte)] == entries.size()) continue;
    std::size_t first = 0;
    for (std::size_t& place : next) {
      const std::size_t count = place;
      place = first;
      first += count;
    }
    for (const Entry& entry : entries) sorted[next[detail::key_byte(entry, byte)]++] = entry;
    entries.swap(sorted);
  }
}

}  // namespace mezzo::cpu_kernels
