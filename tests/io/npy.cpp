// NumPy's files: parity with NumPy both ways, damaged files; tables of numbers in CSV files.
#include "../../tensor/io/npy.h"

#include <mezzo.h>

#include "../support/catch.h"
#include "../support/throws.h"
#include "files.h"
#include "golden_npy.h"

using namespace mezzo;
using files::text_of;

namespace {

/** Returns the text with some bytes replaced. */
std::string patched(std::string text, std::size_t at, std::string_view bytes) {
  return text.replace(at, bytes.size(), bytes);
}

/** The error of reading bytes as a file. */
std::string npy_error(const std::string& bytes) {
  const files::Directory folder;
  files::write(folder / "x", bytes);
  return files::thrown<FormatError>([&] { (void)load_npy(folder / "x"); });
}
std::string npz_error(const std::string& bytes) {
  const files::Directory folder;
  files::write(folder / "x", bytes);
  return files::thrown<FormatError>([&] { (void)load_npz(folder / "x"); });
}
std::string csv_error(const std::string& text, const CsvOptions& options = {}) {
  const files::Directory folder;
  files::write(folder / "x", text);
  return files::thrown<FormatError>([&] { (void)load_csv(folder / "x", options); });
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

/** A .npy file with this header. */
std::string npy(const std::string& header, std::string_view content = {}) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 255) +
         static_cast<char>(header.size() >> 8) + header + std::string(content);
}

}  // namespace

TEST_CASE(".npy files of NumPy are read, and written byte for byte", "[npy]") {
  const files::Directory folder;
  const auto read = [&](const std::string& bytes) {
    files::write(folder / "in.npy", bytes);
    return load_npy(folder / "in.npy");
  };
  const auto written = [&](const Tensor& x) {
    save_npy(folder / "out.npy", x);
    return files::read(folder / "out.npy");
  };
  const Tensor matrix = read(text_of(kNumpyF32));
  CHECK(matrix.shape() == Shape{2, 3});
  CHECK(matrix.to_vector<float>() == std::vector<float>{1.5f, -2, 3, 4, 5, 1e-3f});
  const Tensor cube = read(text_of(kNumpyI64Fortran));
  CHECK(equal(cube, arange(24.0).to(i64).view({2, 3, 4})));
  CHECK(cube.is_contiguous());
  const Tensor flags = read(text_of(kNumpyBool)), number = read(text_of(kNumpyHalf)),
               none = read(text_of(kNumpyU8));
  CHECK(flags.dtype() == boolean);
  CHECK(flags.to_vector<int>() == std::vector<int>{1, 0, 1});
  CHECK(number.dim() == 0);
  CHECK(number.dtype() == f16);
  CHECK(number.item<double>() == 1.5);
  CHECK(none.shape() == Shape{2, 0});
  const Tensor shorts = read(text_of(kNumpyShort)), bytes = read(text_of(kNumpyByte));
  CHECK(shorts.dtype() == i32);
  CHECK(shorts.to_vector<int>() == std::vector<int>{-300, 7});
  CHECK(bytes.to_vector<int>() == std::vector<int>{-3, 7});

  CHECK(written(matrix) == text_of(kNumpyF32));
  CHECK(written(flags) == text_of(kNumpyBool));
  CHECK(written(number) == text_of(kNumpyHalf));
  CHECK(written(none) == text_of(kNumpyU8));
  for (const DType dtype : {f64, i32, i64, u8}) {
    const Tensor x = (arange(12.0).view({3, 4}) * 3).to(dtype).t();  // strided
    const Tensor back = read(written(x));
    CHECK(back.dtype() == dtype);
    CHECK(equal(back, x));
  }
  CHECK_THROWS_WITH_AS_TEXT(
      save_npy(folder / "x", ones({2}).to(bf16)), DtypeError,
      "save_npy: NumPy has no such dtype; got bf16[2]@cpu; cast with x.to(f32)");
  CHECK_THROWS_AS(save_npy(folder / "x", Tensor{}), ValueError);
  CHECK_THROWS_AS(save_npy(folder / "no/x", ones({2})), IoError);
  CHECK_THROWS_AS(load_npy(folder / "missing"), IoError);
}

TEST_CASE("damaged .npy files are refused", "[npy]") {
  const std::string good = text_of(kNumpyF32);
  CHECK(npy_error(good) == "nothing");
  for (std::size_t n = 0; n < good.size(); ++n) CHECK(npy_error(good.substr(0, n)) != "nothing");
  contains(npy_error(good + "x"), "the size does not fit the shape; got 25 bytes of elements");
  contains(npy_error(patched(good, 0, "x")), "not a .npy file");
  contains(npy_error(patched(good, 6, "\4")), "unknown version; got 4");
  contains(npy_error(text_of(kNumpyBigEndian)), "the dtype is not supported; got >f4");
  const std::string tail = "'fortran_order': False, 'shape': (), }";
  CHECK(npy_error(npy("{'descr':'<f4'," + tail, "1234")) == "nothing");
  CHECK(npy_error(npy("{'shape': (1,), \"descr\": \"<f4\", 'fortran_order': True}\n", "1234")) ==
        "nothing");
  contains(npy_error(npy("{'descr': '|O', " + tail)), "got |O");
  contains(npy_error(npy("{'descr': [('a', '<f4')], " + tail)), "records are not supported");
  for (const char* header :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': 1, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (1 2)}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': ()} x",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': True, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (), 'more': ()}",
        "{'descr': '<f4, 'fortran_order': True, 'shape': ()"})
    CHECK(npy_error(npy(header, "1234")) != "nothing");
  const auto of_shape = [](const std::string& shape) {
    return npy_error(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + ")}"));
  };
  contains(of_shape("1,1,1,1,1,1,1,1,1"), "too many dimensions");
  contains(of_shape("4294967296,4294967296"), "the shape is too large");
  contains(of_shape("99999999999999999999999"), "the header is no description");
  contains(of_shape("1000000000000"), "the size does not fit the shape");
}

