// Profiler: rows of ops, rules, ranges and modules, and what they add up to.
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "../support/catch.h"
#include "../support/throws.h"
#include "profiled_net.h"

using namespace mezzo;
using namespace mezzo::testing;

namespace {

constexpr ProfileGroup kGroups[] = {ProfileGroup::op, ProfileGroup::module,
                                    ProfileGroup::op_and_module};

/** Returns the profile of some steps, stopped. */
std::unique_ptr<Profiler> profile_of(Training& training, int steps,
                                     const ProfilerOptions& options = {.device = test_device()}) {
  auto profile = std::make_unique<Profiler>(options);
  for (int i = 0; i < steps; ++i) training.step();
  profile->stop();
  return profile;
}

/** Captures the log instead of printing it. */
struct Quiet {
  std::string text;
  LogSink former =
      set_log_sink([this](Severity, std::string_view line) { text += std::string(line) + "\n"; });
  ~Quiet() { set_log_sink(std::move(former)); }
};

}  // namespace

TEST_CASE("self times of all rows and the time outside add up to the time of the scope",
          "[measure][profiler][device]") {
  for (const char* level : {"O0", "O2"}) {
    Training training(level);
    const auto profile = profile_of(training, 3);
    for (const ProfileGroup group : kGroups) {
      const std::vector<ProfileRow> rows = profile->rows(group);
      CHECK(sum_over(rows, &ProfileRow::self_s) == Approx(profile->seconds()).epsilon(1e-9));
      for (const ProfileRow& row : rows) {
        CHECK(row.self_s >= 0);
        CHECK(row.total_s >= row.self_s * (1 - 1e-9));
      }
      CHECK(row_of(rows, "outside ops").kind == ProfileKind::outside);
    }
  }
}

TEST_CASE("a profile that is still running reports what has been recorded so far",
          "[measure][profiler]") {
  Training training;
  const Profiler profile({.device = cpu});
  training.step();
  const std::int64_t before = row_of(profile.rows(), "zero_grad").calls;
  const TraceRange range("a range that is open");
  const std::vector<ProfileRow> rows = profile.rows();
  CHECK(row_of(rows, "a range that is open").self_s > 0);
  training.step();
  CHECK(row_of(profile.rows(), "zero_grad").calls == before + 1);
  CHECK(sum_over(rows, &ProfileRow::self_s) < profile.seconds());
}

TEST_CASE("stop() ends recording, and a second stop() changes nothing", "[measure][profiler]") {
  Training training;
  Profiler profile({.device = cpu});
  training.step();
  profile.stop();
  const double seconds = profile.seconds();
  const std::string table = profile.table();
  training.step();
  profile.stop();
  CHECK(profile.seconds() == seconds);
  CHECK(profile.table() == table);
  CHECK(thread_hooks().trace == nullptr);
}

TEST_CASE("calls, products and bytes of a net are those of its formulas",
          "[measure][profiler][device]") {
  Training training;
  training.step();  // creates optimizer state
  const auto profile = profile_of(training, 2);
  const std::vector<ProfileRow> rows = profile->rows(ProfileGroup::op_and_module);
  const ProfileRow head = row_of(rows, "linear", "head");
  CHECK(head.calls == 2);
  CHECK(head.flops == 2 * 2 * 16 * 4 * 3);
  CHECK(head.bytes == 2 * 4 * (16 * 4 + 3 * 4 + 3 + 16 * 3));
  CHECK(head.kind == ProfileKind::op);
  CHECK(head.name() == "head.linear");
  double forward = 0, backward = 0;
  for (const ProfileRow& row : rows) (row.backward ? backward : forward) += row.flops;
  CHECK(forward == 2 * 2 * 16 * (8 * 4 + 4 * 3));
  // the gradients of both weights, and that of the head's input
  CHECK(backward == 2 * 2 * 16 * (8 * 4 + 4 * 3 + 4 * 3));
}

TEST_CASE("forward and backward passes have rows of their own", "[measure][profiler][device]") {
  Training training;
  const auto profile = profile_of(training, 1);
  const std::vector<ProfileRow> rows = profile->rows();
  CHECK(row_of(rows, "linear").calls == 2);
  const ProfileRow rule = row_of(rows, "linear backward", {}, true);
  CHECK(rule.kind == ProfileKind::rule);
  CHECK(rule.calls == 2);
  CHECK(rule.total_s > rule.self_s);  // the rule calls ops
  const ProfileRow pass = row_of(rows, "backward", {}, true);
  CHECK(pass.kind == ProfileKind::range);
  CHECK(pass.total_s >= rule.total_s);
  for (const ProfileRow& row : rows)
    if (row.kind == ProfileKind::rule) CHECK(row.backward);
  CHECK(row_of(rows, "Adam.step").total_s > 0);
  CHECK(row_of(rows, "zero_grad").calls == 1);
  CHECK(row_of(rows, "amp::scale_loss").calls == 2);  // opening and closing the scope
}

