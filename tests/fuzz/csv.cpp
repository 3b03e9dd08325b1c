// Fuzzes CSV files: they are read or rejected with a FormatError.
#include "../../tensor/io/csv.h"

#include "../../tensor/core/error.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string& path = fuzz::path_of(fuzz::text(data, size));
  for (const mezzo::CsvOptions& options :
       {mezzo::CsvOptions{}, mezzo::CsvOptions{';', 1, mezzo::DType::f64}})
    try {
      const mezzo::Tensor x = mezzo::load_csv(path, options);
      fuzz::require(x.dim() == 2 && x.numel() > 0);
      fuzz::require(static_cast<std::size_t>(x.numel()) <= size);
    } catch (const mezzo::FormatError&) {}
  for (const char delimiter : {',', '\t'}) try {
      const mezzo::CsvTable table = mezzo::read_csv(path, {.delimiter = delimiter});
      fuzz::require(table.rows() > 0 && !table.names().empty());
      for (const std::string& name : table.names())
        fuzz::require(table.classes(name).codes.numel() == table.rows());
      (void)table.numbers({table.names()[0]}, {.missing = 0});
    } catch (const mezzo::FormatError&) {}
  return 0;
}
