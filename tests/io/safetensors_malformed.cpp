// Malformed safetensors files are rejected with a FormatError that gives the reason; unusual but
// valid ones are read.
#include <mezzo.h>

#include "../support/catch.h"
#include "files.h"

using namespace mezzo;
using files::safetensors;
using namespace std::string_literals;

namespace {

struct MalformedTensors {
  std::string what, bytes, part;
};

/** Returns a header entry for 4 bytes of U8, with replaceable parts. */
std::string entry(const std::string& name, const std::string& dtype = "\"U8\"",
                  const std::string& shape = "[4]", const std::string& offsets = "[0,4]") {
  return "\"" + name + "\":{\"dtype\":" + dtype + ",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets,
                std::size_t buffer = 4) {
  return safetensors("{" + entry("a", dtype, shape, offsets) + "}", std::string(buffer, '\1'));
}

/** Returns a header of empty tensors whose names begin with `name`. */
std::string empty_tensors(int count, const std::string& name) {
  std::string text = "{";
  for (int i = 0; i < count; ++i)
    text += (i == 0 ? "" : ",") + entry(name + std::to_string(i), "\"U8\"", "[0]", "[0,0]");
  return text + "}";
}

const std::string kGood = "{" + entry("a") + "}", kFour = "\1\0\1\0"s;

std::vector<MalformedTensors> framing() {
  return {
      {"an empty file", "", "the file ends too early"},
      {"seven bytes", "\x10\0\0\0\0\0\0"s, "expected 8 bytes from byte 0"},
      {"a header of zero bytes", files::little_u64(0), "not strict JSON"},
      {"a header longer than the file", files::little_u64(100) + "{}", "longer than the file"},
      {"a header of one byte too many", files::little_u64(3) + "{}", "longer than the file"},
      {"a header length beyond the limit", files::little_u64(100'000'001) + "{}", "is impossible"},
      {"a header length of 2^64-1", files::little_u64(~0ull) + "{}", "is impossible"},
      {"a header length of 2^63", files::little_u64(1ull << 63) + "{}", "is impossible"},
      {"a zip archive", "PK\3\4 this is a zip file", "a PyTorch file (.pt"},
      {"a zip archive of arrays", "PK\3\4 x.npy", "use load_npz()"},
      {"a pickled state", "\x80\x02}q\0X\0\0\0"s, "torch.load("},
      {"another format of tensors", "GGUF\3\0\0\0\1"s, "got a GGUF file (of llama.cpp)"},
      {"another container", "\x89HDF\r\n\x1a\n\0"s, "got an HDF5 file"},
      {"an array", "\x93NUMPY\1\0v", "use load_npy()"},
      {"a text file", "{\"a\": 1}\n", "is impossible"},
      {"a buffer that ends early", safetensors(kGood, "\1\0\1"s), "shorter than its tensors"},
      {"no buffer", safetensors(kGood), "shorter than its tensors"},
      {"a byte too many", safetensors(kGood, "\1\0\1\0\0"s), "continues after its tensors"},
      {"bytes but no tensors", safetensors("{}", "\0"s), "continues after its tensors"},
      {"a truncated header", files::little_u64(20) + kGood.substr(0, 20), "not strict JSON"},
  };
}

std::vector<MalformedTensors> json() {
  const auto text = [](const std::string& header) { return safetensors(header, kFour); };
  return {
      {"an array", text("[]"), "the header is no JSON object"},
      {"a string", text("\"a\""), "the header is no JSON object"},
      {"a number", text("7"), "the header is no JSON object"},
      {"null", text("null"), "the header is no JSON object"},
      {"an unclosed object", text("{"), "not strict JSON"},
      {"two values", text(kGood + "{}"), "not strict JSON"},
      {"text behind the object", text(kGood + " x"), "not strict JSON"},
      {"a zero byte behind the object", text(kGood + "\0"s), "a zero byte at byte 61"},
      {"zero bytes with more behind them", text(kGood + "\0\0junk"s), "a zero byte"},
      {"a comma before the brace", text("{" + entry("a") + ",}"), "not strict JSON"},
      {"single quotes", text("{'a':1}"), "not strict JSON"},
      {"a comment", text("{/* */" + entry("a") + "}"), "not strict JSON"},
      {"a name without quotes", text("{a:1}"), "not strict JSON"},
      {"NaN", text("{\"a\":NaN}"), "not strict JSON"},
      {"a byte order mark", text("\xEF\xBB\xBF" + kGood), "byte order mark"},
      {"UTF-16", text("{\0}\0"s), "a zero byte"},
      {"Latin-1", text("{" + entry("\xE4") + "}"), "not UTF-8; got a bad byte at byte 10"},
      {"an overlong slash", text("{" + entry("\xC0\xAF") + "}"), "not UTF-8"},
      {"a surrogate in UTF-8", text("{" + entry("\xED\xA0\x80") + "}"), "not UTF-8"},
      {"a value above U+10FFFF", text("{" + entry("\xF4\x90\x80\x80") + "}"), "not UTF-8"},
      {"a character cut short", text("{" + entry("\xE2\x82") + "}"), "not UTF-8"},
      {"a lone surrogate escape", text("{" + entry("\\ud800") + "}"), "not strict JSON"},
      {"an unknown escape", text("{" + entry("\\x41") + "}"), "not strict JSON"},
      {"a raw newline in a name", text("{" + entry("a\nb") + "}"), "not strict JSON"},
      {"deep nesting", text(std::string(200000, '[')), "no JSON object"},
      {"deep nesting of objects", text("{\"a\":{\"shape\":" + std::string(200000, '[')),
       "holds an invalid value"},
      {"a leading zero", one("\"U8\"", "[04]", "[0,4]"), "not strict JSON"},
      {"a hexadecimal number", one("\"U8\"", "[0x4]", "[0,4]"), "not strict JSON"},
  };
}

std::vector<MalformedTensors> structure() {
  const auto text = [](const std::string& header) { return safetensors(header, kFour); };
  const std::string u8 = "\"dtype\":\"U8\"", shape = "\"shape\":[4]",
                    offsets = "\"data_offsets\":[0,4]";
  const auto fields = [&](const std::string& list) { return text("{\"a\":{" + list + "}}"); };
  return {
      {"an entry that is a number", text("{\"a\":1}"),
       "the entry of \"a\" is no object; got a number"},
      {"an entry that is null", text("{\"a\":null}"), "is no object; got null"},
      {"an entry that is an array", text("{\"a\":[]}"), "is no object; got an array"},
      {"an entry that is a string", text("{\"a\":\"F32\"}"), "is no object; got a string"},
      {"an empty entry", fields(""), "lacks dtype"},
      {"no dtype", fields(shape + "," + offsets), "lacks dtype"},
      {"no shape", fields(u8 + "," + offsets), "lacks shape"},
      {"no offsets", fields(u8 + "," + shape), "lacks data_offsets"},
      {"an unknown key", fields(u8 + "," + shape + "," + offsets + ",\"strides\":[1]"),
       "unknown key; got \"strides\""},
      {"a key in capitals", fields("\"DType\":\"U8\""), "unknown key; got \"DType\""},
      {"dtype twice", fields(u8 + "," + u8 + "," + shape + "," + offsets),
       "a key twice; got \"dtype\""},
      {"shape twice", fields(u8 + "," + shape + "," + shape + "," + offsets),
       "a key twice; got \"shape\""},
      {"offsets twice", fields(u8 + "," + offsets + "," + offsets + "," + shape),
       "a key twice; got \"data_offsets\""},
      {"a name twice",
       text("{" + entry("a") + "," + entry("b", "\"U8\"", "[0]", "[4,4]") + "," + entry("a") + "}"),
       "a name occurs twice"},
      {"a name twice, once escaped", text("{" + entry("a") + "," + entry("\\u0061") + "}"),
       "a name occurs twice"},
      {"an object in an entry", fields("\"dtype\":{}"), "holds an invalid value; got an object"},
      {"a dtype that is a number", one("4", "[4]", "[0,4]"),
       "dtype of \"a\" holds an invalid value; got a number"},
      {"a dtype that is an array", one("[\"U8\"]", "[4]", "[0,4]"), "got an array"},
      {"a dtype unknown to anyone", one("\"F33\"", "[4]", "[0,4]"),
       "is not supported; got \"F33\""},
      {"a dtype in small letters", one("\"u8\"", "[4]", "[0,4]"), "got \"u8\""},
      {"an 8-bit float", one("\"F8_E4M3\"", "[4]", "[0,4]"), "got \"F8_E4M3\""},
      {"an unsigned 16-bit integer", one("\"U16\"", "[2]", "[0,4]"), "got \"U16\""},
      {"a shape that is a number", one("\"U8\"", "4", "[0,4]"),
       "shape of \"a\" holds an invalid value; got a number"},
      {"a shape that is a string", one("\"U8\"", "\"4\"", "[0,4]"), "got a string"},
      {"a shape of arrays", one("\"U8\"", "[[4]]", "[0,4]"), "got an array"},
      {"a negative size", one("\"U8\"", "[-4]", "[0,4]"), "the negative number -4"},
      {"minus zero", one("\"U8\"", "[-0]", "[0,0]", 0), "the negative number 0"},
      {"a fractional size", one("\"U8\"", "[4.0]", "[0,4]"), "the number 4.0"},
      {"a size with an exponent", one("\"U8\"", "[4e0]", "[0,4]"), "the number 4e0"},
      {"a size that is null", one("\"U8\"", "[null]", "[0,4]"), "got null"},
      {"a size that is true", one("\"U8\"", "[true]", "[0,4]"), "got a bool"},
      {"a size of 2^64", one("\"U8\"", "[18446744073709551616]", "[0,4]"),
       "the number 18446744073709551616"},
      {"a size of 2^63", one("\"U8\"", "[9223372036854775808]", "[0,4]"), "an impossible size"},
      {"sizes whose product overflows", one("\"U8\"", "[4294967296,4294967296]", "[0,0]", 0),
       "is too large"},
      {"sizes whose product overflows to 4", one("\"U8\"", "[4611686018427387905,4]", "[0,4]"),
       "an impossible size"},
      {"an overflow behind a zero", one("\"U8\"", "[0,4294967296,4294967296]", "[0,0]", 0),
       "is too large"},
      {"nine dimensions", one("\"U8\"", "[1,1,1,1,1,1,1,1,4]", "[0,4]"), "too many dimensions"},
      {"one offset", one("\"U8\"", "[4]", "[0]"), "wrong length; got 1 numbers"},
      {"no offsets in the list", one("\"U8\"", "[4]", "[]"), "wrong length; got 0 numbers"},
      {"three offsets", one("\"U8\"", "[4]", "[0,4,4]"), "wrong length; got more than 2"},
      {"a negative offset", one("\"U8\"", "[4]", "[-4,0]"), "the negative number -4"},
      {"a fractional offset", one("\"U8\"", "[4]", "[0,4.5]"), "the number 4.5"},
  };
}

std::vector<MalformedTensors> layout() {
  const auto two = [](const std::string& a, const std::string& b) {
    return safetensors(
        "{" + entry("a", "\"U8\"", "[4]", a) + "," + entry("b", "\"U8\"", "[4]", b) + "}",
        std::string(8, '\1'));
  };
  const auto metadata = [](const std::string& value) {
    return safetensors("{\"__metadata__\":" + value + "," + entry("a") + "}", kFour);
  };
  return {
      {"too few bytes for the shape", one("\"F32\"", "[2]", "[0,4]"),
       "size of \"a\" is wrong; got data_offsets [0,4] for F32[2], expected 8 bytes; the file is "
       "damaged"},
      {"too many bytes for the shape", one("\"F32\"", "[]", "[0,8]", 8), "expected 4 bytes"},
      {"bytes for an empty shape", one("\"F32\"", "[0]", "[0,4]"), "expected 0 bytes"},
      {"offsets in the wrong order", one("\"U8\"", "[4]", "[4,0]"), "size of \"a\" is wrong"},
      {"offsets that wrap", one("\"U8\"", "[4]", "[18446744073709551614,2]"),
       "size of \"a\" is wrong"},
      {"a hole at the start", one("\"U8\"", "[4]", "[1,5]", 5), "leaves a hole before it"},
      {"a hole", two("[0,4]", "[5,9]"), "\"b\" leaves a hole before it"},
      {"an overlap", two("[0,4]", "[3,7]"), "\"b\" overlaps another tensor"},
      {"one place for two", two("[0,4]", "[0,4]"), "overlaps another tensor"},
      {"an empty tensor inside another",
       safetensors("{" + entry("a") + "," + entry("b", "\"U8\"", "[0]", "[2,2]") + "}", kFour),
       "\"b\" overlaps"},
      {"an empty tensor behind the buffer",
       safetensors("{" + entry("a") + "," + entry("b", "\"U8\"", "[0]", "[9,9]") + "}", kFour),
       "leaves a hole"},
      {"offsets far behind the file",
       one("\"U8\"", "[0]", "[18446744073709551615,18446744073709551615]", 0), "leaves a hole"},
      {"a claim of a terabyte", one("\"U8\"", "[1099511627776]", "[0,1099511627776]"),
       "shorter than its tensors"},
      {"a bool of 2", safetensors("{" + entry("a", "\"BOOL\"") + "}", "\1\0\2\1"s),
       "is no bool; got 2 at byte 65"},
      {"metadata that is null", metadata("null"), "__metadata__ is no object; got null"},
      {"metadata that is a string", metadata("\"pt\""), "__metadata__ is no object; got a string"},
      {"metadata that is an array", metadata("[]"), "__metadata__ is no object; got an array"},
      {"a metadata value that is a number", metadata("{\"step\":1}"),
       "the metadata of \"step\" is no string; got a number"},
      {"a metadata value that is an object", metadata("{\"step\":{}}"),
       "is no string; got an object"},
      {"a metadata value that is null", metadata("{\"step\":null}"), "is no string; got null"},
      {"a metadata key twice", metadata("{\"a\":\"\",\"a\":\"\"}"),
       "a metadata key occurs twice; got \"a\""},
      {"metadata twice", metadata("{},\"__metadata__\":{}"), "__metadata__ occurs twice"},
      {"metadata like an entry",
       metadata("{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}"), "is no string"},
      {"too long a blank", safetensors(std::string((1 << 23) + 1, ' ') + kGood, kFour),
       "a string, number or blank is too long; got one at byte 8"},
      {"too long a string", safetensors("{\"" + std::string(1 << 23, 'a') + "\":1}"),
       "is too long; got one at byte 9"},
      {"too many tensors", safetensors(empty_tensors((1 << 17) + 1, "")),
       "the file holds too many tensors; got more than 131072"},
      {"too long names", safetensors(empty_tensors(33, std::string(1 << 20, 'n'))),
       "the names are too long; got more than 33554432 bytes"},
      {"too much metadata", metadata("{\"a\":\"" + std::string(1 << 20, 'x') + "\"}"),
       "the metadata is too large"},
  };
}

}  // namespace

