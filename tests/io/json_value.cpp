// JSON of state files: numbers round-trip bit for bit, and only the subset that is written is read.
#include "../../tensor/io/json_value.h"

#include <mezzo.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "../support/catch.h"
#include "files.h"

using namespace mezzo;
using io::JsonField;
using io::JsonValue;
using namespace std::string_literals;

namespace {

std::string refusal(const std::string& text, int depth = 3) {
  return files::thrown<FormatError>([&] {
    const io::ByteReader file("read", "f", std::as_bytes(std::span(text)));
    (void)io::read_json(file, text, depth);
  });
}

double number_back(double number) {
  const std::string text = io::json_text(io::object("x", number));
  const io::ByteReader file("read", "f", std::as_bytes(std::span(text)));
  const JsonValue value = io::read_json(file, text, 1);
  return JsonField(file, value).at("x").number();
}

std::uint64_t whole_back(std::uint64_t number) {
  const std::string text = io::json_text(io::object("x", JsonValue::whole(number)));
  const io::ByteReader file("read", "f", std::as_bytes(std::span(text)));
  const JsonValue value = io::read_json(file, text, 1);
  return JsonField(file, value).at("x").whole();
}

std::uint64_t bits(double x) {
  std::uint64_t out = 0;
  std::memcpy(&out, &x, sizeof out);
  return out;
}

}  // namespace

TEST_CASE("numbers round-trip bit for bit", "[json]") {
  for (const double x : {0.0,        -0.0,
                         1.0,        -1.0,
                         0.1,        1e-3,
                         65536.0,    0x1p53,
                         0x1p53 + 2, -0x1p60,
                         0x1p64,     1e22,
                         1e300,      0x1p-1074,
                         0x1p-1022,  0x1.fffffffffffffp1023,
                         1.0 / 3,    static_cast<double>(0.1f),
                         HUGE_VAL,   -HUGE_VAL})
    CHECK(bits(number_back(x)) == bits(x));
  CHECK(std::isnan(number_back(std::nan(""))));
  std::uint64_t state = 1;
  int wrong = 0;
  for (int i = 0; i < 20000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    double x = 0;
    std::memcpy(&x, &state, sizeof x);
    if (std::isfinite(x)) wrong += bits(number_back(x)) == state ? 0 : 1;
    // ilogb(0) and ilogb(nan) cannot be negated
    const double rounded =
        std::isnormal(x) ? std::round(std::ldexp(std::fabs(x), -std::ilogb(x) + i % 70)) : 0;
    if (std::isfinite(rounded)) wrong += bits(number_back(rounded)) == bits(rounded) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("integers beyond 2^53 are stored as text", "[json]") {
  constexpr std::uint64_t kExact = std::uint64_t{1} << 53;
  for (const std::uint64_t x :
       {std::uint64_t{0}, std::uint64_t{7}, kExact - 1, kExact, kExact + 1, ~std::uint64_t{0}})
    CHECK(whole_back(x) == x);
  CHECK(io::json_text(io::object("x", JsonValue::whole(kExact))) ==
        "{\n  \"x\": 9007199254740992\n}");
  CHECK(io::json_text(io::object("x", JsonValue::whole(kExact + 1))) ==
        "{\n  \"x\": \"9007199254740993\"\n}");
}

TEST_CASE("objects nest, keep their order and escape their names", "[json]") {
  const JsonValue value =
      io::object("b", io::object("\"\n", true, "", io::object()), "a", "text", "c", false);
  const std::string text = io::json_text(value);
  CHECK(text ==
        "{\n  \"b\": {\n    \"\\\"\\n\": true,\n    \"\": {}\n  },\n  \"a\": \"text\",\n  \"c\": "
        "false\n}");
  const io::ByteReader file("read", "f", std::as_bytes(std::span(text)));
  CHECK(io::json_text(io::read_json(file, text, 3)) == text);
}

TEST_CASE("JSON that state files never contain is rejected with its position", "[json]") {
  CHECK(refusal("7").find("read(f): the state is no JSON object") == 0);
  CHECK(refusal("\"a\"").find("no JSON object") != std::string::npos);
  CHECK(refusal("").find("not strict JSON") != std::string::npos);
  CHECK(refusal("{\"a\":[]}").find("got an array at byte 6") != std::string::npos);
  CHECK(refusal("{\"a\":null}").find("got null") != std::string::npos);
  CHECK(refusal("{\"a\":1,\"a\":1}").find("a key occurs twice; got \"a\"") != std::string::npos);
  CHECK(refusal("{\"a\":{\"a\":{\"a\":{}}}}").find("is nested too deeply") != std::string::npos);
  CHECK(refusal("{\"a\":{\"a\":{}}}") == "nothing");
  CHECK(refusal("{\"a\":9007199254740993}").find("the integer 9007199254740993, beyond 2^53") !=
        std::string::npos);
  CHECK(refusal("{\"a\":18446744073709551616}").find("the number 18446744073709551616") !=
        std::string::npos);
  CHECK(refusal("{\"a\":1e999}").find("not strict JSON") != std::string::npos);
  CHECK(refusal("{\"a\":1}\0"s).find("a zero byte") != std::string::npos);
}

TEST_CASE("missing, unknown and mistyped fields are reported by name", "[json]") {
  const std::string text = "{\"a\":{\"b\":\"x\",\"n\":-1,\"t\":true}}";
  const io::ByteReader file("read", "f", std::as_bytes(std::span(text)));
  const JsonValue value = io::read_json(file, text, 2);
  const JsonField root(file, value), a = root.at("a");
  const auto refused = [](const auto& call) { return files::thrown<FormatError>(call); };
  CHECK(refused([&] { (void)root.at("b"); }) ==
        "read(f): the state lacks a member; expected \"b\"");
  CHECK(refused([&] { (void)a.at("c"); }) == "read(f): \"a\" lacks a member; expected \"c\"");
  CHECK(refused([&] { (void)a.at("b").at("c"); }) == "read(f): \"a.b\" is no object");
  CHECK(refused([&] { (void)a.text(); }) == "read(f): \"a\" is no text");
  CHECK(refused([&] { (void)a.at("b").number(); }) == "read(f): \"a.b\" is no number");
  CHECK(refused([&] { (void)a.at("n").whole(); }) == "read(f): \"a.n\" is no whole number; got -1");
  CHECK(refused([&] { (void)a.at("n").truth(); }) == "read(f): \"a.n\" is neither true nor false");
  CHECK(refused([&] { a.require_members({"b", "n"}); }) ==
        "read(f): \"a\" has an unknown member; got \"t\"");
  CHECK(refused([&] { a.require_members({"b", "n", "t", "u"}); }) ==
        "read(f): \"a\" lacks a member; expected \"u\"");
  CHECK_NOTHROW(a.require_members({"b", "n", "t"}));
  CHECK(a.members().size() == 3);
}
