#include "summary_writer.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "../core/error.h"
#include "../text/log.h"
#include "../text/text.h"
#include "crc32c.h"
#include "image.h"

namespace mezzo {

namespace {

constexpr const char* kOp = "SummaryWriter";

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Messages of protocol buffers: fields with a number and a type. Source: the definitions of Event
// and Summary in TensorBoard.
enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  return out += static_cast<char>(value);
}

std::string little_endian(std::uint64_t bits, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(bits >> (8 * i));
  return out;
}

std::string key(std::uint64_t field, Wire wire) { return varint(field << 3 | wire); }
std::string field(std::uint64_t number, std::string_view bytes) {
  return key(number, kBytes) + varint(bytes.size()) + std::string(bytes);
}
std::string field(std::uint64_t number, std::int64_t value) {
  return key(number, kVarint) + varint(static_cast<std::uint64_t>(value));
}
std::string double_field(std::uint64_t number, double value) {
  return key(number, kFixed64) + little_endian(std::bit_cast<std::uint64_t>(value), 8);
}
std::string float_field(std::uint64_t number, float value) {
  return key(number, kFixed32) + little_endian(std::bit_cast<std::uint32_t>(value), 4);
}
std::string packed_field(std::uint64_t number, std::span<const double> values) {
  std::string content;
  for (const double value : values)
    content += little_endian(std::bit_cast<std::uint64_t>(value), 8);
  return field(number, content);
}

/** Returns a record of an event file: length, content, and a masked checksum of each. */
std::string record(std::string_view content) {
  const auto masked = [](std::string_view bytes) {
    const std::uint32_t sum = io::crc32c(std::as_bytes(std::span(bytes)));
    return little_endian(std::rotr(sum, 15) + 0xa282ead8u, 4);
  };
  const std::string length = little_endian(content.size(), 8);
  return length + masked(length) + std::string(content) + masked(content);
}

/** Returns a field of CSV, quoted if it has to be. */
std::string csv_text(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

/** Upper ends of the buckets of add_histogram(). */
std::vector<double> bucket_limits() {
  std::vector<double> positive;
  for (double v = 1e-12; v < 1e20; v *= 1.1) positive.push_back(v);
  std::vector<double> out;
  for (auto v = positive.rbegin(); v != positive.rend(); ++v) out.push_back(-*v);
  out.push_back(0);
  out.insert(out.end(), positive.begin(), positive.end());
  return out;
}

}  // namespace

/** Both files. */
struct SummaryWriter::Files {
  void write(std::ofstream& file, const std::string& name, std::string_view bytes) {
    file << bytes << std::flush;
    if (!file)
      fail<IoError>(str(kOp, "(", name, ")"),
                    {.what = "the file cannot be written", .got = std::strerror(errno)});
  }
  void write_event(std::string_view content) {
    write(events, path, record(double_field(1, wall_time()) + std::string(content)));
  }

