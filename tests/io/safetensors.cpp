// Safetensors round trips of every dtype, shape and name; the bytes match the Python package's.
#include <mezzo.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "../support/same_bits.h"
#include "files.h"
#include "golden_safetensors.h"

using namespace mezzo;
using testing::same_bits;
using namespace std::string_literals;

namespace {

const Tensor& find(const LoadedTensors& loaded, const std::string& name) {
  for (const auto& [key, x] : loaded.tensors)
    if (key == name) return x;
  throw std::runtime_error("no tensor " + name);
}

void check_round_trip(const std::string& path, const NamedTensors& tensors,
                      const TensorMetadata& metadata = {}) {
  save_tensors(path, tensors, metadata);
  const LoadedTensors loaded = load_tensors(path);
  CHECK(loaded.metadata == metadata);
  REQUIRE(loaded.tensors.size() == tensors.size());
  for (const auto& [name, x] : tensors) {
    INFO(name);
    CHECK(same_bits(find(loaded, name), x));
  }
}

/** Returns the tensors that make_golden.py wrote to golden_safetensors.h. */
NamedTensors golden_tensors() {
  const auto range = [](int n, DType dtype, const Shape& shape) {
    std::vector<double> values;
    for (int i = 0; i < n; ++i) values.push_back(i);
    return tensor(values, shape, {.dtype = dtype});
  };
  return {{"fc1.weight", range(6, f32, {2, 3}) * 0.5},
          {"fc1.bias", range(3, f32, {3})},
          {"a \"quoted\" \\ name\n\t\x01", range(2, f32, {2})},
          {"\xC3\xBC\xE2\x82\xAC\xF0\x9F\x98\x80", range(2, f32, {1, 2})},
          {"half", range(5, f16, {5})},
          {"brain", range(3, bf16, {3, 1})},
          {"double", range(2, f64, {2})},
          {"long", range(2, i64, {2})},
          {"int", range(3, i32, {3})},
          {"byte", range(3, u8, {3})},
          {"truth", tensor({1, 0, 1}, {.dtype = boolean})},
          {"zero_dim", tensor(7.0)},
          {"empty", zeros({0, 4})}};
}

}  // namespace

TEST_CASE("every dtype and shape round-trips bit for bit", "[safetensors]") {
  const files::Directory directory;
  for (const DType dtype : {boolean, u8, i32, i64, f16, bf16, f32, f64})
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{0}, Shape{7}, Shape{3, 5}, Shape{2, 0, 3},
                               Shape{1, 1, 1, 1, 1, 1, 1, 2}}) {
      std::vector<double> values;
      for (std::int64_t i = 0; i < checked_numel(shape, "test"); ++i)
        values.push_back(dtype == boolean ? i % 2 : static_cast<double>(i) * 1.25);
      check_round_trip(directory / "m.safetensors",
                       {{"x", tensor(values, shape, {.dtype = dtype})}});
    }
}

TEST_CASE("special values round-trip", "[safetensors]") {
  const files::Directory directory;
  Tensor x = empty_tensor({65536}, f16, cpu), y = empty_tensor({4}, f32, cpu);
  for (int i = 0; i < 65536; ++i) x.data<Half>()[i].bits = static_cast<std::uint16_t>(i);
  const std::uint32_t bits[4] = {0x7F800001, 0x80000000, 0xFF800000, 1};
  std::memcpy(y.raw_data(), bits, sizeof bits);
  const Tensor extremes = empty_tensor({2}, i64, cpu);
  extremes.data<std::int64_t>()[0] = std::numeric_limits<std::int64_t>::min();
  extremes.data<std::int64_t>()[1] = std::numeric_limits<std::int64_t>::max();
  check_round_trip(directory / "m.safetensors",
                   {{"all halves", x}, {"nan, -0, -inf, subnormal", y}, {"extremes", extremes}});
}

TEST_CASE("names and metadata may be any text", "[safetensors]") {
  const files::Directory directory;
  std::string all;
  for (int c = 0; c < 128; ++c) all += static_cast<char>(c);
  NamedTensors tensors;
  int n = 0;
  for (const std::string& name :
       {""s, " "s, "a.b.c"s, "\""s, "\\"s, "{}"s, "dtype"s, "\0"s, "a\0b"s, "\x7F"s, "\xC3\xA4"s,
        "\xF4\x8F\xBF\xBF"s, all, std::string(100000, 'x'), "__metadata"s, "../../etc/passwd"s})
    tensors.emplace_back(name, tensor({1.0 * ++n, 2}));
  check_round_trip(
      directory / "m.safetensors", tensors,
      {{"format", "pt"}, {"", ""}, {all, all}, {"\xE2\x82\xAC", "\n\"\\"}, {"step", "123"}});
}

