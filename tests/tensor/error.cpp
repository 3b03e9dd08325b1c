#include <mezzo.h>

#include "../support/catch.h"

using namespace mezzo;

TEST_CASE("error texts omit empty parts") {
  CHECK(error_text("matmul", {.what = "dtypes differ"}) == "matmul: dtypes differ");
  CHECK(error_text("matmul", {.what = "dtypes differ", .expected = "one dtype"}) ==
        "matmul: dtypes differ; expected one dtype");
  CHECK(error_text("load(m.safetensors)",
                   {.what = "size is wrong", .got = "4", .expected = "8", .hint = "damaged"}) ==
        "load(m.safetensors): size is wrong; got 4, expected 8; damaged");
}

TEST_CASE("error texts are one line, whatever they quote") {
  const std::string got = "\t\"\x1b[2J\x7f\xc2\x9b\xc3\xa9\r\"";
  CHECK(error_text("load(a\nb)", {.what = "no file", .got = got}) ==
        "load(a\\nb): no file; got \\t\"\\x1b[2J\\x7f\\u009b\xc3\xa9\\r\"");
}

TEST_CASE("error texts name the module that is executing") {
  const ModulePathScope root("");
  const ModulePathScope net("net");
  {
    const ModulePathScope layer("fc1");
    CHECK(error_text("linear", {.what = "features differ"}) == "linear(net.fc1): features differ");
  }
  CHECK(error_text("linear", {.what = "features differ"}) == "linear(net): features differ");
}

TEST_CASE("errors keep their type across the library boundary") {
  CHECK_THROWS_AS(fail<ShapeError>("add", {.what = "shapes differ"}), ShapeError);
  CHECK_THROWS_AS(fail<IoError>("load", {.what = "no such file"}), Error);
}
