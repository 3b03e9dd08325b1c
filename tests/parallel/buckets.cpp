// How gradients are divided into buckets, and passes that differ from a plain one: hooks, kept
// gradients, recomputation, backward passes inside others.
#include <algorithm>

#include "../support/levels.h"
#include "bucketings.h"

using namespace trainees;

namespace {

/** Leaves of all layouts: a scalar, no elements, larger than a bucket, transposed, with gaps,
 *  channels-last. */
std::vector<Tensor> values_of_all_layouts() {
  return {ones({3}),
          ones({}),
          ones({0}),
          ones({2, 5}),
          ones({600, 500}),  // 1.2 MB: reduced in its own memory
          ones({600, 600}),
          ones({5, 2}).t(),
          ones({4, 6}).slice(1, 1, 4),
          ones({2, 3, 4, 5}).to(MemoryFormat::channels_last),
          ones({1})};
}

}  // namespace

TEST_CASE("gradients are averages, whatever the buckets and the layouts of the parameters") {
  for (const auto& [name, options] : bucketings()) {
    INFO(name);
    const Weighted model(values_of_all_layouts());
    const Wrapped net(model, options);
    for (int step = 1; step <= 4; ++step) {
      const auto factor = [&](int r, std::size_t i) {
        return size() * static_cast<double>(step * (r + 1) + static_cast<int>(i));
      };
      Factors mine, expected;
      for (std::size_t i = 0; i < model.params.size(); ++i) {
        mine.push_back(factor(rank(), i));
        expected.push_back(mean_over_ranks([&](int r) { return factor(r, i); }));
      }
      model.zero_grad();
      model.loss(mine).backward();
      CHECK(wrong_gradients(model, expected) == "");
      for (const Tensor& p : model.params) CHECK(p.grad().shape() == p.shape());
    }
  }
}