TEST_CASE("a header of any length is read, also where it begins as another format does",
          "[safetensors]") {
  const files::Directory directory;
  for (std::size_t n = 1; n < 1000; n += 5) {  // 640 bytes are 80 02 ..., as in a pickled object
    INFO(n);
    check_round_trip(directory / "m.safetensors", {{std::string(n, 'x'), ones({2})}});
  }
}

TEST_CASE("strided tensors and tensors with a graph are saved by value", "[safetensors]") {
  const files::Directory directory;
  const Tensor x = tensor({1., 2, 3, 4, 5, 6}, {2, 3}), leaf = ones({2}).requires_grad_();
  check_round_trip(directory / "m.safetensors", {{"transposed", x.t()},
                                                 {"step", x.slice(1, 0, 3, 2)},
                                                 {"expanded", ones({1}).expand({5})},
                                                 {"leaf", leaf},
                                                 {"result", leaf * 2.0}});
  CHECK_FALSE(find(load_tensors(directory / "m.safetensors"), "leaf").requires_grad());
}

TEST_CASE("the bytes match the Python package's", "[safetensors]") {
  const files::Directory directory;
  const std::string golden(std::begin(kGoldenSafetensors), std::end(kGoldenSafetensors));
  save_tensors(directory / "m.safetensors", golden_tensors(), {{"format", "pt"}});
  CHECK(files::read(directory / "m.safetensors") == golden);
  files::write(directory / "golden.safetensors", golden);
  const LoadedTensors loaded = load_tensors(directory / "golden.safetensors");
  CHECK(loaded.metadata == TensorMetadata{{"format", "pt"}});
  for (const auto& [name, x] : golden_tensors()) CHECK(same_bits(find(loaded, name), x));
}

TEST_CASE("the file layout: dtypes from wide to narrow, then names, padded to 8", "[safetensors]") {
  const files::Directory directory;
  save_tensors(
      directory / "m",
      {{"b", zeros({1}, {.dtype = u8})}, {"c", zeros({1})}, {"a", ones({1}, {.dtype = u8})}});
  const std::string header =
      "{\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
      "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[4,5]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[5,6]}}";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  CHECK(files::read(directory / "m") == files::safetensors(padded, "\0\0\0\0\1\0"s));
  save_tensors(directory / "m", {});
  CHECK(files::read(directory / "m") == files::safetensors("{}      "));
  const LoadedTensors loaded = load_tensors(directory / "m");
  CHECK(loaded.tensors.empty());
}

TEST_CASE("saving rejects what a reader would reject, and writes nothing", "[safetensors]") {
  const files::Directory directory;
  const std::string path = directory / "m.safetensors";
  const auto refused = [&](const NamedTensors& tensors, const TensorMetadata& metadata = {}) {
    const std::string text =
        files::thrown<ValueError>([&] { save_tensors(path, tensors, metadata); });
    CHECK(directory.count() == 0);
    return text;
  };
  const Tensor x = ones({1});
  CHECK(refused({{"a", x}, {"b", x}, {"a", x}}) ==
        "save_tensors(" + path + "): a name occurs twice; got \"a\", expected each name once");
  CHECK(refused({{"__metadata__", x}}).find("no tensor may have this name") != std::string::npos);
  CHECK(refused({{"a", Tensor{}}}).find("a tensor is undefined; got \"a\"") != std::string::npos);
  CHECK(refused({{"\xFF", x}}).find("a name is not UTF-8") != std::string::npos);
  CHECK(refused({{"a", x}}, {{"\xC0", ""}}).find("a metadata key is not UTF-8") !=
        std::string::npos);
  CHECK(refused({{"a", x}}, {{"k", "ab\x80"}})
            .find("a metadata value is not UTF-8; got a bad byte at position 2") !=
        std::string::npos);
  CHECK(refused({{"a", x}}, {{"k", std::string((1 << 20) + 1, 'x')}})
            .find("the metadata is too large") != std::string::npos);
  CHECK(refused(NamedTensors((1 << 17) + 1, {"a", x})).find("there are too many tensors") !=
        std::string::npos);
  const std::string long_name((1 << 25) + 1, 'a');
  CHECK(refused({{long_name, x}}).find("the names are too long") != std::string::npos);
}
