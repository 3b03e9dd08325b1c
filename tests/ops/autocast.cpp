// Generated tests of autocast: a call under autocast has the same bits as casting by the op's tag
// and calling without autocast.
#include <optional>

#include "../support/catch.h"
#include "../support/throws.h"
#include "samples.h"

using namespace mezzo;
using namespace cases;

namespace {

/** In-place forms have their own rule: self is never cast. */
bool is_in_place(const Case& c) { return c.variant.find("in place") != std::string::npos; }

/** Returns the dtype to which autocast casts an operand of an op with this tag. */
DType cast_dtype(Precision tag, DType dtype, DType low) {
  if (!amp::eligible(dtype)) return dtype;
  switch (amp::action(tag, true)) {
    case amp::Action::to_low: return low;
    case amp::Action::to_f32: return f32;
    case amp::Action::keep:
    case amp::Action::promote:
    case amp::Action::refuse: break;
  }
  return dtype;
}

struct Outcome {
  std::vector<Tensor> results, gradients;
};

/** Runs `call` on leaves and computes the gradients of its differentiable results. */
Outcome outcome(const Case& c, const std::vector<Tensor>& leaves, const Call& call) {
  Outcome o;
  o.results = call(leaves);
  if (!c.gradients) return o;
  std::vector<Tensor> outputs, seeds, wanted;
  for (const Tensor& y : o.results) {
    if (!y.requires_grad()) continue;
    outputs.push_back(y);
    seeds.push_back(full_like(y, 0.3));  // not representable in f16 or bf16, so that rounding shows
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

TEST_CASE("under autocast an op equals its casts followed by the op, bit for bit",
          "[ops][autocast][sharded]") {
  for (const Case& c : all_cases()) {
    const OpInfo* info = find_op(c.op);
    if (!in_shard(c) || !info || !c.half || !c.single_op || is_in_place(c) ||
        info->traits.precision == Precision::banned || !runs_here(c, Depth::gradients))
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
            for (Tensor& t : x) t = t.to(cast_dtype(info->traits.precision, t.dtype(), low));
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

namespace {

/** The dtype of each operand of a call. */
using Dtypes = std::vector<DType>;

/** Returns lists of dtypes in which one operand differs from the others, each in turn. */
std::vector<Dtypes> mixtures(const Case& c) {
  std::vector<Dtypes> all;
  for (std::size_t k = 0; k < c.operands.size(); ++k)
    for (const auto& [one, others] :
         {std::pair(f32, f16), std::pair(f16, f32), std::pair(bf16, f16), std::pair(f64, f32)}) {
      Dtypes dtypes(c.operands.size(), others);
      dtypes[k] = one;
      all.push_back(std::move(dtypes));
    }
  return all;
}

std::vector<Tensor> mixed_leaves(const Case& c, std::size_t s, const Dtypes& dtypes) {
  const std::vector<Array> values = draw(c, s, true);
  std::vector<Tensor> x;
  for (std::size_t k = 0; k < values.size(); ++k) {
    x.push_back(to_tensor(values[k], c.operands[k], dtypes[k]));
    if (c.gradients && is_floating(x[k].dtype())) x[k].requires_grad_();
  }
  return x;
}

/** Returns `x` as an op of this tag receives it: cast, or promoted where the op promotes. A 0-dim
 *  operand that is wider than the others is not converted. */
std::vector<Tensor> received(Precision tag, std::vector<Tensor> x, DType low) {
  const DType widest = promoted_dtype(x);
  for (Tensor& t : x) {
    if (!is_floating(t.dtype())) continue;
    if (tag != Precision::promote)
      t = t.to(cast_dtype(tag, t.dtype(), low));
    else if (promote(t.dtype(), widest) == widest)
      t = t.to(widest);
  }
  return x;
}

/** The outcome of a call or the type of its error. */
struct Ending {
  std::optional<Outcome> outcome;
  std::string error;
};

Ending ending(const Case& c, const std::vector<Tensor>& leaves, const Call& call) {
  try {
    return {outcome(c, leaves, call), ""};
  } catch (const DtypeError&) {
    return {{}, "DtypeError"};
  } catch (const ValueError&) {
    return {{}, "ValueError"};
  }
}

void check_same(const Ending& got, const Ending& expected) {
  CHECK(got.error == expected.error);
  if (!got.outcome || !expected.outcome) return;
  for (const auto part : {&Outcome::results, &Outcome::gradients}) {
    const std::vector<Tensor>&a = (*got.outcome).*part, &b = (*expected.outcome).*part;
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      CHECK(a[i].defined() == b[i].defined());
      if (a[i].defined() && b[i].defined()) CHECK(same_bits(a[i], b[i]));
    }
  }
}

}  // namespace

TEST_CASE("operands of different dtypes and their gradients are cast or promoted, bit for bit",
          "[ops][autocast][sharded]") {
  for (const Case& c : all_cases()) {
    const OpInfo* info = find_op(c.op);
    const bool one_operand = c.operands.size() < 2;
    if (!in_shard(c) || !info || one_operand || !c.half || !c.single_op || is_in_place(c) ||
        info->traits.precision == Precision::banned || !runs_here(c, Depth::gradients))
      continue;
    const Precision tag = info->traits.precision;
    for (std::size_t s = 0; s < samples_of(c).size(); ++s)
      for (const Dtypes& dtypes : mixtures(c)) {
        std::string text;
        for (const DType dtype : dtypes) text += str(" ", dtype);
        INFO(label(c, s) << " on" << text);
        const auto plain = [&](const Call& call) {
          return ending(c, mixed_leaves(c, s, dtypes), call);
        };
        const auto expected = [&](DType low) {
          return plain([&](const std::vector<Tensor>& x) { return c.call(received(tag, x, low)); });
        };
        for (const DType low : {f16, bf16}) {
          INFO("under autocast to " << name(low));
          const Ending got = [&] {
            const amp::autocast on({.dtype = low});
            return plain(c.call);
          }();
          check_same(got, expected(low));
        }
        // Promotion does not depend on autocast.
        if (tag == Precision::promote) check_same(plain(c.call), expected(f16));
      }
  }
}

TEST_CASE("banned ops throw under autocast and run without", "[ops][autocast]") {
  for (const Case& c : all_cases()) {
    const OpInfo* info = find_op(c.op);
    if (!info || info->traits.precision != Precision::banned || !runs_here(c, Depth::values))
      continue;
    INFO(label(c, 0));
    const std::vector<Tensor> x = to_tensors(c, draw(c, 0, true), f32);
    CHECK_NOTHROW(c.call(x));
    const amp::autocast on;
    CHECK_THROWS_AS(c.call(x), Error);
    const amp::disable_casts off;
    CHECK_NOTHROW(c.call(x));
  }
}
