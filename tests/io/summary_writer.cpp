// Event files, read back by a parser of records and protocol buffers that shares nothing with the
// writer. ../checks/event_files.py reads them with TensorBoard's own reader where that is
// installed.
#include <mezzo.h>
#include <mezzo_features.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "../support/catch.h"
#include "../support/throws.h"
#include "files.h"

using namespace mezzo;

namespace {

/** CRC-32C bit by bit. */
std::uint32_t crc(std::string_view bytes) {
  std::uint32_t sum = ~0u;
  for (const char c : bytes) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0x82F63B78u : 0);
  }
  return ~sum;
}

template <class T> T number(std::string_view bytes) {
  T value;
  REQUIRE(bytes.size() >= sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::uint32_t masked(std::uint32_t sum) { return (sum >> 15 | sum << 17) + 0xa282ead8u; }

/** Returns the contents of the records, whose checksums are right. */
std::vector<std::string> records(std::string_view file) {
  std::vector<std::string> out;
  while (!file.empty()) {
    const auto size = number<std::uint64_t>(file);
    REQUIRE(number<std::uint32_t>(file.substr(8)) == masked(crc(file.substr(0, 8))));
    REQUIRE(file.size() >= size + 16);
    out.emplace_back(file.substr(12, size));
    REQUIRE(number<std::uint32_t>(file.substr(12 + size)) == masked(crc(out.back())));
    file.remove_prefix(size + 16);
  }
  return out;
}

/** The fields of a message by number; numbers are kept as their bytes. */
using Message = std::map<std::uint64_t, std::string>;

std::uint64_t varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    REQUIRE(!bytes.empty());
    const auto byte = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 127u} << shift;
    if (byte < 128) return value;
  }
}

