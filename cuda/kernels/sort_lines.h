// Sorting on the device: lines of entries, each a key and the place it came from, in the order of keys; equal ones keep theirs.
// Sees: ../lines.h, ../../tensor/cpu/sort_key.h; parsed by nvcc too.
// Read next: sort_lines.cu, sort.cu and rows.cu (who sort).
#pragma once

#include "../../tensor/cpu/sort_key.h"
#include "../lines.h"

namespace mezzo::gpu {

using cpu_kernels::NarrowEntry;
using cpu_kernels::WideEntry;

/** Lines of entries one after another. An entry's place is its number in its line. */
template <class Entry> struct EntryLines {
  std::int64_t lines = 0, length = 0;
  Tensor memory;

  EntryLines(std::int64_t count, std::int64_t entries, Device device)
      : lines(count),
        length(entries),
        memory(workspace(count * entries * static_cast<std::int64_t>(sizeof(Entry)), device)) {}
  Entry* data() const { return static_cast<Entry*>(memory.raw_data()); }
};

/** Sorts every line by the lowest `bits` bits of its keys; the others must be the same in all. */
void sort_lines(EntryLines<NarrowEntry>& entries, int bits);
void sort_lines(EntryLines<WideEntry>& entries, int bits);

}  // namespace mezzo::gpu
