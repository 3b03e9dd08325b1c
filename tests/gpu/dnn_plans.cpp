// cuDNN's plans for our convolutions, without a GPU: it plans for a described device, here an H200.
#include <mezzo.h>

#include <algorithm>
#include <string>

#include "../../cuda/dnn/plan.h"
#include "../support/device.h"
#include "described.h"

using namespace mezzo;
using namespace mezzo::gpu::dnn;

namespace {

using Wanted = Convolution::Wanted;

struct ConvPlanCase {
  const char* name;
  int dims;
  std::int64_t batch, in, out, groups;  // in and out count channels
  op::Extent size, kernel, stride, dilation, pad;
};

const std::vector<ConvPlanCase> kConvPlanCases{
    {"lenet conv1", 2, 128, 1, 32, 1, {1, 28, 28}, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 2, 2}},
    {"lenet conv2", 2, 128, 32, 64, 1, {1, 14, 14}, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 2, 2}},
    {"resnet block", 2, 32, 64, 64, 1, {1, 32, 32}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
    {"resnet down", 2, 32, 64, 128, 1, {1, 32, 32}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}},
    {"resnet shortcut", 2, 32, 64, 128, 1, {1, 32, 32}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}},
    {"depthwise", 2, 32, 64, 64, 64, {1, 32, 32}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
    {"groups", 2, 32, 64, 64, 4, {1, 32, 32}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
    {"dilated", 2, 8, 16, 32, 1, {1, 32, 32}, {1, 3, 3}, {1, 1, 1}, {1, 2, 2}, {0, 2, 2}},
    {"odd", 2, 3, 5, 7, 1, {1, 11, 13}, {1, 3, 2}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
    {"1-d", 1, 16, 64, 64, 1, {1, 1, 256}, {1, 1, 5}, {1, 1, 1}, {1, 1, 1}, {0, 0, 2}},
    {"3-d", 3, 4, 16, 32, 1, {8, 16, 16}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
};

Convolution planned_convolution(const ConvPlanCase& c, DType dtype, Wanted wanted,
                                MemoryFormat format = MemoryFormat::contiguous) {
  op::ConvGeometry g{c.groups, c.size, {}, c.kernel, c.stride, c.dilation, c.pad};
  for (std::size_t d = 0; d < 3; ++d)
    g.out[d] = (g.in[d] + 2 * g.pad[d] - (g.kernel[d] - 1) * g.dilation[d] - 1) / g.stride[d] + 1;
  return {.wanted = wanted,
          .dims = c.dims,
          .format = format,
          .x = {nullptr, dtype, c.batch, c.in, g.in},
          .y = {nullptr, dtype, c.batch, c.out, g.out},
          .geometry = g};
}

}  // namespace

TEST_CASE(
    "cuDNN has an engine for every convolution of the sample nets, in both directions and with a "
    "bias",
    "[dnn]") {
  NEED_CUDNN();
  const Descriptor device = described::properties();
  alignas(16) const char bias = 0;
  for (const DType dtype : {f16, bf16, f32})
    for (const ConvPlanCase& c : kConvPlanCases) {
      INFO(name(dtype) << " " << c.name);
      for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
        // The engines of f16 are those of bf16.
        if (!testing::is_thorough() && dtype == (format == MemoryFormat::contiguous ? bf16 : f16))
          continue;
        INFO(name(format));
        for (const Wanted wanted : {Wanted::y, Wanted::x, Wanted::weight})
          CHECK(plan(planned_convolution(c, dtype, wanted, format), {.properties = &device}));
        Convolution biased = planned_convolution(c, dtype, Wanted::y, format);
        biased.bias = &bias;
        CHECK(plan(biased, {.properties = &device}));
      }
    }
}

TEST_CASE("16-bit convolutions run on Tensor Cores, f32 ones only where TF32 is allowed", "[dnn]") {
  NEED_CUDNN();
  const Descriptor device = described::properties();
  const auto on_tensor_cores = [&](DType dtype) {
    const auto found =
        plan(planned_convolution(kConvPlanCases[2], dtype, Wanted::y), {.properties = &device});
    return found && found->tensor_cores;
  };
  CHECK(on_tensor_cores(f16));
  CHECK(on_tensor_cores(bf16));
  CHECK_FALSE(on_tensor_cores(f32));
  set_allow_tf32(true);
  CHECK(on_tensor_cores(f32));
  set_allow_tf32(false);
}

TEST_CASE("engines named grouped direct come last, except for convolutions in groups", "[dnn]") {
  NEED_CUDNN();
  const Descriptor device = described::properties();
  for (const char* name : {"resnet block", "resnet down", "resnet shortcut", "dilated"})
    for (const Wanted wanted : {Wanted::y, Wanted::x, Wanted::weight})
      for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
        const auto c =
            std::find_if(kConvPlanCases.begin(), kConvPlanCases.end(),
                         [&](const ConvPlanCase& of) { return std::string(of.name) == name; });
        INFO(name << " " << mezzo::name(format) << " " << static_cast<int>(wanted));
        const Convolution problem = planned_convolution(*c, f32, wanted, format);
        bool was_last = false;
        int index = -1, others = 0;
        while (const auto found = plan(problem, {.properties = &device}, index + 1)) {
          CHECK(found->index > index);
          CHECK((found->last_resort || !was_last));
          was_last = found->last_resort;
          index = found->index;
          others += was_last ? 0 : 1;
        }
        CHECK(others > 0);
        CHECK(was_last);
      }
  const auto grouped =
      plan(planned_convolution(kConvPlanCases[5], f32, Wanted::y), {.properties = &device});
  REQUIRE(grouped);
  CHECK_FALSE(grouped->last_resort);
}

TEST_CASE("operands need only the alignment of their elements", "[dnn]") {
  NEED_CUDNN();
  const Descriptor device = described::properties();
  alignas(16) const char memory[16] = {};
  Convolution c = planned_convolution(kConvPlanCases[2], f16, Wanted::y);
  c.x.data = c.y.data = c.weight = c.bias = memory + 2;
  CHECK(plan(c, {.properties = &device}));
}

TEST_CASE("where an engine fails, cuDNN offers another", "[dnn]") {
  NEED_CUDNN();
  const Descriptor device = described::properties();
  for (const DType dtype : {f16, f32}) {
    const Convolution c = planned_convolution(kConvPlanCases[2], dtype, Wanted::y);
    const auto first = plan(c, {.properties = &device});
    REQUIRE(first);
    const auto next = plan(c, {.properties = &device}, first->index + 1);
    REQUIRE(next);
    CHECK(next->index > first->index);
    CHECK_FALSE(plan(c, {.properties = &device}, 1000));
  }
}

TEST_CASE("a convolution whose result omits positions runs on our own kernel", "[dnn]") {
  NEED_CUDNN();
  const Descriptor device = described::properties();
  Convolution c = planned_convolution(kConvPlanCases[2], f32, Wanted::y);
  c.geometry.out[2] = c.y.size[2] = 20;
  CHECK_FALSE(plan(c, {.properties = &device}));
}
