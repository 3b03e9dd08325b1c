// Random sequences of operations that overlap. Run by ../ranks.sh.
#include <chrono>
#include <deque>
#include <functional>
#include <thread>

#include "../support/catch.h"
#include "expected.h"

using namespace mezzo;
using namespace mezzo::testing;
using comm::Op;
using comm::Order;

namespace {

/** The same numbers on all ranks. */
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed * 2 + 1) {}
  int below(int n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state_ >> 33) % static_cast<std::uint64_t>(n));
  }

 private:
  std::uint64_t state_;
};

/** An operation that is under way, and the check of what it received. */
struct Started {
  comm::Pending pending;
  std::function<std::int64_t()> differences;
};

template <class T>
Started start(const comm::Communicator& c, Numbers& numbers, std::uint64_t seed) {
  const int ranks = c.size(), rank = c.rank();
  const std::int64_t sizes[] = {1, 7, 500, 30'000};
  const std::int64_t n = sizes[numbers.below(4)];
  const bool checked = numbers.below(2) == 0;
  const Tensor all = empty_tensor({n * ranks}, dtype_of<T>(), cpu);
  switch (numbers.below(5)) {
    case 0: {
      const Op op = static_cast<Op>(numbers.below(3));
      const bool f32_sum = numbers.below(2) == 0;
      const Tensor x = elements<T>(rank, n, seed);
      return {c.all_reduce(x, {.op = op, .f32_sum = f32_sum, .checked = checked}), [=] {
                return differences<T>(
                    x, [=](auto i) { return reduced<T>({op, f32_sum}, ranks, i, seed); });
              }};
    }
    case 1: {
      const Tensor x = elements<T>(rank, n * ranks, seed), out = empty_tensor({n}, x.dtype(), cpu);
      return {c.reduce_scatter(x, out, {.checked = checked}), [=] {
                return differences<T>(
                    out, [=](auto i) { return reduced<T>({}, ranks, rank * n + i, seed); });
              }};
    }
    case 2: {
      const Tensor x = elements<T>(rank, n, seed);
      return {c.all_gather(x, all, {.checked = checked}), [=] {
                return differences<T>(
                    all, [=](auto i) { return element<T>(static_cast<int>(i / n), i % n, seed); });
              }};
    }
    case 3: {
      const Tensor x = elements<T>(rank, n * ranks, seed);
      return {c.all_to_all(x, all, {.checked = checked}), [=] {
                return differences<T>(all, [=](auto i) {
                  return element<T>(static_cast<int>(i / n), rank * n + i % n, seed);
                });
              }};
    }
    default: {
      const int root = numbers.below(ranks);
      const Tensor x = elements<T>(rank, n, seed);
      return {c.broadcast(x, root, {.checked = checked}),
              [=] { return differences<T>(x, [=](auto i) { return element<T>(root, i, seed); }); }};
    }
  }
}

Started start_any(const comm::Communicator& c, Numbers& numbers, std::uint64_t seed) {
  switch (numbers.below(4)) {
    case 0: return start<Half>(c, numbers, seed);
    case 1: return start<BFloat16>(c, numbers, seed);
    case 2: return start<double>(c, numbers, seed);
    default: return start<float>(c, numbers, seed);
  }
}

}  // namespace

TEST_CASE("300 random sequences of overlapping operations", "[sequences]") {
  const auto all = world().all(), part = all.split(world().rank() / 2);
  Numbers own(static_cast<std::uint64_t>(world().rank()) + 99);
  std::int64_t wrong = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Numbers numbers(seed), in_part(seed + 1000);
    std::deque<Started> started;
    for (int operations = 1 + numbers.below(8); operations > 0; --operations) {
      if (numbers.below(4) == 0)
        started.push_back(start_any(part, in_part, seed));
      else
        started.push_back(start_any(all, numbers, seed * 8 + static_cast<unsigned>(operations)));
      if (own.below(20) == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      while (started.size() > 4) {
        started.front().pending.wait();
        wrong += started.front().differences();
        started.pop_front();
      }
    }
    for (Started& one : started) one.pending.wait(), wrong += one.differences();
  }
  CHECK(wrong == 0);
}

TEST_CASE("operations end without wait(), and done() says so", "[sequences]") {
  const auto c = world().all();
  const Tensor x = full({1000}, 1.0);
  c.all_reduce(x);
  comm::Pending last = c.all_reduce(x);
  while (!last.done()) std::this_thread::yield();
  last.wait();
  last.wait();
  const double n = c.size();
  CHECK(x.to_vector<double>() == std::vector<double>(1000, n * n));
}

// What the communicator costs here: shown, not checked, since other processes share the machine.
TEST_CASE("figures", "[.figures]") {
  const auto c = world().all();
  const auto microseconds = [&](auto operation) {
    std::vector<double> times;
    for (int i = 0; i < 300; ++i) {
      const auto start = std::chrono::steady_clock::now();
      operation();
      times.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
              .count());
    }
    std::sort(times.begin(), times.end());
    return str("minimum ", std::round(times[0] * 10) / 10, ", median ",
               std::round(times[150] * 10) / 10, " us");
  };
  const Tensor small = full({8}, 1.0), large = full({1 << 18}, 0.0), half = large.to(f16);
  const std::string lines = str(
      "32 bytes: ", microseconds([&] { c.all_reduce(small).wait(); }),
      "\n1 MiB f32, ranks: ", microseconds([&] { c.all_reduce(large).wait(); }),
      "\n1 MiB f32, fast: ",
      microseconds([&] { c.all_reduce(large, {.order = Order::fast}).wait(); }),
      "\n0.5 MiB f16, ranks: ", microseconds([&] { c.all_reduce(half).wait(); }),
      "\n0.5 MiB f16, f32_sum: ",
      microseconds([&] { c.all_reduce(half, {.f32_sum = true}).wait(); }), "\n0.5 MiB f16, fast: ",
      microseconds([&] { c.all_reduce(half, {.order = Order::fast}).wait(); }));
  WARN(lines);
}
