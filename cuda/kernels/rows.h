// Moving and adding rows that an index names, on the device.
// Sees: ../rows.h; parsed by nvcc too.
// Read next: rows.cu, ../index.cpp (who calls).
#pragma once

#include "../rows.h"

namespace mezzo::gpu {

/** to = the rows of `from` that are named; zeros where a name is out of range. Both have one dtype. */
void take_rows(const Rows& from, const Names& names, const Rows& to);

/** Named rows of `to` = from, where of several rows with one name the last stays. Both have one dtype. `rows`: how many there are to name. */
void put_rows(const Rows& from, const Names& names, std::int64_t rows, const Rows& to);

struct AddRows {
  double alpha = 1;
  bool overwrite = false;     // the sum replaces what is there
  bool average = false;       // divides each sum by its number of rows
  std::int64_t skipped = -1;  // rows with this name are left out
};

/** Named rows of `to` (+)= alpha * from. Sums run in `compute` (f32, f64 or i64), grouped as the number of names alone has it, and are rounded once. */
void add_rows(const Rows& from, const Names& names, std::int64_t rows, const Rows& to, DType compute,
              const AddRows& how = {});

}  // namespace mezzo::gpu
