// Tables of text and numbers: quotes, gaps, classes, wrong files. npy.cpp has tables of numbers.
#include <mezzo.h>

#include <cmath>
#include <limits>

#include "../support/catch.h"
#include "../support/throws.h"
#include "files.h"

using namespace mezzo;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

CsvTable table_of(std::string_view content, const CsvOptions& options = {}) {
  const files::Directory folder;
  files::write(folder / "t.csv", content);
  return read_csv(folder / "t.csv", options);
}

std::string table_error(std::string_view content) {
  return files::thrown<FormatError>([&] { (void)table_of(content); });
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a table of text and numbers is read by the names of its columns") {
  const CsvTable table = table_of(
      "\xEF\xBB\xBFname, age,\"city, country\",score\r\n"
      "Ann , 34,\"Bern, CH\",1.5\r\n"
      "\r\n"
      "Bob,,\"the \"\"old\"\"\ntown\",-2\r\n"
      "\"\",7,\"\" ,3e1");
  CHECK(table.names() == Texts{"name", "age", "city, country", "score"});
  CHECK(table.rows() == 3);
  CHECK(table.text("name") == Texts{"Ann", "Bob", ""});
  CHECK(table.text("city, country") == Texts{"Bern, CH", "the \"old\"\ntown", ""});
  CHECK(table.text("age") == Texts{"34", "", "7"});
  const Tensor scores = table.numbers({"score"}, {.dtype = f64});
  CHECK(scores.shape() == Shape{3, 1});
  CHECK(scores.to_vector<double>() == std::vector<double>{1.5, -2, 30});
  const Tensor both = table.numbers({"score", "age"}, {.missing = -1});
  CHECK(both.dtype() == f32);
  CHECK(both.to_vector<double>() == std::vector<double>{1.5, 34, -2, -1, 30, 7});
  CHECK(std::isnan(table.numbers({"age"}, {.missing = kNan}).to_vector<double>()[1]));
  CHECK_THROWS_WITH_AS_TEXT(table.numbers({"age"}), FormatError,
                            "line 4, column age: not a number");
  CHECK_THROWS_WITH_AS_TEXT(table.numbers({"age"}), FormatError,
                            "missing sets the number of a gap");
  CHECK_THROWS_WITH_AS_TEXT(table.numbers({"name"}), FormatError,
                            "classes() makes numbers of text");
  CHECK_THROWS_WITH_AS_TEXT(table.numbers({"age"}, {.dtype = f16}), DtypeError, "f32 or f64");
  CHECK_THROWS_WITH_AS_TEXT(table.numbers({}), ValueError, "no columns are named");
  CHECK_THROWS_WITH_AS_TEXT(table.text("town"), ValueError,
                            "got town, expected name, age, city, country, score");
}

TEST_CASE("text becomes classes in alphabetic order, gaps -1") {
  const CsvClasses classes =
      table_of("kind;x\nred;1\nblue;2\n;3\nred;4\n", {.delimiter = ';'}).classes("kind");
  CHECK(classes.names == Texts{"blue", "red"});
  CHECK(classes.codes.dtype() == i64);
  CHECK(classes.codes.to_vector<int>() == std::vector<int>{1, 0, -1, 1});
}

TEST_CASE("tabs delimit fields, also empty ones") {
  const CsvTable table =
      table_of("skipped\na\tb\tc\n\t\t\n 1\t\t3\n", {.delimiter = '\t', .skip_rows = 1});
  CHECK(table.names() == Texts{"a", "b", "c"});
  CHECK(table.rows() == 2);
  CHECK(table.text("a") == Texts{"", "1"});
  CHECK(table.text("c") == Texts{"", "3"});
}

TEST_CASE("wrong tables are refused with the line") {
  CHECK(table_error("a,b\n1,2\n1\n")
            .find("line 3 has another length than the names; got 1 fields, "
                  "expected 2") != std::string::npos);
  CHECK(table_error("a,b\n1,\"2\n3\n").find("line 2: a quote does not end") != std::string::npos);
  CHECK(table_error("a\n\"1\" 2\n").find("line 2: text after a quote") != std::string::npos);
  CHECK(table_error("a,,c\n1,2,3\n").find("column 2 has no name") != std::string::npos);
  CHECK(table_error("a,a\n1,2\n").find("two columns have one name; got a") != std::string::npos);
  CHECK(table_error("a,b\n").find("no rows after the names") != std::string::npos);
  CHECK(table_error("").find("no rows") != std::string::npos);
  CHECK_THROWS_AS(read_csv("/no/such.csv"), IoError);
  CHECK_THROWS_AS(table_of("a\n1\n", {.skip_rows = -1}), ValueError);
}

TEST_CASE("load_csv fills gaps with a given number") {
  const files::Directory folder;
  files::write(folder / "t.csv", "1,,3\n,5, \n");
  CHECK(load_csv(folder / "t.csv", {.missing = 0}).to_vector<double>() ==
        std::vector<double>{1, 0, 3, 0, 5, 0});
  CHECK_THROWS_WITH_AS_TEXT(load_csv(folder / "t.csv"), FormatError, "the option missing");
}