  std::string path, csv_path;
  std::ofstream events, csv;
  bool closed = false;
};

SummaryWriter::SummaryWriter(const std::string& log_dir) : files_(new Files) {
  std::error_code error;
  std::filesystem::create_directories(log_dir, error);
  if (error)
    fail<IoError>(str(kOp, "(", log_dir, ")"),
                  {.what = "cannot create the directory", .got = error.message()});
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  const std::string start = str(log_dir, "/events.out.tfevents.",
                                static_cast<std::int64_t>(wall_time()), ".", host, ".", ::getpid());
  for (int i = 0; files_->path.empty() || std::filesystem::exists(files_->path); ++i)
    files_->path = str(start, ".", i);
  files_->csv_path = log_dir + "/scalars.csv";
  const bool is_new = !std::filesystem::exists(files_->csv_path, error);
  files_->events.open(files_->path, std::ios::binary);
  files_->write_event(field(3, "brain.Event:2"));
  files_->csv.open(files_->csv_path, std::ios::binary | std::ios::app);
  files_->write(files_->csv, files_->csv_path, is_new ? "wall_time,step,tag,value\n" : "");
}

SummaryWriter::~SummaryWriter() {
  try {
    close();
  } catch (const std::exception& e) {
    log_text(Severity::error, e.what());
  }
}

const std::string& SummaryWriter::path() const { return files_->path; }

void SummaryWriter::add(std::string_view tag, std::string_view value, std::int64_t step) {
  if (files_->closed) fail<StateError>(kOp, {.what = "the files are closed"});
  if (tag.empty()) fail<ValueError>(kOp, {.what = "a tag is empty", .expected = "a name"});
  files_->write_event(field(2, step) + field(5, field(1, field(1, tag) + std::string(value))));
}

void SummaryWriter::add_scalar(std::string_view tag, double value, std::int64_t step) {
  add(tag, float_field(2, static_cast<float>(value)), step);
  char line[96];
  std::snprintf(line, sizeof line, "%.6f,%lld,", wall_time(), static_cast<long long>(step));
  char number[40];
  std::snprintf(number, sizeof number, ",%.17g\n", value);
  files_->write(files_->csv, files_->csv_path, line + csv_text(tag) + number);
}

void SummaryWriter::add_histogram(std::string_view tag, const Tensor& values, std::int64_t step) {
  std::vector<double> numbers = values.detach().to_vector<double>();
  std::erase_if(numbers, [](double x) { return !std::isfinite(x); });
  if (numbers.empty())
    fail<ValueError>(kOp, {.what = "a histogram of no finite numbers", .got = str(values)});
  const std::vector<double> limits = bucket_limits();
  std::vector<double> counts(limits.size() + 1);
  double sum = 0, squares = 0;
  for (const double x : numbers) {
    ++counts[static_cast<std::size_t>(std::upper_bound(limits.begin(), limits.end(), x) -
                                      limits.begin())];
    sum += x;
    squares += x * x;
  }
  // Empty buckets at both ends are left out, but for one before the first, which is its lower end.
  std::size_t first = 0, last = counts.size();
  while (counts[first] == 0) ++first;
  while (counts[last - 1] == 0) --last;
  if (first > 0) --first;
  std::vector<double> ends(
      limits.begin() + static_cast<std::ptrdiff_t>(first),
      limits.begin() + static_cast<std::ptrdiff_t>(std::min(last, limits.size())));
  const auto [least, largest] = std::minmax_element(numbers.begin(), numbers.end());
  if (ends.size() < last - first) ends.push_back(std::max(*largest, limits.back()));
  add_histogram_raw(tag, *least, *largest, sum, squares, ends,
                    std::span(counts).subspan(first, last - first), step);
}

void SummaryWriter::add_histogram_raw(std::string_view tag, double min, double max, double sum,
                                      double sum_squares, std::span<const double> limits,
                                      std::span<const double> counts, std::int64_t step) {
  if (limits.empty() || limits.size() != counts.size())
    fail<ValueError>(kOp, {.what = "a histogram needs a limit for each count",
                           .got = str(limits.size(), " limits and ", counts.size(), " counts")});
  double number = 0;
  for (const double count : counts) number += count;
  add(tag,
      field(5, double_field(1, min) + double_field(2, max) + double_field(3, number) +
                   double_field(4, sum) + double_field(5, sum_squares) + packed_field(6, limits) +
                   packed_field(7, counts)),
      step);
}

void SummaryWriter::add_image(std::string_view tag, const Tensor& image, std::int64_t step) {
  const std::string png = io::png_bytes("SummaryWriter::add_image", image);
  const int rank = image.dim();
  add(tag,
      field(4, field(1, image.size(rank - 2)) + field(2, image.size(rank - 1)) +
                   field(3, std::int64_t{3}) + field(4, png)),
      step);
}

void SummaryWriter::close() {
  if (std::exchange(files_->closed, true)) return;
  files_->events.close();
  files_->csv.close();
  if (!files_->events || !files_->csv)
    fail<IoError>(str(kOp, "(", files_->path, ")"), {.what = "the files cannot be closed"});
}

}  // namespace mezzo