TEST_CASE("rows of modules contain their submodules", "[measure][profiler]") {
  Training training;
  const auto profile = profile_of(training, 2);
  const std::vector<ProfileRow> rows = profile->rows(ProfileGroup::module);
  for (const bool backward : {false, true}) {
    const ProfileRow block = row_of(rows, "", "block", backward);
    const ProfileRow fc1 = row_of(rows, "", "block.fc1", backward);
    CHECK(block.kind == ProfileKind::module);
    CHECK(block.self_s > 0);  // relu
    CHECK(block.total_s == Approx(block.self_s + fc1.total_s));
    CHECK(fc1.total_s == Approx(fc1.self_s));
    CHECK(row_of(rows, "", "head", backward).self_s > 0);
  }
}

TEST_CASE("a module without ops of its own has a row", "[measure][profiler]") {
  struct Outer : nn::Model<Outer> {
    Block inner = add("inner", Block{});
    Tensor forward(const Tensor& x) const { return inner(x); }
  };
  struct Root : nn::Model<Root> {
    Outer outer = add("outer", Outer{});
    Tensor forward(const Tensor& x) const { return outer(x); }
  };
  const Root net;
  Profiler profile({.device = cpu});
  net(rand({2, 8}));
  profile.stop();
  const ProfileRow outer = row_of(profile.rows(ProfileGroup::module), "", "outer");
  CHECK(outer.calls == 0);
  CHECK(outer.self_s == 0);
  CHECK(outer.total_s ==
        Approx(row_of(profile.rows(ProfileGroup::module), "", "outer.inner").total_s));
}

TEST_CASE("an op that throws is recorded, and events around it stay paired",
          "[measure][profiler][device]") {
  Profiler profile({.device = test_device()});
  {
    const TraceRange range("outer");
    CHECK_THROWS_AS(matmul(ones({2, 3}), ones({2, 3})), ShapeError);
    CHECK_THROWS_AS(add_(ones({2}), ones({3})), ShapeError);
  }
  add(ones({2}), ones({2}));
  profile.stop();
  const std::vector<ProfileRow> rows = profile.rows();
  CHECK(row_of(rows, "matmul").calls == 1);
  CHECK(row_of(rows, "matmul").flops == 0);
  CHECK(row_of(rows, "add").calls == 2);
  CHECK(row_of(rows, "outer").total_s >= row_of(rows, "matmul").total_s);
  CHECK(sum_over(rows, &ProfileRow::self_s) == Approx(profile.seconds()).epsilon(1e-9));
}

TEST_CASE("time of nested ops is part of the total of a composite, not of its own",
          "[measure][profiler]") {
  const Tensor x = rand({64, 64}), y = rand({64, 64});
  Profiler profile({.device = cpu});
  cosine_similarity(x, y);
  profile.stop();
  const std::vector<ProfileRow> rows = profile.rows();
  const ProfileRow composite = row_of(rows, "cosine_similarity");
  double nested = 0;
  for (const ProfileRow& row : rows)
    if (row.op != "cosine_similarity" && row.kind == ProfileKind::op) nested += row.self_s;
  CHECK(nested > 0);
  CHECK(composite.total_s == Approx(composite.self_s + nested));
  CHECK(composite.flops == 0);
}

TEST_CASE("ranges that were opened before the profiler are none of its events",
          "[measure][profiler]") {
  auto range = std::make_unique<TraceRange>("early");
  Profiler profile({.device = cpu});
  add(ones({2}), ones({2}));
  range.reset();
  const TraceRange own("own");
  profile.stop();
  CHECK_THROWS_AS(row_of(profile.rows(), "early"), ValueError);
  CHECK(row_of(profile.rows(), "own").calls == 1);
}

TEST_CASE("profilers nest, and one that is stopped too early is reported", "[measure][profiler]") {
  Profiler outer({.device = cpu});
  add(ones({2}), ones({2}));
  {
    Profiler inner({.device = cpu});
    add(ones({2}), ones({2}));
    inner.stop();
    add(ones({2}), ones({2}));
    CHECK(row_of(inner.rows(), "add").calls == 1);
  }
  CHECK(row_of(outer.rows(), "add").calls == 3);
  const Quiet quiet;
  auto first = std::make_unique<Profiler>(ProfilerOptions{.device = cpu});
  Profiler second({.device = cpu});
  first.reset();
  CHECK(quiet.text.find("reverse order") != std::string::npos);
  add(ones({2}), ones({2}));
  CHECK(row_of(second.rows(), "add").calls == 1);
  CHECK(row_of(outer.rows(), "add").calls == 4);
  second.stop();
  outer.stop();
}

TEST_CASE("ops of other threads are not seen", "[measure][profiler]") {
  Profiler profile({.device = cpu});
  std::thread([] { add(ones({2}), ones({2})); }).join();
  profile.stop();
  CHECK(profile.rows().size() == 1);  // outside ops
}

