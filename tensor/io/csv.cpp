#include "csv.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>
#include <vector>

#include "../core/error.h"
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

/** Returns the number that a field holds. `missing` stands for an empty one. Errors: FormatError
 * that names line and column. */
double parsed(const std::string& subject, std::string_view text, std::int64_t line,
              const std::string& column, const std::optional<double>& missing, const char* hint) {
  if (text.empty() && missing) return *missing;
  std::string_view digits = text;
  if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.remove_prefix(1);
  double value = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, value);
  if (error != std::errc{} || end != last)
    fail<FormatError>(subject, {.what = str("line ", line, ", column ", column,
                                            error == std::errc::result_out_of_range
                                                ? ": the number is out of range"
                                                : ": not a number"),
                                .got = str("\"", text.substr(0, 40), "\""),
                                .hint = text.empty() ? "the option missing sets the number of a gap"
                                        : error != std::errc::result_out_of_range ? hint
                                                                                  : ""});
  return value;
}

/** Collects the numbers of the rows. */
class Table {
 public:
  Table(const std::string& subject, const CsvOptions& options)
      : subject_(subject), options_(options) {}

  /** Adds a line, which has a number for errors. */
  void add(std::string_view line, std::int64_t number) {
    if (trimmed(line).empty()) return;
    std::int64_t count = 0;
    for (bool more = true; more;) {
      more = line.find(options_.delimiter) != std::string_view::npos;
      ++count;
      numbers.push_back(parsed(subject_, trimmed(taken(line, options_.delimiter)), number,
                               str(count), options_.missing,
                               number == 1 ? "skip_rows leaves out lines of names; read_csv reads "
                                             "names and text"
                                           : "read_csv reads text"));
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
  std::string subject_;
  const CsvOptions& options_;
};

template <class T> void convert(std::span<const double> numbers, const Tensor& out) {
  T* to = out.data<T>();
  for (const double number : numbers) *to++ = static_cast<T>(number);
}

/** Returns numbers, row by row, as a matrix. */
Tensor tensor_of(std::span<const double> numbers, std::int64_t rows, std::int64_t columns,
                 DType dtype) {
  const Tensor out = empty_tensor({rows, columns}, dtype, cpu);
  dtype == f32 ? convert<float>(numbers, out) : convert<double>(numbers, out);
  return out;
}

void require_dtype(const char* op, DType dtype) {
  if (dtype != f32 && dtype != f64)
    fail<DtypeError>(
        op, {.what = "wrong dtype", .got = std::string(name(dtype)), .expected = "f32 or f64"});
}

/** The text of a file. */
struct FileText {
  FileText(const char* op, const std::string& path, const CsvOptions& options) : file(op, path) {
    if (options.skip_rows < 0)
      fail<ValueError>(op, {.what = "invalid skip_rows", .got = str(options.skip_rows)});
    bytes = file.bytes(0, file.size());
  }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  io::ByteReader file;
  std::vector<std::byte> bytes;
};

/** Reads the fields of rows, quoted or not, as RFC 4180 has them. */
class FieldReader {
 public:
  FieldReader(const std::string& subject, std::string_view text, char delimiter)
      : subject_(subject), text_(text), delimiter_(delimiter) {}

  /** Removes a line of any content. */
  void skip_line() {
    taken(text_, '\n');
    ++line_;
  }
  /** Reads the fields of the next line that is not empty. Returns false at the end. */
  bool next(std::vector<std::string>& fields) {
    fields.clear();
    while (!text_.empty() && is_blank(text_.substr(0, text_.find('\n')))) skip_line();
    if (text_.empty()) return false;
    first_line_ = line_;
    do fields.push_back(field());
    while (ends_with_delimiter_);
    return true;
  }
  /** Returns the number of the line in which the fields began. */
  std::int64_t line() const { return first_line_; }

 private:
  /** Returns true if there is nothing but spaces, of which a delimiter is none. */
  bool is_blank(std::string_view line) const {
    return trimmed(line).empty() && line.find(delimiter_) == std::string_view::npos;
  }
  std::string field() {
    std::size_t start = 0;
    while (start < text_.size() && text_[start] != delimiter_ && is_blank(text_.substr(start, 1)) &&
           text_[start] != '\r')
      ++start;
    if (start < text_.size() && text_[start] == '"') {
      text_.remove_prefix(start + 1);
      return quoted();
    }
    const char ends[] = {delimiter_, '\n', '\0'};
    const std::string_view content = text_.substr(0, text_.find_first_of(ends));
    text_.remove_prefix(content.size());
    end_field();
    return std::string(trimmed(content));
  }
  std::string quoted() {
    std::string out;
    for (;;) {
      const std::size_t quote = text_.find('"');
      if (quote == std::string_view::npos)
        fail<FormatError>(subject_, {.what = str("line ", first_line_, ": a quote does not end")});
      line_ += std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(quote), '\n');
      out += text_.substr(0, quote);
      text_.remove_prefix(quote + 1);
      if (text_.empty() || text_[0] != '"') break;
      out += '"';
      text_.remove_prefix(1);
    }
    const char ends[] = {delimiter_, '\n', '\0'};
    const std::string_view rest = text_.substr(0, text_.find_first_of(ends));
    if (!trimmed(rest).empty())
      fail<FormatError>(subject_, {.what = str("line ", line_, ": text after a quote"),
                                   .got = str("\"", rest.substr(0, 40), "\""),
                                   .hint = "a quote within quotes is written twice"});
    text_.remove_prefix(rest.size());
    end_field();
    return out;
  }
  void end_field() {
    ends_with_delimiter_ = !text_.empty() && text_[0] == delimiter_;
    if (!text_.empty() && !ends_with_delimiter_) ++line_;
    if (!text_.empty()) text_.remove_prefix(1);
  }

  const std::string& subject_;
  std::string_view text_;
  char delimiter_;
  std::int64_t line_ = 1, first_line_ = 1;
  bool ends_with_delimiter_ = false;
};

/** Errors: FormatError unless all names are there and differ. */
void require_names(const std::string& subject, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty())
      fail<FormatError>(subject, {.what = str("column ", i + 1, " has no name"),
                                  .hint = "the first row names the columns"});
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      fail<FormatError>(subject, {.what = "two columns have one name", .got = names[i]});
  }
}

}  // namespace

