// The tests generated from the case list and the registry, for every op.
#include <algorithm>
#include <cstdlib>
#include <set>

#include "../support/catch.h"
#include "../support/exact_products.h"
#include "samples.h"

using namespace mezzo;
using namespace cases;

namespace {

const std::vector<DType> kFloatingDTypes{f64, f32, f16, bf16};

/** The minimum number of gradient checks. */
const std::size_t kGradientSamples = test_device() == cpu ? 1500 : 300;

/** First derivatives by the kernels that run by default are compared entry by entry, all others as
 *  combinations of entries, unless the tests are thorough. */
GradcheckOptions comparing(bool first_derivatives) {
  const bool default_kernels = test_device() == cpu && !std::getenv("MEZZO_CPU_ISA");
  return {.fast_mode = !testing::is_thorough() && !(first_derivatives && default_kernels)};
}

/** Calls visit(case, sample index) for every sample of every case of this process's shard that runs
 *  at this depth on the device under test. Tests that use it have the tag [sharded]: all processes
 *  run them. */
template <class F> void for_each_sample(Depth depth, F&& visit) {
  for (const Case& c : all_cases())
    if (in_shard(c) && runs_here(c, depth))
      for (std::size_t s = 0; s < samples_of(c).size(); ++s) visit(c, s);
}

void set_requires_grad(const Case& c, const std::vector<Tensor>& x) {
  for (std::size_t k = 0; k < x.size(); ++k)
    if (!c.operands[k].integers && !c.operands[k].boolean && !c.operands[k].constant)
      x[k].requires_grad_();
}

/** Returns the gradients of the floating operands for an incoming gradient in [-0.5, 1]. */
std::vector<Tensor> case_gradients(const Case& c, const std::vector<Tensor>& x) {
  set_requires_grad(c, x);
  std::vector<Tensor> outputs, seeds, wanted;
  for (const Tensor& y : c.call(x)) {
    if (!y.requires_grad()) continue;
    outputs.push_back(y);
    std::vector<double> values;
    for (std::int64_t i = 0; i < y.numel(); ++i)
      values.push_back(static_cast<double>(i % 7) * 0.25 - 0.5);
    seeds.push_back(tensor(values, y.shape(), {.dtype = y.dtype(), .device = y.device()}));
  }
  for (const Tensor& t : x)
    if (t.requires_grad()) wanted.push_back(t);
  return grad(outputs, wanted, {.allow_unused = true}, seeds);
}

/** Returns whether the op sums over the elements of images in memory order. */
bool sums_as_stored(const Case& c) { return c.op == "batch_norm" || c.op == "batch_norm_relu"; }

}  // namespace

TEST_CASE("every registered op has a case", "[ops]") {
  std::set<std::string> covered;
  for (const Case& c : all_cases()) {
    covered.insert(c.op);
    INFO(c.op);
    CHECK(find_op(c.op) != nullptr);
  }
  for (const OpInfo* info : all_ops()) {
    INFO(info->traits.name);
    CHECK((info->traits.internal || covered.count(std::string(info->traits.name)) == 1));
  }
}

TEST_CASE("every registered op has consistent traits", "[ops]") {
  std::set<std::string_view> names;
  for (const OpInfo* info : all_ops()) {
    INFO(info->traits.name);
    CHECK(names.insert(info->traits.name).second);
    CHECK((info->view || info->composite || info->kernel[0]));
    CHECK((info->traits.internal || !info->traits.summary.empty()));
    CHECK((!info->traits.differentiable || info->composite || info->backward));
  }
}

namespace {

void check_value(const Case& c, std::size_t s, DType dtype) {
  INFO(label(c, s) << " in " << name(dtype) << (exact_products() ? ", exact products" : ""));
  const std::vector<Tensor> x = to_tensors(c, draw(c, s, false), dtype);
  const std::vector<Tensor> got = c.call(x);
  const std::vector<Array> expected = c.oracle(to_arrays(x));
  REQUIRE(got.size() >= expected.size());
  const bool rounds = c.rounds_inside && dtype == bf16 && !exact_products();
  for (std::size_t o = 0; o < expected.size(); ++o) {
    const Tolerance t = tolerance_of(is_floating(got[o].dtype()) ? got[o].dtype() : f64);
    const double inside = rounds ? 0x1p-8 : 0;
    CHECK(difference(to_array(got[o]), expected[o],
                     {t.rtol * c.factor, t.atol * c.factor + inside}) == "");
  }
}

}  // namespace

