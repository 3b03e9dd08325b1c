// Copies and sums of rows selected by an index. Parsed by g++ and by nvcc.
#pragma once

#include "host_rows.h"

namespace mezzo::gpu {

/** Sets `to` to the selected rows of `from`; zeros for indices out of range. Both have one
 *  dtype. */
void take_rows(const Rows& from, const Names& names, const Rows& to);

/** Sets the selected rows of `to` to `from`. Of several rows with one index, the last is kept. Both
 *  have one dtype. `rows`: the number of rows that can be selected. */
void put_rows(const Rows& from, const Names& names, std::int64_t rows, const Rows& to);

/** Options of add_rows. */
struct AddRows {
  double alpha = 1;
  bool overwrite = false;     // replace the rows instead of adding to them
  bool average = false;       // divide each sum by its number of rows
  std::int64_t skipped = -1;  // rows with this index are skipped
};

/** Adds alpha * from to the selected rows of `to`. Sums run in `compute` (f32, f64 or i64), in an
 *  order that depends on the indices alone, and are rounded once. */
void add_rows(const Rows& from, const Names& names, std::int64_t rows, const Rows& to,
              DType compute, const AddRows& how = {});

}  // namespace mezzo::gpu
