// Generated test of memory: guards around every block of every op case, and blocks filled with nan.
#include "guard_allocator.h"

#include "../support/catch.h"
#include "samples.h"

using namespace mezzo;
using namespace cases;

namespace {

/** Returns the results of a case and the gradients of its floating operands. */
std::vector<Tensor> everything(const Case& c, std::size_t s, DType dtype) {
  const std::vector<Tensor> x = to_tensors(c, draw(c, s, true), dtype);
  if (c.gradients)
    for (std::size_t k = 0; k < x.size(); ++k)
      if (is_floating(x[k].dtype()) && !c.operands[k].constant) x[k].requires_grad_();
  std::vector<Tensor> all = c.call(x), outputs, seeds, wanted;
  for (const Tensor& y : all)
    if (y.requires_grad()) {
      outputs.push_back(y);
      seeds.push_back(full(y.shape(), 0.5, {.dtype = y.dtype()}));
    }
  for (const Tensor& t : x)
    if (t.requires_grad()) wanted.push_back(t);
  if (outputs.empty() || wanted.empty()) return all;
  for (const Tensor& g : grad(outputs, wanted, {.allow_unused = true}, seeds))
    if (g.defined()) all.push_back(g);
  return all;
}

}  // namespace

TEST_CASE("no op writes outside its results or reads uninitialised memory", "[ops][guards]") {
  GuardAllocator& guards = install_guards();
  for (const DType dtype : {f64, f32, f16})
    for (const Case& c : all_cases()) {
      if (is_low(dtype) && !c.half) continue;
      for (std::size_t s = 0; s < samples_of(c).size(); ++s) {
        INFO(label(c, s) << " in " << name(dtype));
        guards.set_unwritten(0xFF);
        const std::vector<Tensor> with_nan = everything(c, s, dtype);
        guards.set_unwritten(0x3C);
        const std::vector<Tensor> with_numbers = everything(c, s, dtype);
        REQUIRE(with_nan.size() == with_numbers.size());
        for (std::size_t i = 0; i < with_nan.size(); ++i)
          CHECK(same_bits(with_nan[i], with_numbers[i]));
        REQUIRE(guards.damaged() == 0);
      }
    }
  CHECK(guards.guarded() > 10000);
}

TEST_CASE("the guards detect a write on either side", "[ops][guards]") {
  GuardAllocator& guards = install_guards();
  const Tensor x = zeros({16}, {.dtype = u8});
  auto* bytes = static_cast<unsigned char*>(x.raw_data());
  for (const std::ptrdiff_t place : {-1, 16}) {
    const unsigned char before = bytes[place];
    bytes[place] ^= 1;
    CHECK(guards.damaged() == 1);
    bytes[place] = before;
    CHECK(guards.damaged() == 0);
  }
}