TEST_CASE("gradients of all dtypes are reduced without mixed precision") {
  using nn::ReduceDtype;
  for (const auto dtype : {ReduceDtype::automatic, ReduceDtype::same, ReduceDtype::f32})
    for (const double bucket_mib : {kTinyMib, 1000.0}) {
      INFO(static_cast<int>(dtype) << ", " << bucket_mib);
      const Weighted model(std::vector{ones({3}).to(f16), ones({4}), ones({300'000}).to(bf16),
                                       ones({2}).to(f64), ones({5}).to(bf16),
                                       ones({300'000}).to(f16), ones({100'000}).to(f64)});
      const Wrapped net(model, {.comm = ranks(),
                                .bucket_mib = bucket_mib,
                                .first_bucket_mib = bucket_mib,
                                .reduce_dtype = dtype});
      for (int step = 1; step <= 4; ++step) {
        const double mine = size() * (step + rank()),
                     mean = total_over_ranks([&](int r) { return step + r; });
        model.zero_grad();
        for (int pass = 1; pass <= 2; ++pass) {
          model.loss(Factors(model.params.size(), mine)).backward();
          CHECK(wrong_gradients(model, Factors(model.params.size(), pass * mean)) == "");
        }
        for (const Tensor& p : model.params) CHECK(p.grad().dtype() == p.dtype());
      }
    }
}

namespace {

/** Two layers whose results are computed again in the backward pass. */
struct Recomputed : nn::Model<Recomputed> {
  nn::Linear fc1 = add("fc1", nn::Linear{6, 7});
  nn::Linear fc2 = add("fc2", nn::Linear{7, 5});
  bool again = true;
  Tensor forward(const Tensor& x) const {
    const auto block = [this](const Tensor& y) { return tanh(fc2(relu(fc1(y)))); };
    return again ? nn::checkpoint(block, x) : block(x);
  }
};

}  // namespace

TEST_CASE("recomputed layers have the same reduced gradients") {
  manual_seed(4);
  Recomputed model;
  const nn::DistributedDataParallel<Recomputed> net(
      model, {.comm = ranks(), .first_bucket_mib = kTinyMib});
  for (std::uint64_t step = 0; step < 3; ++step) {
    std::vector<std::string> texts;
    for (const bool again : {true, false}) {
      model.again = again;
      model.zero_grad();
      sum(model(normal(10 * step + static_cast<std::uint64_t>(rank()), {3, 6}))).backward();
      std::string text;
      for (const Tensor& p : model.parameters()) text += states::bytes_of(p.grad());
      texts.push_back(text);
    }
    CHECK(texts[0] == texts[1]);
    CHECK(difference_between_ranks({{"gradients", texts[0]}}) == "");
  }
}

TEST_CASE("triggers decide which gradients are reduced together") {
  const Weighted model(std::vector<Shape>{{4}, {300'000}, {2}, {3}});
  for (const auto& triggers :
       {std::vector{model.params[2]}, model.params, std::vector{model.params[0]}}) {
    const Wrapped net(model, {.comm = ranks(), .triggers = triggers});
    for (int step = 0; step < 4; ++step) {
      model.zero_grad();
      const double n = size() * (rank() + 1);
      model.loss({n, 2 * n, 3 * n, 4 * n}).backward();
      const double mean = total_over_ranks([](int r) { return r + 1; });
      CHECK(wrong_gradients(model, {mean, 2 * mean, 3 * mean, 4 * mean}) == "");
    }
  }
}

TEST_CASE("a gradient that the program keeps is not overwritten by later passes") {
  for (const auto& [name, options] : bucketings()) {
    INFO(name);
    const Weighted model(std::vector<Shape>{{4}, {300'000}, {2}});
    const Wrapped net(model, options);
    std::vector<Tensor> kept, views;
    for (int step = 1; step <= 4; ++step) {
      model.zero_grad();
      const double n = step * size();
      model.loss({n, n, n}).backward();
      for (const Tensor& p : model.params) {
        kept.push_back(p.grad());
        views.push_back(p.grad().slice(0, 1, 2));
      }
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const auto expected = static_cast<double>(size() * (1 + static_cast<int>(i) / 3));
      CHECK(all_are(kept[i], expected));
      CHECK(all_are(views[i], expected));
    }
  }
}

TEST_CASE("hooks see the gradients of this rank, later ones the reduced gradients") {
  const Weighted model(std::vector<Shape>{{4}, {300'000}});
  const Wrapped net(model, {.comm = ranks(), .first_bucket_mib = kTinyMib});
  std::vector<Tensor> seen;
  std::string order;
  register_hook(model.params[1], [&](const Tensor& g) {
    seen.push_back(g);
    return g * 2.0;
  });
  for (const std::size_t i : {0, 1})
    register_post_accumulate_grad_hook(model.params[i], [&, i](const Tensor& leaf) {
      order += str(i);
      CHECK(all_are(leaf.grad(), i == 0 ? size() : 2 * size()));
    });
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    const double n = 2 * rank() + 1;  // mean: size()
    model.loss({n, n}).backward();
    CHECK(all_are(seen.back(), n));
  }
  CHECK(order == (size() == 1 ? "101010" : "010101"));
}

TEST_CASE("grad() reduces nothing, and create_graph is refused") {
  if (size() == 1) return;
  const Weighted model(std::vector<Shape>{{3}});
  const Wrapped net(model, {.comm = ranks()});
  const double mine = rank() + 1;
  CHECK(all_are(grad(model.loss({mine}), model.params[0]), mine));
  const Tensor& p = model.params[0];
  CHECK_THROWS_WITH_AS_TEXT(backward(sum(p * p), {}, false, true), Unsupported,
                            "DistributedDataParallel: create_graph = true with reduced gradients; "
                            "use grad(), which reduces nothing, or no_sync()");
  CHECK(!p.grad().defined());
  {
    const auto local = net.no_sync();
    backward(sum(p * p), {}, false, true);
    CHECK(all_are(p.grad(), 2));
  }
  model.zero_grad();
  model.loss({size() * mine}).backward();
  CHECK(wrong_gradients(model, {total_over_ranks([](int r) { return r + 1; })}) == "");
}

TEST_CASE("a backward pass in a hook of another one adds to its gradients") {
  const QuietLog quiet;
  const Weighted model(std::vector<Shape>{{3}, {4}}), other(std::vector<Shape>{{2}});
  const Options options{.comm = ranks(), .overlap = false};
  const Wrapped net(model, options), other_net(other, options);
  const double n = size() * (rank() + 1), mean = total_over_ranks([](int r) { return r + 1; });
  register_hook(model.params[1], [&](const Tensor&) {
    const GradMode recording(true);
    model.loss({n, 0}).backward();
    other.loss({3 * n}).backward();
    return Tensor();
  });
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    other.zero_grad();
    model.loss({step == 0 ? 0 : n, 2 * n}).backward();
    CHECK(wrong_gradients(model, {step == 0 ? mean : 2 * mean, 2 * mean}) == "");
    CHECK(wrong_gradients(other, {3 * mean}) == "");
  }
}

TEST_CASE("a large product has the gradients of the pass that computed them", "[race]") {
  // As apex's test of races: two large parameters, new data in each pass, sums known beforehand.
  constexpr std::int64_t kSize = 1 << 18;
  const std::vector<std::pair<std::string, Options>> all{
      {"a bucket for each",
       {.comm = ranks(),
        .bucket_mib = kTinyMib,
        .first_bucket_mib = kTinyMib,
        .predivide_factor = 8}},
      {"no overlap", {.comm = ranks(), .overlap = false}},
      {"fast", {.comm = ranks(), .order = comm::Order::fast}}};
  for (const auto& [name, options] : all)
    for (const std::int64_t size_of_one : {kSize, std::int64_t{1000}}) {
      INFO(name << ", " << size_of_one << " elements");
      const Weighted model(std::vector{full({size_of_one}, 1.0), full({size_of_one}, 2.0)});
      const Wrapped net(model, options);
      const Tensor x = empty({size_of_one});
      for (int i = 0; i < 10; ++i) {
        x.fill_(size() * (i + rank()));
        model.zero_grad();
        sum(x * model.params[0] * model.params[1]).backward();
        const double mean = total_over_ranks([&](int r) { return i + r; });
        CHECK(wrong_gradients(model, {2 * mean, mean}) == "");
      }
    }
}
