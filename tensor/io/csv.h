// Reads tables of numbers, and of numbers and text, from CSV files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../core/tensor.h"

namespace mezzo {

/** Options of load_csv(). */
struct CsvOptions {
  char delimiter = ',';        // between the numbers of a row
  std::int64_t skip_rows = 0;  // lines at the start that are left out, such as a line of names
  DType dtype = f32;           // of the tensor: f32 or f64
  std::optional<double> missing = {};  // in place of fields that are empty; none: an error
};

/** Reads a table of numbers into a CPU tensor [rows, columns]. Each line is a row; empty lines are
 *  left out. Numbers are written as 1, -2.5, 1e-3, inf or nan, with spaces around them; each is
 *  rounded to f64, then to the dtype. Fields may be empty if options.missing is set. read_csv()
 *  also takes text and quotes.
 *  Errors: IoError naming path and cause; FormatError that names line and column, for anything that
 *  is no number or outside the range of f64, for rows of different lengths, and for a file without
 *  numbers; DtypeError; ValueError for negative skip_rows. */
MZ_API Tensor load_csv(const std::string& path, const CsvOptions& options = {});

/** The classes of a column of text. */
struct CsvClasses {
  Tensor codes;  // i64 [rows]: the index of each row's name; -1 for an empty field
  std::vector<std::string> names;  // the different texts, sorted
};

/** A table of text and numbers: its fields, and the names of its columns. */
class MZ_API CsvTable {
 public:
  /** Returns the names of the columns, in order. */
  const std::vector<std::string>& names() const { return names_; }
  /** Returns the number of rows, without that of the names. */
  std::int64_t rows() const;

  /** Returns the fields of a column as they are; empty where there is a gap. Errors: ValueError
   * that lists the columns for an unknown one. */
  std::vector<std::string> text(std::string_view column) const;
  /** Returns columns of numbers as [rows, columns]. Errors: ValueError for an unknown column;
   *  FormatError that names line and column for what is no number, and for a gap unless
   *  options.missing is set; DtypeError. */
  Tensor numbers(const std::vector<std::string>& columns, const CsvOptions& options = {}) const;
  /** Returns a column of text as numbers of classes, such as the targets of cross_entropy().
   * Errors: ValueError for an unknown column. */
  CsvClasses classes(std::string_view column) const;

 private:
  friend MZ_API CsvTable read_csv(const std::string& path, const CsvOptions& options);
  std::size_t index_of(std::string_view column) const;

  std::string path_;
  std::vector<std::string> names_, fields_;  // fields: row by row
  std::vector<std::int64_t> lines_;          // where each row begins in the file
};

/** Reads a table whose first row names the columns. Fields may be empty, and may be quoted as in
 *  RFC 4180: "a, ""b""" is the text a, "b"; quoted fields may contain line breaks. Spaces around
 *  other fields are left out. Of the options, delimiter and skip_rows count. Errors: IoError;
 *  FormatError naming the line for rows of different lengths, a quote that does not end, names that
 *  are empty or occur twice, and a file without rows; ValueError. */
MZ_API CsvTable read_csv(const std::string& path, const CsvOptions& options = {});

}  // namespace mezzo