TEST_CASE("values agree with an f64 oracle in every dtype", "[ops][sharded]") {
  for (const DType dtype : kFloatingDTypes)
    for_each_sample(Depth::values, [&](const Case& c, std::size_t s) {
      if (is_low(dtype) && !c.half) return;
      check_value(c, s, dtype);
      if (dtype != bf16) return;
      const ExactProducts scope(true);
      check_value(c, s, dtype);
    });
}

TEST_CASE("values and gradients do not depend on strides, and operands stay as they were",
          "[ops][sharded]") {
  for (const DType dtype : {f32, f16})
    for_each_sample(Depth::values, [&](const Case& c, std::size_t s) {
      if (c.exact_shapes_only || (is_low(dtype) && !c.half)) return;
      const std::vector<Array> values = draw(c, s, false);
      const std::vector<Tensor> plain = to_tensors(c, values, dtype);
      const std::vector<Tensor> expected = c.call(plain);
      const bool images = std::any_of(plain.begin(), plain.end(), [](const Tensor& x) {
        return may_be_channels_last(x.dim());
      });
      for (const Layout layout :
           {Layout::transposed, Layout::offset_and_step, Layout::channels_last}) {
        if (layout == Layout::channels_last && !images) continue;
        INFO(label(c, s) << " in " << name(dtype) << ", layout " << static_cast<int>(layout));
        const std::vector<Tensor> x = to_tensors(c, values, dtype, layout);
        const std::vector<Tensor> got = c.call(x);
        const bool rounds = sums_as_stored(c) && layout == Layout::channels_last;
        const auto check_same = [&](const Tensor& a, const Tensor& b) {
          const Tolerance t = tolerance_of(a.dtype());
          if (rounds)
            CHECK(difference(to_array(a), to_array(b), {t.rtol * c.factor, t.atol * c.factor}) ==
                  "");
          else
            CHECK(same_numbers(a, b));  // einsum and products may copy an operand for a library
        };
        for (std::size_t o = 0; o < got.size(); ++o) check_same(got[o], expected[o]);
        for (std::size_t k = 0; k < x.size(); ++k) CHECK(same_bits(x[k], plain[k]));
        if (!c.gradients || !runs_here(c, Depth::gradients)) continue;
        const std::vector<Tensor> g = case_gradients(c, x),
                                  h = case_gradients(c, to_tensors(c, values, dtype));
        for (std::size_t k = 0; k < g.size(); ++k) {
          REQUIRE(g[k].defined() == h[k].defined());
          if (g[k].defined()) check_same(g[k], h[k]);
        }
      }
    });
}

/** Calls check(operands) for all gradient samples of a case. */
template <class F> void for_each_gradient_sample(const Case& c, F&& check) {
  for (const GradientSample& g : gradient_samples(c)) {
    INFO(label(c, g.sample) << ", redraw " << g.redraw);
    const std::vector<Tensor> x = to_tensors(c, draw(c, g.sample, true, g.redraw), f64, g.layout);
    set_requires_grad(c, x);
    check(x);
  }
}

TEST_CASE("first derivatives agree with finite differences", "[ops][derivatives][sharded]") {
  std::size_t checked = 0;
  for (const Case& c : all_cases())
    if (c.gradients && in_shard(c) && runs_here(c, Depth::gradients))
      for_each_gradient_sample(c, [&](const std::vector<Tensor>& x) {
        CHECK(gradcheck(c.call, x, comparing(true)).report == "");
        ++checked;
      });
  CHECK(checked * shard_count() >= kGradientSamples);
}

TEST_CASE("second derivatives agree with finite differences", "[ops][derivatives][sharded]") {
  std::size_t checked = 0;
  for (const Case& c : all_cases())
    if (c.gradients && c.second_order && in_shard(c) && runs_here(c, Depth::second_gradients))
      for_each_gradient_sample(c, [&](const std::vector<Tensor>& x) {
        CHECK(gradgradcheck(c.call, x, comparing(false)).report == "");
        ++checked;
      });
  CHECK(checked * shard_count() >= kGradientSamples);
}