TEST_CASE(".npz archives of NumPy and of our own are read", "[npy]") {
  const files::Directory folder;
  for (const std::string& bytes : {text_of(kNumpyNpz), text_of(kNumpyNpzCompressed)}) {
    files::write(folder / "in.npz", bytes);
    const NamedTensors both = load_npz(folder / "in.npz");
    REQUIRE(both.size() == 2);
    CHECK(both[0].first == "first");
    CHECK(equal(both[0].second, arange(6.0).to(f32).view({2, 3})));
    CHECK(both[1].first == "second");
    CHECK(both[1].second.dtype() == i64);
    CHECK(both[1].second.to_vector<int>()[599] == 599 % 7);
  }
  const NamedTensors tensors{{"../a", rand({3, 2})}, {"b", arange(4.0).to(i64)}, {"c", ones({0})}};
  save_npz(folder / "out.npz", tensors);
  const NamedTensors back = load_npz(folder / "out.npz");
  REQUIRE(back.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(back[i].first == tensors[i].first);
    CHECK(equal(back[i].second, tensors[i].second));
  }
  save_npz(folder / "none.npz", {});
  CHECK(load_npz(folder / "none.npz").empty());
  CHECK_THROWS_AS(save_npz(folder / "x", {{"a", ones({1})}, {"a", ones({1})}}), ValueError);
  CHECK_THROWS_AS(save_npz(folder / "x", {{"", ones({1})}}), ValueError);
  CHECK_THROWS_AS(save_npz(folder / "x", {{"a", ones({1}).to(bf16)}}), DtypeError);
  CHECK(!std::filesystem::exists(folder / "x"));
}

TEST_CASE("damaged .npz archives are refused", "[npy]") {
  for (const std::string& good : {text_of(kNumpyNpz), text_of(kNumpyNpzCompressed)}) {
    for (std::size_t n = 0; n < good.size(); n += 3)
      CHECK(npz_error(good.substr(0, n)) != "nothing");
    int refused = 0;
    for (std::size_t at = 0; at < good.size(); ++at) {
      const std::string error =
          npz_error(patched(good, at, std::string(1, static_cast<char>(good[at] ^ 0x55))));
      CHECK(error.find("another type") == std::string::npos);
      refused += error != "nothing";
    }
    CHECK(refused > static_cast<int>(good.size() / 2));  // the rest: dates, attributes, hints
  }
  contains(npz_error("no archive"), "not a zip archive");
  const std::string good = text_of(kNumpyNpz);
  const std::size_t element = good.find("\n") + 1;
  contains(npz_error(patched(good, element, "x")), "the checksum or size of \"first.npy\"");
}

TEST_CASE("entries of an .npz archive do not share bytes", "[npy]") {
  const files::Directory folder;
  save_npz(folder / "x", {{"a", zeros({1000})}});
  const std::string good = files::read(folder / "x");
  const std::size_t directory = good.rfind("PK\1\2"), end = good.rfind("PK\5\6");
  const std::string entry = good.substr(directory, end - directory);
  std::string other = entry, tail = good.substr(end);
  other.replace(other.rfind("a.npy"), 1, "b");
  tail[8] = tail[10] = 2;  // entries
  tail[12] = static_cast<char>(2 * entry.size());
  const std::string twice = good.substr(0, directory) + entry + other + tail;
  contains(npz_error(twice), "entries of the archive overlap");
}

TEST_CASE("tables of numbers are read from CSV files", "[csv]") {
  const files::Directory folder;
  files::write(folder / "t.csv", "a,b,c\r\n1, -2.5,1e3\r\n\r\n +4,inf,nan\n");
  const Tensor x = load_csv(folder / "t.csv", {.skip_rows = 1});
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x.dtype() == f32);
  const std::vector<float> v = x.to_vector<float>();
  CHECK(std::vector<float>(v.begin(), v.begin() + 5) ==
        std::vector<float>{1, -2.5f, 1000, 4, INFINITY});
  CHECK(std::isnan(v[5]));
  files::write(folder / "t.csv", "0.1;2\n3;4");
  const Tensor wide = load_csv(folder / "t.csv", {.delimiter = ';', .dtype = f64});
  CHECK(wide.to_vector<double>() == std::vector<double>{0.1, 2, 3, 4});
  files::write(folder / "t.csv", "7 \n8\n");
  CHECK(load_csv(folder / "t.csv").shape() == Shape{2, 1});

  contains(csv_error("1,2\n3\n"),
           "line 2 has another length than the first; got 1 numbers, "
           "expected 2");
  contains(csv_error("a,b\n1,2\n"),
           "line 1, column 1: not a number; got \"a\"; skip_rows leaves out lines of names");
  contains(csv_error("1,2\n1,2x\n"), "line 2, column 2: not a number; got \"2x\"");
  contains(csv_error("1,\n"), "line 1, column 2: not a number");
  contains(csv_error("1e999\n"), "the number is out of range");
  contains(csv_error("+-1\n"), "not a number");
  contains(csv_error(""), "no numbers in the file");
  contains(csv_error("1,2\n", {.skip_rows = 5}), "no numbers in the file");
  contains(csv_error(std::string("1\0002\n", 4)), "not a number");
  CHECK_THROWS_AS(load_csv(folder / "t.csv", {.dtype = i64}), DtypeError);
  CHECK_THROWS_AS(load_csv(folder / "t.csv", {.skip_rows = -1}), ValueError);
  CHECK_THROWS_AS(load_csv(folder / "missing.csv"), IoError);
}
