// Stable sort of lines of entries, each a key and its original position. Parsed by g++ and by nvcc.
#pragma once

#include "../../../tensor/cpu/sort_key.h"
#include "../host_lines.h"

namespace mezzo::gpu {

using cpu_kernels::NarrowEntry;
using cpu_kernels::WideEntry;

/** Consecutive lines of entries. An entry's position is its index in its line. */
template <class Entry> struct EntryLines {
  std::int64_t lines = 0, length = 0;
  Tensor memory;

  EntryLines(std::int64_t count, std::int64_t entries, Device device)
      : lines(count),
        length(entries),
        memory(workspace(count * entries * static_cast<std::int64_t>(sizeof(Entry)), device)) {}
  Entry* data() const { return static_cast<Entry*>(memory.raw_data()); }
};

/** Sort every line by the lowest `bits` bits of its keys; the other bits must be equal in all
 *  keys. */
void sort_lines(EntryLines<NarrowEntry>& entries, int bits);
void sort_lines(EntryLines<WideEntry>& entries, int bits);

/** The same, where only the first `kept` entries of each line are wanted. Lines may become shorter,
 *  without entries behind these. */
void sort_first(EntryLines<NarrowEntry>& entries, std::int64_t kept, int bits);
void sort_first(EntryLines<WideEntry>& entries, std::int64_t kept, int bits);

/** Leave only the entry at `place` of each line as if it were sorted. Return false for lines that
 * are too long or short for that, and leave these as they are. */
bool select_one(EntryLines<NarrowEntry>& entries, std::int64_t place, int bits);
bool select_one(EntryLines<WideEntry>& entries, std::int64_t place, int bits);

}  // namespace mezzo::gpu
