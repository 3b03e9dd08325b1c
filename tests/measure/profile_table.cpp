// Profiler::table(): columns, order, number of rows.
#include <sstream>

#include "../support/catch.h"
#include "profiled_net.h"

using namespace mezzo;
using namespace mezzo::testing;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/** Returns the position of the line that begins with `start`; fails if there is none. */
std::size_t place_of(const std::vector<std::string>& lines, const std::string& start) {
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (lines[i].starts_with(start)) return i;
  throw ValueError("no line begins with " + start);
}

struct Profiled {
  Profiled() {
    Training training;
    Profiler recording({.device = cpu});
    for (int i = 0; i < 2; ++i) training.step();
    recording.stop();
    rows = recording.rows();
    table = recording.table();
    short_table = recording.table({.rows = 3});
    by_calls = recording.table({.sort_by = ProfileSort::calls});
    by_module = recording.table({.group_by = ProfileGroup::module});
    by_both = recording.table({.group_by = ProfileGroup::op_and_module});
    const Roof roof{.f32_flops_per_s = 1e12, .memory_bytes_per_s = 1e10};
    with_roof = recording.table({.roof = &roof});
    floors = recording.rows(ProfileGroup::op, &roof);
  }
  std::vector<ProfileRow> rows, floors;
  std::string table, short_table, by_calls, by_module, by_both, with_roof;
};

}  // namespace

TEST_CASE("a table has a line for each row, the time outside, the sum and the shares",
          "[measure][profiler]") {
  const Profiled profiled;
  const std::vector<std::string> lines = lines_of(profiled.table);
  CHECK(lines.size() == profiled.rows.size() + 3);
  CHECK(lines[0].starts_with("op "));
  CHECK(lines[lines.size() - 3].starts_with("outside ops"));
  CHECK(lines[lines.size() - 2].starts_with("sum"));
  CHECK(lines.back().starts_with("host time: ops "));
  CHECK(lines[0].find("roof %") == std::string::npos);
  CHECK(lines[0].find("device") == std::string::npos);
  CHECK(place_of(lines, "linear ") > 0);
  CHECK(place_of(lines, "linear backward ") > 0);
}

TEST_CASE("rows beyond the limit are one row, and the sum stays", "[measure][profiler]") {
  const Profiled profiled;
  const std::vector<std::string> lines = lines_of(profiled.short_table);
  REQUIRE(lines.size() == 1 + 3 + 1 + 1 + 1 + 1);
  CHECK(lines[4].starts_with(str(profiled.rows.size() - 1 - 3, " other rows")));
  CHECK(lines[5].starts_with("outside ops"));
  CHECK(lines.back() == lines_of(profiled.table).back());
}

TEST_CASE("tables sort and group as asked", "[measure][profiler]") {
  const Profiled profiled;
  const std::vector<std::string> by_calls = lines_of(profiled.by_calls);
  CHECK(place_of(by_calls, "linear ") < place_of(by_calls, "zero_grad"));
  const std::vector<std::string> by_module = lines_of(profiled.by_module);
  CHECK(by_module[0].starts_with("module "));
  CHECK(place_of(by_module, "block.fc1") > 0);
  CHECK(place_of(by_module, "(none)") > 0);
  CHECK(lines_of(profiled.by_both)[0].find("  op ") != std::string::npos);
}

TEST_CASE("the share of the roof is the least time by the time taken", "[measure][profiler]") {
  const Profiled profiled;
  CHECK(lines_of(profiled.with_roof)[0].find("roof %") != std::string::npos);
  const ProfileRow linear = row_of(profiled.floors, "linear");
  // two calls of two layers; each is limited by memory
  CHECK(linear.floor_s > 0);
  CHECK(linear.floor_s <= linear.bytes / 1e10 + linear.flops / 1e12);
  CHECK(row_of(profiled.rows, "linear").floor_s == 0);
}
