// cuDNN's plans for our attention, without a GPU: its fused engines are queried for plans on
// described H200 and A100 devices.
#include <mezzo.h>

#include "../../cuda/dnn/plan.h"
#include "../support/device.h"
#include "described.h"

using namespace mezzo;
using namespace mezzo::gpu::dnn;

namespace {

using AttentionWanted = Attention::Wanted;

/** Heads in rows of `across` heads: 1 where each head is contiguous, 3 times the number of heads
 *  for thirds of one projection. */
struct AttentionCase {
  const char* name;
  std::int64_t entries, heads, key_heads, queries, keys, features, values;
  bool is_causal;
  std::int64_t across = 1;
  Attention::Bias bias = {};
  bool drops = false;
};
const AttentionCase kGpt{"gpt", 8, 12, 12, 1024, 1024, 64, 64, true, 36};
const std::vector<AttentionCase> kAttentionCases{
    kGpt,
    {"wide heads", 2, 16, 16, 2048, 2048, 128, 128, true},
    {"small", 2, 4, 4, 32, 32, 8, 8, false},
    {"odd lengths", 3, 5, 5, 37, 41, 64, 64, false, 5},
    {"more keys", 2, 2, 2, 33, 70, 40, 24, true},
    {"more queries", 2, 2, 2, 70, 33, 24, 40, true},
    {"two of each", 1, 1, 1, 2, 2, 16, 16, true},
    {"one query", 8, 12, 12, 1, 77, 64, 64, false},
    {"padded keys", 8, 12, 12, 512, 512, 64, 64, false, 36, {nullptr, 8, 1, 1}},
    {"padded keys, dropout", 8, 12, 12, 512, 512, 64, 64, false, 36, {nullptr, 8, 1, 1}, true},
    {"bias of heads", 2, 4, 4, 37, 41, 64, 64, false, 1, {nullptr, 1, 4, 37}},
    {"bias of scores", 2, 4, 4, 37, 41, 64, 64, true, 1, {nullptr, 2, 4, 37}, true},
    {"dropout", 8, 12, 12, 1024, 1024, 64, 64, true, 36, {}, true},
    {"one query, mask, dropout", 8, 12, 12, 1, 80, 64, 64, false, 1, {nullptr, 8, 1, 1}, true},
};

Attention planned_attention(const AttentionCase& c, DType dtype, AttentionWanted wanted) {
  const auto rows = [&](std::int64_t heads, std::int64_t count, std::int64_t columns) {
    Attention::Rows x{.row = c.across * columns};
    x.head = c.across == 1 ? count * columns : columns;
    x.entry = c.across == 1 ? heads * x.head : count * x.row;
    return x;
  };
  return {.wanted = wanted,
          .dtype = dtype,
          .entries = c.entries,
          .heads = c.heads,
          .key_heads = c.key_heads,
          .queries = c.queries,
          .keys = c.keys,
          .features = c.features,
          .values = c.values,
          .is_causal = c.is_causal,
          .drops = c.drops,
          .keep_probability = c.drops ? 0.9 : 1,
          .q = rows(c.heads, c.queries, c.features),
          .k = rows(c.key_heads, c.keys, c.features),
          .v = rows(c.key_heads, c.keys, c.values),
          .bias = c.bias,
          .g = rows(c.heads, c.queries, c.values),
          .y = rows(c.heads, c.queries, c.values),
          .dq = rows(c.heads, c.queries, c.features),
          .dk = rows(c.key_heads, c.keys, c.features),
          .dv = rows(c.key_heads, c.keys, c.values)};
}

}  // namespace

TEST_CASE("cuDNN has an engine for attention and for its gradients on Hopper and on Ampere",
          "[dnn]") {
  NEED_CUDNN();
  for (const described::Gpu& gpu : {described::kH200, described::kA100}) {
    const Descriptor device = described::properties(gpu);
    for (const AttentionCase& c : kAttentionCases)
      for (const AttentionWanted wanted : {AttentionWanted::y, AttentionWanted::gradients}) {
        // A GPU that has an engine for gradients has one for the result.
        if (!testing::is_thorough() && wanted == AttentionWanted::y && &c != &kAttentionCases[0] &&
            gpu.capability != described::kH200.capability)
          continue;
        INFO(gpu.name << " " << c.name << (wanted == AttentionWanted::y ? "" : ", gradients"));
        const auto found =
            plan(planned_attention(c, &c == &kAttentionCases[3] ? bf16 : f16, wanted),
                 {.properties = &device});
        REQUIRE(found);
        CHECK(found->tensor_cores);
        if (wanted == AttentionWanted::y) CHECK(found->workspace < 4096);
      }
  }
}

TEST_CASE("cuDNN has an engine for heads that share keys", "[dnn]") {
  NEED_CUDNN();
  const Descriptor device = described::properties();
  for (const std::int64_t key_heads : {1, 2})
    CHECK(plan(
        planned_attention({"", 2, 8, key_heads, 64, 80, 64, 64, true}, bf16, AttentionWanted::y),
        {.properties = &device}));
}

TEST_CASE("cuDNN's attention gradients use no atomic additions in memory", "[dnn]") {
  NEED_CUDNN();
  for (const described::Gpu& gpu : {described::kH200, described::kA100}) {
    INFO(gpu.name);
    const Descriptor device = described::properties(gpu);
    const auto found =
        plan(planned_attention(kGpt, f16, AttentionWanted::gradients), {.properties = &device});
    REQUIRE(found);
    // The workspace holds a gradient for each score, from which q's gradients are computed as a
    // product.
    CHECK(found->workspace >= kGpt.entries * kGpt.heads * kGpt.queries * kGpt.keys * 2);
    AttentionCase large = kGpt;
    large.queries = large.keys = 4096;
    CHECK_FALSE(
        plan(planned_attention(large, f16, AttentionWanted::gradients), {.properties = &device}));
    CHECK(plan(planned_attention(large, f16, AttentionWanted::y), {.properties = &device}));
  }
}

TEST_CASE("cuDNN's attention gradients that need not repeat keep no scores in memory", "[dnn]") {
  NEED_CUDNN();
  AttentionCase large = kGpt;
  large.queries = large.keys = 4096;
  const AttentionCase dropout = kAttentionCases[12];
  for (const described::Gpu& gpu : {described::kH200, described::kA100}) {
    const Descriptor device = described::properties(gpu);
    for (const AttentionCase& c : {kGpt, large, dropout}) {
      INFO(gpu.name << " " << c.name << " " << c.keys);
      Attention attention = planned_attention(c, bf16, AttentionWanted::gradients);
      attention.repeats = false;
      const auto found = plan(attention, {.properties = &device});
      REQUIRE(found);
      CHECK(found->tensor_cores);
      // On Ampere the engine has sums of its own for the gradients of queries.
      const std::int64_t sums = c.entries * c.heads * c.queries * c.features * 4;
      CHECK(found->workspace < sums + (1 << 20));
    }
  }
}
