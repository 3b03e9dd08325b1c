// The driver of the argument fuzzer: makes the drawn calls and checks the results.
#include "fuzz.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <set>

#include "../support/catch.h"
#include "../support/device.h"
#include "guard_allocator.h"
#include "limit_allocator.h"

namespace fuzz {

using namespace mezzo;

namespace {

// To reproduce one fault, set MEZZO_FUZZ_CALLS (the number of calls) and MEZZO_FUZZ_OP (the op).

std::int64_t calls_wanted() {
  const char* text = std::getenv("MEZZO_FUZZ_CALLS");
  return text ? std::atoll(text) : 100000;
}

std::vector<NamedRow> rows_wanted() {
  const char* op = std::getenv("MEZZO_FUZZ_OP");
  std::vector<NamedRow> rows;
  for (const NamedRow& row : all_rows())
    if (!op || row.op == op) rows.push_back(row);
  return rows;
}

/** Describes what is wrong with a result; empty where nothing is. */
std::string fault_of(const Tensor& x, const Sizes& expected) {
  if (!x.defined()) return "is undefined";
  if (x.shape().size() != expected.size()) return "has another number of dimensions";
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (expected[i] != kAny && expected[i] != x.shape()[static_cast<std::int64_t>(i)])
      return str("has another size in dimension ", i, " than ", static_cast<double>(expected[i]));
  if (Wide{x.numel()} != count(sizes(x))) return str("counts ", x.numel(), " elements");
  // Every element must be inside the storage.
  Wide first = x.impl()->offset, last = first;
  for (int d = 0; d < x.dim(); ++d) last += Wide{x.shape()[d] - 1} * x.strides()[d];
  const Wide room = static_cast<Wide>(x.impl()->storage->bytes() / item_size(x.dtype()));
  return x.numel() > 0 && (first < 0 || last >= room) ? "leaves its storage" : "";
}

/** Checks that the operands' gradients have the operands' shapes. */
std::string fault_of_gradients(const FuzzDraw& d, const std::vector<Tensor>& results) {
  if (results.empty() || !results[0].defined() || !results[0].requires_grad()) return "";
  if (results[0].numel() > 100000) return "";
  sum(results[0]).backward();
  for (const Tensor& leaf : d.leaves())
    if (const Tensor g = leaf.grad(); g.defined() && !(g.shape() == leaf.shape()))
      return "has a gradient of another shape than its operand";
  return "";
}

/** Returns a seed that depends only on the op and the round, not on other rows. */
std::uint64_t seed_of(const std::string& op, std::uint64_t round) {
  std::uint64_t seed = 1469598103934665603ull + 0x9E3779B97F4A7C15ull * round;
  for (const char c : op) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return seed;
}

/** Draws a row's next call. */
std::optional<Trial> drawn(const NamedRow& row, FuzzDraw& d) {
  try {
    return row.draw(d);
  } catch (const std::exception& e) {
    FAIL_CHECK(row.op << " cannot draw arguments after " << d.text() << ": " << e.what());
    return std::nullopt;
  }
}

enum class Ending { gave, refused };

/** Makes one call and logs a fault as a test failure. */
Ending run_trial(FuzzDraw& d, const Trial& trial) {
  constexpr std::size_t kMost = std::size_t{16} << 20;
  const MemoryLimit of_cpu(cpu, kMost), of_device(testing::test_device(), kMost);
  try {
    const std::vector<Tensor> results = trial.call();
    if (!trial.expected) {
      FAIL_CHECK("gives " << str(results) << " where it has to throw");
      return Ending::gave;
    }
    if (results.size() != trial.expected->size())
      FAIL_CHECK("gives " << results.size() << " results");
    for (std::size_t i = 0; i < std::min(results.size(), trial.expected->size()); ++i)
      if (const std::string fault = fault_of(results[i], (*trial.expected)[i]); !fault.empty())
        FAIL_CHECK("result " << i << ", " << str(results[i]) << ", " << fault);
    if (const std::string fault = fault_of_gradients(d, results); !fault.empty()) FAIL_CHECK(fault);
    return Ending::gave;
  } catch (const Error&) {
  } catch (const std::exception& e) {
    FAIL_CHECK("throws what is no mezzo::Error: " << e.what());
  }
  return Ending::refused;
}

}  // namespace

TEST_CASE("every registered op has rows in the argument fuzzer", "[fuzz]") {
  std::set<std::string> rows;
  for (const NamedRow& row : all_rows()) rows.insert(row.op);
  for (const OpInfo* op : all_ops())
    if (!op->traits.internal) CHECK(rows.count(std::string(op->traits.name)) == 1);
}

TEST_CASE("no argument crashes an op, hangs it or gives a wrong shape", "[fuzz][guards]") {
  // A call that hangs is ended by a signal, and Catch2 reports the call.
  std::signal(SIGALRM, [](int) { std::abort(); });
  const LogSink sink = set_log_sink({});  // discards warnings
  cases::GuardAllocator& guards = cases::install_guards();
  const std::int64_t wanted = calls_wanted();
  std::map<std::string, std::int64_t> gave;
  const std::vector<NamedRow> rows = rows_wanted();
  std::int64_t calls = 0;
  for (std::uint64_t round = 0; calls < wanted && !rows.empty(); ++round)
    for (std::size_t i = 0; i < rows.size(); ++i, ++calls) {
      FuzzDraw d(seed_of(rows[i].op, round));
      const std::optional<Trial> trial = drawn(rows[i], d);
      INFO("call " << calls << ", " << rows[i].op << ": " << d.text());
      alarm(60);
      const std::int64_t damaged = guards.damaged();
      gave[rows[i].op] += trial && run_trial(d, *trial) == Ending::gave;
      if (guards.damaged() != damaged) FAIL_CHECK("writes beside its memory");
    }
  alarm(0);
  set_log_sink(sink);
  for (const auto& [op, count] : gave) {
    INFO(op << " gave a result in " << count << " calls");
    CHECK(count > 0);
  }
}

}  // namespace fuzz