TEST_CASE("malformed safetensors files are rejected with the reason", "[safetensors]") {
  const files::Directory directory;
  const std::string path = directory / "m.safetensors";
  std::size_t count = 0;
  for (const auto& list : {framing(), json(), structure(), layout()})
    for (const MalformedTensors& m : list) {
      files::write(path, m.bytes);
      const std::string text = files::thrown<FormatError>([&] { load_tensors(path); });
      INFO(m.what << " gave: " << text);
      CHECK(text.find("load_tensors(" + path + "): ") == 0);
      CHECK(text.find(m.part) != std::string::npos);
      CHECK(text.size() < 600);
      ++count;
    }
  CHECK(count >= 100);
}

TEST_CASE("every truncated or corrupted header is rejected or read without a crash",
          "[safetensors]") {
  const files::Directory directory;
  const std::string path = directory / "m.safetensors";
  save_tensors(path, {{"weight", ones({2, 3})}, {"bias", ones({3}, {.dtype = f16})}},
               {{"format", "pt"}});
  const std::string good = files::read(path);
  for (std::size_t n = 0; n < good.size(); ++n) {
    files::write(path, good.substr(0, n));
    CHECK_THROWS_AS(load_tensors(path), FormatError);
  }
  std::size_t read = 0;
  for (std::size_t at = 0; at < good.size() - 30; ++at)
    for (const int change : {1, 0x80, 0x20}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ change);
      files::write(path, bad);
      try {
        load_tensors(path);
        ++read;  // the byte was part of a name, of the metadata or a space
      } catch (const FormatError&) {}
    }
  CHECK(read < good.size());
}

