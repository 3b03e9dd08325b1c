// Generated test of the in-place forms of elementwise ops without options: values and gradients are
// the op's, the version is bumped once, and only the written view changes.
#include "../support/catch.h"
#include "samples.h"

using namespace mezzo;
using namespace cases;

namespace {

/** Returns whether a case has all operands of the op, all of them floating. */
bool is_plain(const Case& c, const OpInfo& info) {
  const OpTraits& traits = info.traits;
  for (const Operand& operand : c.operands)
    if (operand.integers || operand.boolean) return false;
  return c.operands.size() == static_cast<std::size_t>(traits.inputs) && info.elementwise &&
         traits.in_place && !traits.internal && traits.mask == MaskOperand::none &&
         info.attrs.bytes == sizeof(NoAttrs);
}

// The options of both forms. NoAttrs has one byte, whose value is not used.
constexpr char kNoOptions[1] = {};

Tensor out_of_place(const OpInfo& info, std::vector<Tensor> in) {
  Tensor out;
  run(info, in, {&out, 1}, kNoOptions);
  return out;
}

void in_place(const OpInfo& info, std::vector<Tensor> in) { run_in_place(info, in, kNoOptions); }

std::vector<Tensor> leaves(const Case& c, const std::vector<Array>& values, DType dtype,
                           bool wanted) {
  std::vector<Tensor> x = to_tensors(c, values, dtype);
  for (Tensor& t : x)
    if (wanted && is_floating(t.dtype())) t.requires_grad_();
  return x;
}

void compare_forms(const Case& c, const OpInfo& info, std::size_t s, DType dtype) {
  const std::vector<Array> values = draw(c, s, true);
  const std::vector<Tensor> x = leaves(c, values, dtype, info.traits.differentiable);
  const Tensor expected = out_of_place(info, x);
  if (!(expected.shape() == x[0].shape())) return;
  // A view of every other element of a larger tensor, so that writes outside it show.
  Shape roomy = x[0].shape();
  roomy.push_back(2);
  const std::vector<Tensor> again = leaves(c, values, dtype, info.traits.differentiable);
  const Tensor base = full(roomy, 77, {.dtype = dtype, .device = test_device()}),
               self = base.select(-1, 0);
  self.copy_(again[0]);
  const std::uint32_t version = base.version();
  std::vector<Tensor> operands = again;
  operands[0] = self;
  in_place(info, operands);
  CHECK(same_bits(self, expected.to(dtype)));
  CHECK(same_bits(base.select(-1, 1),
                  full(x[0].shape(), 77, {.dtype = dtype, .device = test_device()})));
  CHECK(base.version() == version + 1);
  if (!expected.requires_grad()) return;
  const Tensor g = full(expected.shape(), 0.5, {.dtype = dtype, .device = test_device()});
  const std::vector<Tensor> got = grad(std::span(&self, 1), again, {.allow_unused = true},
                                       std::span(&g, 1)),
                            wanted = grad(std::span(&expected, 1), x, {.allow_unused = true},
                                          std::span(&g, 1));
  for (std::size_t k = 0; k < got.size(); ++k) {
    CHECK(got[k].defined() == wanted[k].defined());
    if (got[k].defined() && wanted[k].defined()) CHECK(same_bits(got[k], wanted[k]));
  }
}

}  // namespace

TEST_CASE("in-place forms give the same results as the op", "[ops][in_place]") {
  int compared = 0;
  for (const Case& c : all_cases()) {
    const OpInfo* info = find_op(c.op);
    if (!info || !is_plain(c, *info) || !runs_here(c, Depth::gradients)) continue;
    for (const DType dtype : {f64, f32, f16, bf16})
      for (std::size_t s = 0; s < samples_of(c).size(); ++s) {
        INFO(label(c, s) << " in " << name(dtype));
        compare_forms(c, *info, s, dtype);
        ++compared;
      }
  }
  CHECK(compared > 500);
}