Tensor load_csv(const std::string& path, const CsvOptions& options) {
  require_dtype("load_csv", options.dtype);
  const FileText file("load_csv", path, options);
  const std::string& subject = file.file.subject();
  std::string_view text = file.text();
  Table table(subject, options);
  or_out_of_memory(subject, [&] {
    for (std::int64_t line = 1; !text.empty(); ++line) {
      const std::string_view content = taken(text, '\n');
      if (line > options.skip_rows) table.add(content, line);
    }
  });
  if (table.rows == 0) fail<FormatError>(subject, {.what = "no numbers in the file"});
  return tensor_of(table.numbers, table.rows, table.columns, options.dtype);
}

CsvTable read_csv(const std::string& path, const CsvOptions& options) {
  const FileText file("read_csv", path, options);
  const std::string& subject = file.file.subject();
  std::string_view text = file.text();
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // the mark of UTF-8
  FieldReader reader(subject, text, options.delimiter);
  for (std::int64_t line = 0; line < options.skip_rows; ++line) reader.skip_line();
  CsvTable table;
  table.path_ = path;
  or_out_of_memory(subject, [&] {
    std::vector<std::string> fields;
    if (reader.next(fields)) table.names_ = fields;
    require_names(subject, table.names_);
    while (reader.next(fields)) {
      if (fields.size() != table.names_.size())
        fail<FormatError>(
            subject, {.what = str("line ", reader.line(), " has another length than the names"),
                      .got = str(fields.size(), " fields"),
                      .expected = str(table.names_.size())});
      table.lines_.push_back(reader.line());
      table.fields_.insert(table.fields_.end(), fields.begin(), fields.end());
    }
  });
  if (table.lines_.empty()) fail<FormatError>(subject, {.what = "no rows after the names"});
  return table;
}

std::int64_t CsvTable::rows() const { return std::ssize(lines_); }

std::size_t CsvTable::index_of(std::string_view column) const {
  const auto found = std::find(names_.begin(), names_.end(), column);
  if (found != names_.end()) return static_cast<std::size_t>(found - names_.begin());
  std::string all;
  for (const std::string& known : names_) all += (all.empty() ? "" : ", ") + known;
  fail<ValueError>(
      str("read_csv(", path_, ")"),
      {.what = "there is no such column",
       .got = std::string(column),
       .expected = all,
       .hint = names_.size() == 1 ? "the option delimiter says what is between the fields" : ""});
}

std::vector<std::string> CsvTable::text(std::string_view column) const {
  std::vector<std::string> out;
  for (std::size_t i = index_of(column); i < fields_.size(); i += names_.size())
    out.push_back(fields_[i]);
  return out;
}

Tensor CsvTable::numbers(const std::vector<std::string>& columns, const CsvOptions& options) const {
  require_dtype("read_csv", options.dtype);
  if (columns.empty())
    fail<ValueError>(str("read_csv(", path_, ")"),
                     {.what = "no columns are named", .expected = "one or more of names()"});
  std::vector<std::size_t> places;
  for (const std::string& column : columns) places.push_back(index_of(column));
  std::vector<double> values;
  for (std::size_t row = 0; row < lines_.size(); ++row)
    for (std::size_t i = 0; i < places.size(); ++i)
      values.push_back(parsed(str("read_csv(", path_, ")"),
                              trimmed(fields_[row * names_.size() + places[i]]), lines_[row],
                              columns[i], options.missing,
                              "numbers have a decimal point; classes() makes numbers of text"));
  return tensor_of(values, rows(), std::ssize(columns), options.dtype);
}

CsvClasses CsvTable::classes(std::string_view column) const {
  const std::vector<std::string> fields = text(column);
  CsvClasses out{.codes = empty_tensor({rows()}, i64, cpu), .names = fields};
  std::sort(out.names.begin(), out.names.end());
  out.names.erase(std::unique(out.names.begin(), out.names.end()), out.names.end());
  std::erase(out.names, std::string());
  auto* code = out.codes.data<std::int64_t>();
  for (const std::string& field : fields)
    *code++ = field.empty()
                  ? -1
                  : std::lower_bound(out.names.begin(), out.names.end(), field) - out.names.begin();
  return out;
}

}  // namespace mezzo