TEST_CASE("fused and composite gradients agree", "[ops][sharded]") {
  // With create_graph the gradient is computed with public ops, without it by fused kernels.
  for_each_sample(Depth::second_gradients, [](const Case& c, std::size_t s) {
    if (!c.gradients || !c.second_order) return;
    INFO(label(c, s));
    const std::vector<Tensor> x = to_tensors(c, draw(c, s, true), f64);
    const std::vector<Tensor> fused = case_gradients(c, x);
    std::vector<Tensor> outputs, seeds, wanted;
    for (const Tensor& y : c.call(x)) {
      if (!y.requires_grad()) continue;
      outputs.push_back(y);
      std::vector<double> values;
      for (std::int64_t i = 0; i < y.numel(); ++i)
        values.push_back(static_cast<double>(i % 7) * 0.25 - 0.5);
      seeds.push_back(tensor(values, y.shape(), {.dtype = y.dtype(), .device = y.device()}));
    }
    for (const Tensor& t : x)
      if (t.requires_grad()) wanted.push_back(t);
    const std::vector<Tensor> composite =
        grad(outputs, wanted, {.create_graph = true, .allow_unused = true}, seeds);
    for (std::size_t k = 0; k < fused.size(); ++k) {
      if (!fused[k].defined() || !composite[k].defined()) continue;
      CHECK(difference(to_array(fused[k]), to_array(composite[k]),
                       {1e-10 * c.factor, 1e-10 * c.factor}) == "");
    }
  });
}

TEST_CASE("gradients in f32, f16 and bf16 have the operand's dtype and agree with f64",
          "[ops][sharded]") {
  for (const DType dtype : {f32, f16, bf16})
    for_each_sample(Depth::gradients, [&](const Case& c, std::size_t s) {
      if (!c.gradients || (is_low(dtype) && !c.half)) return;
      INFO(label(c, s) << " in " << name(dtype));
      const std::vector<Tensor> x = to_tensors(c, draw(c, s, true), dtype);
      std::vector<Tensor> wide;
      for (std::size_t k = 0; k < x.size(); ++k)
        wide.push_back(is_floating(x[k].dtype()) ? x[k].detach().to(f64) : x[k]);
      const std::vector<Tensor> got = case_gradients(c, x), expected = case_gradients(c, wide);
      std::size_t next = 0;
      for (std::size_t k = 0; k < x.size(); ++k) {
        if (!x[k].requires_grad()) continue;
        const Tensor &g = got[next], &e = expected[next];
        ++next;
        CHECK(g.defined() == e.defined());
        if (!g.defined() || !e.defined()) continue;
        CHECK(g.dtype() == x[k].dtype());
        // A gradient has several roundings: of the output, of the incoming gradient and its own.
        const Tolerance t = tolerance_of(dtype);
        CHECK(difference(to_array(g), to_array(e),
                         {8 * t.rtol * c.factor, (is_low(dtype) ? 8 * t.rtol : 8e-6) * c.factor}) ==
              "");
      }
    });
}

TEST_CASE("the same tensor may be every operand", "[ops]") {
  for (const Case& c : all_cases()) {
    if (c.operands.size() != 2 || !c.gradients || !c.shapes.empty() || !runs_here(c, Depth::values))
      continue;
    if (c.operands[0].boolean || c.operands[1].boolean) continue;
    INFO(c.op << " " << c.variant);
    const Operand both{.low = std::max(c.operands[0].low, c.operands[1].low),
                       .high = std::min(c.operands[0].high, c.operands[1].high),
                       .kinks = c.operands[0].kinks};
    Case one = c;
    one.operands = {both};
    one.shapes = {{{3, 4}}};
    one.variant += " with itself";
    const Tensor x = to_tensors(one, draw(one, 0, true), f64)[0].requires_grad_();
    const std::vector<Array> expected = c.oracle({to_array(x), to_array(x)});
    CHECK(difference(to_array(c.call({x, x})[0]), expected[0], {1e-7, 1e-7}) == "");
  }
}
