// Every collective operation, dtype and order, against what it must give. Run by ../ranks.sh.
#include "../../tensor/comm/engine.h"
#include "../support/catch.h"
#include "expected.h"

using namespace mezzo;
using namespace mezzo::testing;
using comm::Op;
using comm::Order;

namespace {

/** Calls f for each type that can be combined. */
template <class F> void for_each_number(F f) {
  f(std::type_identity<Half>{});
  f(std::type_identity<BFloat16>{});
  f(std::type_identity<float>{});
  f(std::type_identity<double>{});
  f(std::type_identity<std::int32_t>{});
  f(std::type_identity<std::int64_t>{});
  f(std::type_identity<std::uint8_t>{});
}

// In the frame, whole, in slices, with a rest, over several chunks.
constexpr std::int64_t kSizes[] = {0, 1, 3, 4, 31, 1000, 5003, 20'011};
constexpr std::int64_t kLarge = 3'000'017;  // beyond a chunk of rank-ordered sums

template <class T>
void check_all_reduce(const comm::Communicator& c, std::int64_t n, Op op,
                      std::optional<Order> order, bool f32_sum, bool checked) {
  const Tensor x = elements<T>(c.rank(), n);
  c.all_reduce(x, {.op = op, .order = order, .f32_sum = f32_sum, .checked = checked}).wait();
  const bool any_order = order == Order::fast && op == Op::sum && is_floating(dtype_of<T>());
  INFO("all_reduce of " << str(x) << ", op " << static_cast<int>(op) << ", checked " << checked
                        << ", f32_sum " << f32_sum << ", fast " << any_order);
  const std::int64_t wrong =
      any_order ? inexact<T>(x, c.size())
                : differences<T>(x, [&](auto i) { return reduced<T>({op, f32_sum}, c.size(), i); });
  CHECK(wrong == 0);
}

template <class T>
void check_reduce_scatter(const comm::Communicator& c, std::int64_t n, std::optional<Order> order,
                          bool f32_sum) {
  const Tensor x = elements<T>(c.rank(), n * c.size());
  const Tensor out = empty_tensor({n}, dtype_of<T>(), cpu);
  c.reduce_scatter(x, out, {.order = order, .f32_sum = f32_sum}).wait();
  INFO("reduce_scatter of " << str(x) << ", f32_sum " << f32_sum);
  const std::int64_t first = c.rank() * n;
  const bool any_order = order == Order::fast && is_floating(dtype_of<T>());
  CHECK((any_order ? inexact<T>(out, c.size(), first) : differences<T>(out, [&](auto i) {
          return reduced<T>({Op::sum, f32_sum}, c.size(), first + i);
        })) == 0);
  CHECK(differences<T>(x, [&](auto i) { return element<T>(c.rank(), i); }) == 0);
}

template <class T> void check_moves(const comm::Communicator& c, std::int64_t n, bool checked) {
  const comm::MoveOptions options{.checked = checked};
  const int ranks = c.size();
  const Tensor x = elements<T>(c.rank(), n);
  const Tensor all = empty_tensor({n * ranks}, dtype_of<T>(), cpu);
  INFO("of " << str(x) << ", checked " << checked);
  c.all_gather(x, all, options).wait();
  CHECK(differences<T>(all, [&](auto i) { return element<T>(static_cast<int>(i / n), i % n); }) ==
        0);

  const Tensor parts = elements<T>(c.rank(), n * ranks);
  c.all_to_all(parts, all, options).wait();
  CHECK(differences<T>(all, [&](auto i) {
          return element<T>(static_cast<int>(i / n), c.rank() * n + i % n);
        }) == 0);

  for (int root = 0; root < ranks; ++root) {
    const Tensor y = elements<T>(c.rank(), n);
    c.broadcast(y, root, options).wait();
    CHECK(differences<T>(y, [&](auto i) { return element<T>(root, i); }) == 0);
  }
}

template <class T> void check_every_reduction(const comm::Communicator& c, std::int64_t n) {
  for (const Op op : {Op::sum, Op::max, Op::min})
    for (const auto order : {std::optional<Order>(), std::optional(Order::fast)})
      check_all_reduce<T>(c, n, op, order, false, true);
  check_all_reduce<T>(c, n, Op::sum, Order::fast, false, false);
  check_all_reduce<T>(c, n, Op::sum, {}, true, true);
  check_all_reduce<T>(c, n, Op::sum, Order::ranks, false, false);
  check_reduce_scatter<T>(c, n, {}, false);
  check_reduce_scatter<T>(c, n, {}, true);
  check_reduce_scatter<T>(c, n, Order::fast, false);
}

}  // namespace

TEST_CASE("reductions of every dtype, in both orders", "[collectives]") {
  for_each_number([]<class T>(std::type_identity<T>) {
    for (const std::int64_t n : kSizes) check_every_reduction<T>(world().all(), n);
  });
}

TEST_CASE("large reductions are made in chunks", "[collectives]") {
  const auto c = world().all();
  check_all_reduce<float>(c, kLarge, Op::sum, {}, false, true);
  check_all_reduce<float>(c, kLarge, Op::sum, Order::fast, false, true);
  check_all_reduce<Half>(c, kLarge, Op::sum, {}, true, false);
  check_reduce_scatter<float>(c, kLarge / c.size(), {}, false);
}

TEST_CASE("moves of every dtype", "[collectives]") {
  const auto check = []<class T>(std::type_identity<T>) {
    for (const std::int64_t n : kSizes)
      for (const bool checked : {true, false}) check_moves<T>(world().all(), n, checked);
  };
  for_each_number(check);
  check(std::type_identity<bool>{});
}

TEST_CASE("counts beyond the limit of a transfer are split", "[collectives]") {
  for (const std::int64_t limit : {1, 7, 1000}) {
    comm::detail::set_max_count(limit);
    for (const std::int64_t n : {2, 9, 63, limit == 1 ? 100 : 5003}) {
      check_every_reduction<float>(world().all(), n);
      check_every_reduction<Half>(world().all(), n);
      check_moves<double>(world().all(), n, true);
      check_moves<std::uint8_t>(world().all(), n, false);
    }
  }
  comm::detail::set_max_count(0);
}

TEST_CASE("a maximum with NaN is the same NaN on all ranks; zeros have an order", "[collectives]") {
  const auto c = world().all();
  for (const Order order : {Order::fast, Order::ranks})
    for (const std::int64_t n : {4, 4000}) {
      const Tensor x = empty_tensor({n}, f32, cpu);
      const bool last = c.rank() == c.size() - 1;
      for (std::int64_t i = 0; i < n; ++i)
        x.data<float>()[i] = i % 2 == 0 ? (last ? -std::nanf("7") : 1.0f) : (last ? -0.0f : 0.0f);
      const Tensor y = x.clone();
      c.all_reduce(x, {.op = Op::max, .order = order}).wait();
      c.all_reduce(y, {.op = Op::min, .order = order}).wait();
      if (c.size() == 1) return;
      constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
      CHECK(differences<float>(x, [&](auto i) { return i % 2 == 0 ? kNan : 0.0f; }) == 0);
      CHECK(differences<float>(y, [&](auto i) { return i % 2 == 0 ? kNan : -0.0f; }) == 0);
    }
}

TEST_CASE("sums of integers wrap", "[collectives]") {
  const auto c = world().all();
  for (const Order order : {Order::fast, Order::ranks})
    for (const std::int64_t n : {1, 3000}) {
      const Tensor x = full({n}, 2147483647.0).to(i32), y = full({n}, 200.0).to(u8);
      c.all_reduce(x, {.order = order}).wait();
      c.all_reduce(y, {.order = order}).wait();
      const auto ranks = static_cast<std::uint32_t>(c.size());
      CHECK(differences<std::int32_t>(
                x, [&](auto) { return static_cast<std::int32_t>(ranks * 2147483647u); }) == 0);
      CHECK(differences<std::uint8_t>(
                y, [&](auto) { return static_cast<std::uint8_t>(ranks * 200u); }) == 0);
    }
}

TEST_CASE("views and channels-last tensors are reduced where they are", "[collectives]") {
  const auto c = world().all();
  const Tensor base = full({8}, 1.0);
  const std::uint32_t version = base.version();
  c.all_reduce(base.narrow(0, 2, 3)).wait();
  const float n = static_cast<float>(c.size());
  CHECK(base.to_vector<float>() == std::vector<float>{1, 1, n, n, n, 1, 1, 1});
  CHECK(base.version() == version + (c.size() > 1 ? 1u : 0u));

  const Tensor image = elements<float>(c.rank(), 2 * 3 * 4 * 5).view({2, 3, 4, 5});
  const Tensor last = image.to(MemoryFormat::channels_last);
  c.all_reduce(image).wait();
  c.all_reduce(last).wait();
  CHECK(last.to_vector<float>() == image.to_vector<float>());
}