Message message(std::string_view bytes) {
  Message out;
  while (!bytes.empty()) {
    const std::uint64_t key = varint(bytes);
    std::size_t size = (key & 7) == 1 ? 8 : 4;
    if ((key & 7) == 0) {
      const std::uint64_t value = varint(bytes);
      out[key >> 3] = std::string(reinterpret_cast<const char*>(&value), sizeof value);
      continue;
    }
    if ((key & 7) == 2) size = varint(bytes);
    REQUIRE(bytes.size() >= size);
    out[key >> 3] = std::string(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return out;
}

std::vector<double> doubles(const std::string& bytes) {
  std::vector<double> out;
  for (std::size_t i = 0; i < bytes.size(); i += 8)
    out.push_back(number<double>(std::string_view(bytes).substr(i)));
  return out;
}

/** The value of an event. */
Message value_of(const Message& event) { return message(message(event.at(5)).at(1)); }

}  // namespace

TEST_CASE("scalars, histograms and images are records of TensorBoard") {
  const files::Directory folder;
  std::string path;
  {
    SummaryWriter writer(folder / "runs/first");
    path = writer.path();
    writer.add_scalar("loss/training", 0.1, 7);
    writer.add_histogram("weights", tensor({-2.0, 0.0, 0.5, 0.5, 1e-20, INFINITY}).to(f16), 300);
    writer.add_histogram_raw("raw", 1, 4, 9, 21, std::vector{2.0, 4.0}, std::vector{1.0, 2.0}, 8);
    writer.add_scalar("nan, \"quoted\"", std::numeric_limits<double>::quiet_NaN(), -1);
#if MZ_HAS_PNG
    writer.add_image("digit", tensor({{{0.0, 1.0, 0.5}, {2.0, -1.0, 0.25}}}), 9);
#endif
  }
  CHECK(path.find("/runs/first/events.out.tfevents.") != std::string::npos);
  const std::vector<std::string> all = records(files::read(path));
  CHECK(message(all[0]).at(3) == "brain.Event:2");
  const double wall_time = number<double>(message(all[0]).at(1));
  CHECK(wall_time > 1.7e9);

  const Message scalar = message(all[1]);
  CHECK(number<double>(scalar.at(1)) >= wall_time);
  CHECK(number<std::int64_t>(scalar.at(2)) == 7);
  CHECK(value_of(scalar).at(1) == "loss/training");
  CHECK(number<float>(value_of(scalar).at(2)) == 0.1f);

  const Message histogram = message(value_of(message(all[2])).at(5));
  CHECK(number<std::int64_t>(message(all[2]).at(2)) == 300);
  CHECK(number<double>(histogram.at(1)) == -2);
  CHECK(number<double>(histogram.at(2)) == 0.5);
  CHECK(number<double>(histogram.at(3)) == 5);  // without infinity
  CHECK(number<double>(histogram.at(4)) == -1);
  CHECK(number<double>(histogram.at(5)) == 4.5);
  const std::vector<double> limits = doubles(histogram.at(6)), counts = doubles(histogram.at(7));
  REQUIRE(limits.size() == counts.size());
  for (std::size_t i = 1; i < limits.size(); ++i) {
    REQUIRE(limits[i - 1] < limits[i]);
    const double here = (limits[i - 1] <= -2 && -2 < limits[i] ? 1 : 0) +
                        (limits[i - 1] <= 0 && 0 < limits[i] ? 2 : 0) +
                        (limits[i - 1] <= 0.5 && 0.5 < limits[i] ? 2 : 0);
    CHECK(counts[i] == here);
  }
  CHECK(counts[0] == 0);  // its limit is the lower end of the next

  const Message raw = message(value_of(message(all[3])).at(5));
  CHECK(doubles(raw.at(6)) == std::vector<double>{2, 4});
  CHECK(doubles(raw.at(7)) == std::vector<double>{1, 2});
  CHECK(number<double>(raw.at(3)) == 3);
  CHECK(std::isnan(number<float>(value_of(message(all[4])).at(2))));
  CHECK(number<std::int64_t>(message(all[4]).at(2)) == -1);
#if MZ_HAS_PNG
  const Message image = message(value_of(message(all[5])).at(4));
  CHECK(number<std::int64_t>(image.at(1)) == 2);
  CHECK(number<std::int64_t>(image.at(2)) == 3);
  CHECK(number<std::int64_t>(image.at(3)) == 3);
  files::write(folder / "image.png", image.at(4));
  CHECK(load_image(folder / "image.png")[1].to_vector<int>() ==
        std::vector<int>{0, 255, 128, 255, 0, 64});
#endif
}

TEST_CASE("scalars are appended to a CSV with all their digits") {
  const files::Directory folder;
  for (int run = 0; run < 2; ++run) {
    SummaryWriter writer(folder.path());
    writer.add_scalar("a, \"b\"", 0.1 + run, 3);
    writer.add_scalar("nan", std::numeric_limits<double>::quiet_NaN(), 4);
  }
  const CsvTable table = read_csv(folder / "scalars.csv");
  CHECK(table.names() == std::vector<std::string>{"wall_time", "step", "tag", "value"});
  CHECK(table.text("tag") == std::vector<std::string>{"a, \"b\"", "nan", "a, \"b\"", "nan"});
  const Tensor values = table.numbers({"value", "step"}, {.dtype = f64});
  CHECK(values[{0, 0}].item() == 0.1);
  CHECK(values[{2, 0}].item() == 1.1);
  CHECK(std::isnan(values[{1, 0}].item()));
  CHECK(values[{3, 1}].item() == 4);
  CHECK(folder.count() == 3);  // each writer has an event file of its own
}

TEST_CASE("a writer refuses what it cannot write") {
  const files::Directory folder;
  files::write(folder / "file", "x");
  CHECK_THROWS_WITH_AS_TEXT(SummaryWriter(folder / "file/runs"), IoError, "file/runs");
  SummaryWriter writer(folder / "runs");
  CHECK_THROWS_WITH_AS_TEXT(writer.add_scalar("", 1, 0), ValueError, "a tag is empty");
  CHECK_THROWS_WITH_AS_TEXT(writer.add_histogram("x", full({2}, NAN), 0), ValueError,
                            "no finite numbers");
  CHECK_THROWS_WITH_AS_TEXT(writer.add_histogram_raw("x", 0, 0, 0, 0, {}, {}, 0), ValueError,
                            "a limit for each count");
  CHECK_THROWS_AS(writer.add_image("x", ones({2, 3, 3}), 0), ShapeError);
  CHECK_THROWS_AS(writer.add_image("x", ones({3, 3, 3}, i64), 0), DtypeError);
  writer.close();
  writer.close();
  CHECK_THROWS_WITH_AS_TEXT(writer.add_scalar("x", 1, 0), StateError, "closed");
}
