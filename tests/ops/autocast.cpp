// Generated tests of automatic casts: for every case, running under autocast is casting by the op's tag and running without, bit for bit.
#include "../support/catch.h"
#include "../support/throws.h"
#include "samples.h"

using namespace mezzo;
using namespace cases;

namespace {

/** In-place forms have a rule of their own: self is never cast (AMP.md 5.5). */
bool is_in_place(const Case& c) { return c.variant.find("in place") != std::string::npos; }

/** The dtype the policy gives an operand of an op with this tag. */
DType cast_dtype(Precision tag, DType dtype, DType low) {
  if (!amp::eligible(dtype)) return dtype;
  switch (amp::action(tag, true)) {
    case amp::Action::to_low: return low;
    case amp::Action::to_f32: return f32;
    default: return dtype;
  }
}

struct Outcome {
  std::vector<Tensor> results, gradients;
};

/** Runs `call` on leaves and takes the gradients of its differentiable results. */
Outcome outcome(const Case& c, const std::vector<Tensor>& leaves, const Call& call) {
  Outcome o;
  o.results = call(leaves);
  if (!c.gradients) return o;
  std::vector<Tensor> outputs, seeds, wanted;
  for (const Tensor& y : o.results) {
    if (!y.requires_grad()) continue;
    outputs.push_back(y);
    seeds.push_back(full_like(y, 0.5));
  }
  for (const Tensor& x : leaves)
    if (x.requires_grad()) wanted.push_back(x);
  if (!outputs.empty()) o.gradients = grad(outputs, wanted, {.allow_unused = true}, seeds);
  return o;
}

std::vector<Tensor> leaves_of(const Case& c, std::size_t s, DType dtype) {
  const std::vector<Tensor> x = to_tensors(c, draw(c, s, true), dtype);
  if (c.gradients)
    for (std::size_t k = 0; k < x.size(); ++k)
      if (is_floating(x[k].dtype())) x[k].requires_grad_();
  return x;
}

}  // namespace

TEST_CASE("under autocast an op is its casts and itself, bit for bit", "[ops][autocast]") {
  for (const Case& c : all_cases()) {
    const OpRow* row = find_op(c.op);
    if (!row || !c.half || !c.single_op || is_in_place(c) || row->traits.precision == Precision::banned ||
        !runs_here(c, Depth::gradients))
      continue;
    for (std::size_t s = 0; s < samples_of(c).size(); ++s)
      for (const DType low : {f16, bf16})
        for (const DType dtype : {f32, f16, f64}) {
          INFO(label(c, s) << " on " << name(dtype) << " under autocast to " << name(low));
          const Outcome got = [&] {
            const amp::autocast on({.dtype = low});
            return outcome(c, leaves_of(c, s, dtype), c.call);
          }();
          const Outcome expected = outcome(c, leaves_of(c, s, dtype), [&](std::vector<Tensor> x) {
            for (Tensor& t : x) t = t.to(cast_dtype(row->traits.precision, t.dtype(), low));
            return c.call(x);
          });
          REQUIRE(got.results.size() == expected.results.size());
          for (std::size_t i = 0; i < got.results.size(); ++i)
            CHECK(same_bits(got.results[i], expected.results[i]));
          REQUIRE(got.gradients.size() == expected.gradients.size());
          for (std::size_t i = 0; i < got.gradients.size(); ++i) {
            const Tensor &g = got.gradients[i], &e = expected.gradients[i];
            CHECK(g.defined() == e.defined());
            if (g.defined() && e.defined()) CHECK(same_bits(g, e));
          }
        }
  }
}

TEST_CASE("banned ops are refused under autocast and run without", "[ops][autocast]") {
  for (const Case& c : all_cases()) {
    const OpRow* row = find_op(c.op);
    if (!row || row->traits.precision != Precision::banned || !runs_here(c, Depth::values)) continue;
    INFO(label(c, 0));
    const std::vector<Tensor> x = to_tensors(c, draw(c, 0, true), f32);
    CHECK_NOTHROW(c.call(x));
    const amp::autocast on;
    CHECK_THROWS_AS(c.call(x), Error);
    const amp::disable_casts off;
    CHECK_NOTHROW(c.call(x));
  }
}
