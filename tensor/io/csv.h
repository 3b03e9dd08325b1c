// Reads tables of numbers from CSV files.
#pragma once

#include <cstdint>
#include <string>

#include "../core/tensor.h"

namespace mezzo {

/** Options of load_csv(). */
struct CsvOptions {
  char delimiter = ',';        // between the numbers of a row
  std::int64_t skip_rows = 0;  // lines at the start that are left out, such as a line of names
  DType dtype = f32;           // of the tensor: f32 or f64
};

/** Reads a table of numbers into a CPU tensor [rows, columns]. Each line is a row; empty lines are
 *  left out. Numbers are written as 1, -2.5, 1e-3, inf or nan, with spaces around them; each is
 *  rounded to f64, then to the dtype. There are no quotes and no empty fields.
 *  Errors: IoError naming path and cause; FormatError that names line and column, for anything that
 *  is no number or outside the range of f64, for rows of different lengths, and for a file without
 *  numbers; DtypeError; ValueError for negative skip_rows. */
MZ_API Tensor load_csv(const std::string& path, const CsvOptions& options = {});

}  // namespace mezzo