TEST_CASE("ops and named ranges cover 95 % of a training step", "[measure][profiler]") {
  struct Wide : nn::Model<Wide> {
    nn::Linear fc1 = add("fc1", nn::Linear{256, 256}), fc2 = add("fc2", nn::Linear{256, 10});
    Tensor forward(const Tensor& x) const { return fc2(relu(fc1(x))); }
  };
  const Wide net;
  optim::Adam optimizer(net.parameters(), {.lr = 0.01});
  const Tensor x = rand({64, 256});
  double best = 0;  // of some, since other processes may take time outside of ops
  for (int i = 0; i < 5; ++i) {
    Profiler profile({.device = cpu});
    for (int step = 0; step < 5; ++step) {
      const Tensor loss = sum(net(x));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
    profile.stop();
    best = std::max(best, 1 - row_of(profile.rows(), "outside ops").self_s / profile.seconds());
  }
  CHECK(best >= 0.95);
}

TEST_CASE("ops run fused as without a profiler, or one by one if asked", "[measure][profiler]") {
  const nn::Sequential net(nn::Linear(8, 8), nn::ReLU(), nn::Linear(8, 4));
  const Tensor x = rand({4, 8});
  const auto ops = [&](bool single) {
    std::set<std::string> names;
    Profiler profile({.device = cpu, .single_ops = single});
    net(x);
    profile.stop();
    for (const ProfileRow& row : profile.rows()) names.insert(row.op);
    return names;
  };
  CHECK(ops(false).contains("mlp"));
  CHECK_FALSE(ops(false).contains("relu"));
  CHECK_FALSE(ops(true).contains("mlp"));
  CHECK(ops(true).contains("relu"));
  const Profiler outer({.device = cpu, .single_ops = true});
  CHECK(ops(false).contains("relu"));  // the outer one reads single ops
}

TEST_CASE("profiling changes no value", "[measure][profiler][device]") {
  for (const char* level : {"O0", "O1", "O2"}) {
    manual_seed(5);
    Training plain(level);
    manual_seed(5);
    Training profiled(level);
    for (int i = 0; i < 4; ++i) plain.step();
    profile_of(profiled, 4);
    const std::vector<Tensor> expected = plain.net.parameters(), got = profiled.net.parameters();
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(equal(got[i], expected[i]));
  }
}

TEST_CASE("allocated bytes are those of the op that allocates", "[measure][profiler][device]") {
  const TensorOptions there{.device = test_device()};
  const Tensor x = ones({1000}, there), y = ones({1000}, there);
  Profiler profile({.device = test_device()});
  const Tensor sum = add(x, y);
  mul_(sum, y);
  profile.stop();
  CHECK(row_of(profile.rows(), "add").allocated == 4000);
  CHECK(row_of(profile.rows(), "mul").allocated == 0);
}

TEST_CASE("the memory timeline ends with the memory in use", "[measure][profiler][device]") {
  Training training("O2");
  training.step();
  const auto profile = profile_of(training, 1);
  const std::vector<MemorySample> timeline = profile->memory_timeline();
  const MemoryStats now = memory_stats(test_device());
  std::vector<std::int64_t> last;
  double before = 0;
  std::int64_t most = 0;
  for (const MemorySample& sample : timeline) {
    CHECK(sample.seconds >= before);
    before = sample.seconds;
    if (sample.device != test_device()) continue;
    last = sample.current;
    most = std::max(most, sample.current[static_cast<std::size_t>(MemoryCategory::activations)]);
  }
  REQUIRE(last.size() == kNumMemoryCategories);
  for (std::size_t i = 0; i < last.size(); ++i) CHECK(last[i] == now.by_category[i].current);
  CHECK(most > last[static_cast<std::size_t>(MemoryCategory::activations)]);
  CHECK(last[static_cast<std::size_t>(MemoryCategory::masters)] > 0);
}

TEST_CASE("a device is timed by events, the CPU is not", "[measure][profiler][device]") {
  Training training;
  const auto profile = profile_of(training, 2);
  const std::vector<ProfileRow> rows = profile->rows();
  const ProfileRow linear = row_of(rows, "linear");
  if (test_device() == cpu) {
    CHECK(sum_over(rows, &ProfileRow::device_self_s) == 0);
    CHECK(linear.self_time() == linear.self_s);
    return;
  }
  CHECK(linear.device_self_s > 0);
  CHECK(linear.self_time() == linear.device_self_s);
  CHECK(row_of(rows, "Adam.step").device_total_s > 0);
  for (const ProfileRow& row : rows) CHECK(row.device_total_s >= row.device_self_s * 0.999);
  CHECK(profile->table().find("device self ms") != std::string::npos);
  const auto untimed = profile_of(training, 1, {.device = cpu});
  CHECK(sum_over(untimed->rows(), &ProfileRow::device_self_s) == 0);
}

TEST_CASE("a device that does not exist is refused", "[measure][profiler]") {
  CHECK_THROWS_WITH_AS_TEXT(Profiler({.device = {DeviceKind::cuda, 77}}), DeviceError, "cuda");
}
