#include "csv.h"

#include <charconv>
#include <string_view>
#include <vector>

#include "../memory/out_of_memory.h"
#include "../text/text.h"
#include "byte_reader.h"

namespace mezzo {

namespace {

/** Returns the text up to the separator, and removes both from `text`. */
std::string_view taken(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

/** Collects the numbers of the rows. */
class Table {
 public:
  Table(const std::string& subject, char delimiter) : subject_(subject), delimiter_(delimiter) {}

  /** Adds a line, which has a number for errors. */
  void add(std::string_view line, std::int64_t number) {
    if (trimmed(line).empty()) return;
    std::int64_t count = 0;
    for (bool more = true; more;) {
      more = line.find(delimiter_) != std::string_view::npos;
      ++count;
      numbers.push_back(parsed(trimmed(taken(line, delimiter_)), number, count));
    }
    if (rows++ == 0) columns = count;
    if (count != columns)
      fail<FormatError>(subject_,
                        {.what = str("line ", number, " has another length than the first"),
                         .got = str(count, " numbers"),
                         .expected = str(columns)});
  }

  std::vector<double> numbers;
  std::int64_t rows = 0, columns = 0;

 private:
  double parsed(std::string_view text, std::int64_t line, std::int64_t column) const {
    std::string_view digits = text;
    if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.remove_prefix(1);
    double value = 0;
    const char* const last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(digits.data(), last, value);
    if (error != std::errc{} || end != last)
      fail<FormatError>(subject_, {.what = str("line ", line, ", column ", column,
                                               error == std::errc::result_out_of_range
                                                   ? ": the number is out of range"
                                                   : ": not a number"),
                                   .got = str("\"", text.substr(0, 40), "\""),
                                   .hint = line == 1 ? "skip_rows leaves out lines of names" : ""});
    return value;
  }

  std::string subject_;
  char delimiter_;
};

template <class T> Tensor tensor_of(const Table& table, DType dtype) {
  const Tensor out = empty_tensor({table.rows, table.columns}, dtype, cpu);
  T* to = out.data<T>();
  for (const double number : table.numbers) *to++ = static_cast<T>(number);
  return out;
}

}  // namespace

Tensor load_csv(const std::string& path, const CsvOptions& options) {
  if (options.dtype != f32 && options.dtype != f64)
    fail<DtypeError>(
        "load_csv",
        {.what = "wrong dtype", .got = std::string(name(options.dtype)), .expected = "f32 or f64"});
  if (options.skip_rows < 0)
    fail<ValueError>("load_csv", {.what = "invalid skip_rows", .got = str(options.skip_rows)});
  const io::ByteReader file("load_csv", path);
  const std::vector<std::byte> bytes = file.bytes(0, file.size());
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Table table(file.subject(), options.delimiter);
  or_out_of_memory(file.subject(), [&] {
    for (std::int64_t line = 1; !text.empty(); ++line) {
      const std::string_view content = taken(text, '\n');
      if (line > options.skip_rows) table.add(content, line);
    }
  });
  if (table.rows == 0) fail<FormatError>(file.subject(), {.what = "no numbers in the file"});
  return options.dtype == f32 ? tensor_of<float>(table, f32) : tensor_of<double>(table, f64);
}

}  // namespace mezzo
