// Profiler::chrome_trace() and stacks(): the files that other tools read.
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "../support/catch.h"
#include "../support/throws.h"
#include "profiled_net.h"

using namespace mezzo;
using namespace mezzo::testing;
using nlohmann::json;

namespace {

/** A file that is removed at the end of the scope. */
struct File {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               str("mezzo_profile_", reinterpret_cast<std::uintptr_t>(this));
  ~File() { std::filesystem::remove(path); }
  std::string read() const {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
};

std::unique_ptr<Profiler> profile_of_step(const std::string& level = "O2") {
  Training training(level);
  training.step();
  auto profile = std::make_unique<Profiler>(ProfilerOptions{.device = test_device()});
  training.step();
  profile->stop();
  return profile;
}

json trace_of(const Profiler& profile) {
  const File file;
  profile.chrome_trace(file.path.string());
  return json::parse(file.read());
}

/** Checks the fields that the Trace Event Format requires of every event, by its phase. */
void check_fields(const json& event) {
  INFO(event.dump());
  REQUIRE(event.at("ph").is_string());
  REQUIRE(event.at("name").is_string());
  REQUIRE(event.at("pid").is_number_integer());
  REQUIRE(event.at("tid").is_number_integer());
  REQUIRE(event.at("ts").is_number());
  CHECK(event["ts"].get<double>() >= 0);
  REQUIRE(event.at("args").is_object());
  const std::string phase = event["ph"];
  CHECK(std::set<std::string>{"X", "C", "M"}.count(phase) == 1);
  if (phase == "X") {
    REQUIRE(event.at("dur").is_number());
    CHECK(event["dur"].get<double>() >= 0);
    REQUIRE(event.at("cat").is_string());
    REQUIRE(event["args"].at("module").is_string());
  }
  if (phase == "C")
    for (const auto& [category, bytes] : event["args"].items()) CHECK(bytes.is_number_integer());
  if (phase == "M") REQUIRE(event["args"].at("name").is_string());
}

/** Checks that the events of a row begin in order and that each ends within the one around it. */
void check_nesting(const std::vector<json>& row) {
  std::vector<double> ends;
  double before = 0;
  for (const json& event : row) {
    const double begin = event["ts"], end = begin + event["dur"].get<double>();
    CHECK(begin >= before);
    before = begin;
    while (!ends.empty() && ends.back() <= begin) ends.pop_back();
    if (!ends.empty()) CHECK(end <= ends.back() + 1e-6);  // sums of decimals are rounded
    ends.push_back(end);
  }
}

}  // namespace

TEST_CASE("a Chrome trace has the fields and the nesting that its format requires",
          "[measure][profiler][device]") {
  const auto profile = profile_of_step();
  const json trace = trace_of(*profile);
  REQUIRE(trace.at("traceEvents").is_array());
  std::map<int, std::vector<json>> rows;
  for (const json& event : trace["traceEvents"]) {
    check_fields(event);
    if (event["ph"] == "X") rows[event["tid"]].push_back(event);
  }
  CHECK(rows.size() == (test_device() == cpu ? 2 : 3));  // ops, modules, device
  for (const auto& [tid, row] : rows)
    if (tid != 3) check_nesting(row);  // times of a device are measured one by one
  std::int64_t calls = 0;
  for (const ProfileRow& row : profile->rows()) calls += row.calls;
  CHECK(static_cast<std::int64_t>(rows[1].size()) == calls);
}

TEST_CASE("a Chrome trace tells dtypes, shapes, work and module of an op", "[measure][profiler]") {
  const json trace = trace_of(*profile_of_step("O0"));
  bool found = false, found_rule = false, found_module = false;
  for (const json& event : trace["traceEvents"]) {
    const json& args = event["args"];
    if (event["ph"] != "X" || args["module"] != "head") continue;
    if (event["name"] == "linear" && event["cat"] == "forward") {
      found = true;
      CHECK(args["inputs"] == json({"f32[16,4]", "f32[3,4]", "f32[3]"}));
      CHECK(args["outputs"] == json({"f32[16,3]"}));
      CHECK(args["flops"] == 2 * 16 * 4 * 3);
      CHECK(args["bytes"] == 4 * (16 * 4 + 3 * 4 + 3 + 16 * 3));
      CHECK(args["allocated"] >= 4 * 16 * 3);  // with workspace
    }
    if (event["name"] == "linear backward") {
      found_rule = true;
      CHECK(args["output gradients"] == json({"f32[16,3]"}));
      CHECK(args["input gradients"] == json({"f32[16,4]", "f32[3,4]", "f32[3]"}));
    }
    if (event["tid"] == 2) found_module = true;
  }
  CHECK((found && found_rule && found_module));
}

TEST_CASE("counters of a Chrome trace are the memory timeline", "[measure][profiler][device]") {
  const auto profile = profile_of_step();
  std::size_t counters = 0;
  const json trace = trace_of(*profile);
  const std::string name = str("memory of ", test_device());
  json last;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "C") continue;
    ++counters;
    if (event["name"] == name) last = event["args"];
  }
  const std::vector<MemorySample> timeline = profile->memory_timeline();
  CHECK(counters == timeline.size());
  for (auto sample = timeline.rbegin(); sample != timeline.rend(); ++sample) {
    if (sample->device != test_device()) continue;
    const auto masters = static_cast<std::size_t>(MemoryCategory::masters);
    CHECK(last.at("masters") == sample->current[masters]);
    break;
  }
}