TEST_CASE("unusual but valid safetensors files are read", "[safetensors]") {
  const files::Directory directory;
  const std::string path = directory / "m.safetensors";
  const auto load = [&](const std::string& bytes) {
    files::write(path, bytes);
    return load_tensors(path);
  };
  CHECK(load(safetensors("{}")).tensors.empty());
  CHECK(load(safetensors(" \t\r\n" + kGood + "\n\n  ", kFour)).tensors.size() == 1);
  CHECK(load(safetensors("{\"__metadata__\":{}}")).metadata.empty());
  CHECK(load(safetensors("{" + entry("a") + ",\"__metadata__\":{\"k\":\"v\"}}", kFour))
            .metadata.at("k") == "v");

  // Keys and entries in any order, no padding, empty tensors, 0-dim, the empty name.
  const LoadedTensors odd =
      load(safetensors("{\"z\":{\"data_offsets\":[4,8],\"shape\":[],\"dtype\":\"F32\"}," +
                           entry("") + "," + entry("none", "\"F64\"", "[3,0]", "[8,8]") + "," +
                           entry("nothing", "\"BF16\"", "[0]", "[0,0]") + "}",
                       "\1\2\3\4" + "\0\0\x80\x3F"s));
  REQUIRE(odd.tensors.size() == 4);
  CHECK(odd.tensors[0].first == "z");
  CHECK(odd.tensors[0].second.item<float>() == 1);
  CHECK(odd.tensors[1].first.empty());
  CHECK(odd.tensors[1].second.to_vector<int>() == std::vector<int>{1, 2, 3, 4});
  CHECK(odd.tensors[2].second.shape() == Shape{3, 0});
  CHECK(odd.tensors[3].second.dtype() == bf16);

  const LoadedTensors narrow = load(safetensors("{" + entry("a", "\"I8\"", "[2]", "[0,2]") + "," +
                                                    entry("b", "\"I16\"", "[1]", "[2,4]") + "}",
                                                "\x80\x7F\x00\x80"s));
  CHECK(narrow.tensors[0].second.dtype() == i32);
  CHECK(narrow.tensors[0].second.to_vector<int>() == std::vector<int>{-128, 127});
  CHECK(narrow.tensors[1].second.to_vector<int>() == std::vector<int>{-32768});
}