TEST_CASE("names with special characters stay valid JSON", "[measure][profiler]") {
  Profiler profile({.device = cpu});
  { const TraceRange range("a \"quote\", a \\ and a\nline; done"); }
  { const TraceRange range("no \xFF UTF-8"); }
  profile.stop();
  const json trace = trace_of(profile);
  for (const std::string name : {"a \"quote\", a \\ and a\nline; done", "no ? UTF-8"}) {
    bool found = false;
    for (const json& event : trace["traceEvents"]) found = found || event["name"] == name;
    CHECK(found);
  }
  const File file;
  profile.stacks(file.path.string());
  CHECK(file.read().find("a \"quote\", a \\ and a line, done ") != std::string::npos);
}

TEST_CASE("stacks are lines of frames and nanoseconds that add up to the scope",
          "[measure][profiler]") {
  const auto profile = profile_of_step("O0");
  const File file;
  profile->stacks(file.path.string());
  std::map<std::string, double> stacks;
  std::istringstream text(file.read());
  for (std::string line; std::getline(text, line);) {
    const std::size_t space = line.rfind(' ');
    REQUIRE(space != std::string::npos);
    REQUIRE(line.find_first_not_of("0123456789", space + 1) == std::string::npos);
    CHECK(stacks.emplace(line.substr(0, space), std::stod(line.substr(space + 1))).second);
  }
  double sum = 0;
  for (const auto& [stack, nanoseconds] : stacks) sum += nanoseconds;
  CHECK(sum * 1e-9 == Approx(profile->seconds()).epsilon(1e-9));
  CHECK(stacks.count("forward;block;fc1;linear") == 1);
  CHECK(stacks.count("forward;block;relu") == 1);
  CHECK(stacks.count("backward;block;fc1;linear backward") == 1);
  CHECK(stacks.count("Adam.step") == 1);
  CHECK(stacks.count("outside ops") == 1);
}

TEST_CASE("a file that cannot be written is an error with its path", "[measure][profiler]") {
  const Profiler profile({.device = cpu});
  CHECK_THROWS_WITH_AS_TEXT(profile.chrome_trace("/no/such/folder/trace.json"), IoError,
                            "/no/such/folder/trace.json");
  CHECK_THROWS_WITH_AS_TEXT(profile.stacks("/no/such/folder/stacks.txt"), IoError,
                            "/no/such/folder/stacks.txt");
}