TEST_CASE("check_finite rejects non-finite values", "[safetensors]") {
  const files::Directory directory;
  const std::string path = directory / "m.safetensors";
  for (const DType dtype : {f16, bf16, f32, f64})
    for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      save_tensors(path, {{"w", tensor({1, bad}, {.dtype = dtype})}});
      CHECK(load_tensors(path).tensors.size() == 1);
      const std::string text =
          files::thrown<FormatError>([&] { load_tensors(path, {.check_finite = true}); });
      CHECK(text.find("\"w\" holds a value that is not finite; got ") != std::string::npos);
    }
  save_tensors(path, {{"w", tensor({1, 65504}, {.dtype = f16})}});
  CHECK(load_tensors(path, {.check_finite = true}).tensors.size() == 1);
}

TEST_CASE("files that cannot be opened are IoErrors with path and cause", "[safetensors]") {
  const files::Directory directory;
  const std::string text = files::thrown<IoError>([&] { load_tensors(directory / "absent"); });
  CHECK(text == "load_tensors(" + (directory / "absent") +
                    "): cannot open the file; got No such file or directory");
  CHECK(files::thrown<IoError>([&] { load_tensors(directory.path()); }).find("no regular file") !=
        std::string::npos);
  CHECK(files::thrown<IoError>([&] { load_tensors("/dev/zero"); }).find("no regular file") !=
        std::string::npos);
}
