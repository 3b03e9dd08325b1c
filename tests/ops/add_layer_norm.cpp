// nn::add_layer_norm against add and layer_norm: the same bits forward and backward, also where it
// calls the parts.
#include <mezzo.h>

#include <cmath>
#include <optional>

#include "../support/catch.h"
#include "../support/throws.h"
#include "joined.h"

using namespace mezzo;
using namespace cases::joined;

namespace {

/** Operands of a layer norm of x + branch over the last dimension. */
struct LayerNormOperands {
  Tensor x, branch;
  nn::LayerNorm layer;
  std::optional<DType> rounds;  // the norm, before it is used

  LayerNormOperands(DType dtype, const Shape& shape, DType of_weight,
                    const nn::LayerNormLayerOptions& its)
      : x(leaf(shape, dtype, 2)),
        branch(leaf(shape, dtype, 1)),
        layer(shape[shape.rank() - 1], its) {
    layer.to(x.device());
    layer.to(of_weight);
    const NoGrad no_grad;
    for (const Tensor& p : layer.parameters()) p.add_(randn(p.shape()).to(p.device()));
  }
  std::vector<Tensor> leaves() const {
    std::vector<Tensor> all;
    for (const Tensor& t : {x, branch, layer.weight(), layer.bias()})
      if (t.defined() && t.requires_grad()) all.push_back(t);
    return all;
  }
  nn::SumAndNorm results(bool joined) const {
    if (joined) return nn::add_layer_norm(layer, x, branch);
    const Tensor sum = x + branch;
    return {sum, layer(sum)};
  }
  /** Returns both results and the gradients of a loss of the norm and, if it `uses_sum`, the sum.
   */
  std::vector<Tensor> values(bool joined, bool uses_sum = true, bool uses_norm = true) const {
    const nn::SumAndNorm y = results(joined);
    std::vector<Tensor> out{y.sum.detach(), y.norm.detach()}, used, seeds;
    if (uses_sum) used.push_back(y.sum * 0.75);
    if (uses_norm) used.push_back((rounds ? y.norm.to(*rounds) : y.norm) * 1.5);
    for (const Tensor& t : used) {
      std::vector<double> seed;
      for (std::int64_t i = 0; i < t.numel(); ++i)
        seed.push_back(
            static_cast<double>((i + static_cast<std::int64_t>(seeds.size())) % 7) * 0.25 - 0.5);
      seeds.push_back(tensor(seed, t.shape(), {.dtype = t.dtype(), .device = t.device()}));
    }
    for (const Tensor& g : grad(used, leaves(), {.allow_unused = true}, seeds))
      if (g.defined()) out.push_back(g);
    return out;
  }
  bool agree(bool uses_sum = true, bool uses_norm = true) const {
    return same_bits(values(true, uses_sum, uses_norm), values(false, uses_sum, uses_norm));
  }
};

/** Returns x at an address that is no multiple of 16 bytes. */
Tensor unaligned(const Tensor& x) {
  const Tensor all = zeros({x.numel() + 1}, {.dtype = x.dtype(), .device = x.device()});
  const Tensor view = all.slice(0, 1, x.numel() + 1).view(x.shape());
  view.copy_(x);
  return view.requires_grad_();
}

}  // namespace

TEST_CASE("add_layer_norm has the bits of add and layer_norm", "[ops]") {
  manual_seed(31);
  int turn = 0;
  for (const DType dtype : {f64, f32, f16, bf16})
    // odd rows; rows of packs, held and in several chunks; few and many rows
    for (const Shape& shape : {Shape{4, 3}, Shape{2, 3, 8}, Shape{300, 40}, Shape{3, 768},
                               Shape{2, 8448}, Shape{1, 17000}, Shape{0, 8}, Shape{2, 0}})
      for (const nn::LayerNormLayerOptions& options :
           {nn::LayerNormLayerOptions{}, {.affine = false}, {.bias = false}}) {
        if (testing::is_slow() && turn++ % 2 != 0) continue;
        INFO(name(dtype) << ", " << str(shape) << (options.affine ? ", affine" : "")
                         << (options.bias ? ", bias" : ""));
        CHECK(LayerNormOperands(dtype, shape, dtype, options).agree());
        if (is_low(dtype)) CHECK(LayerNormOperands(dtype, shape, f32, options).agree());
      }
}

TEST_CASE("add_layer_norm of f32 and a 16-bit branch has the bits of its parts", "[ops]") {
  manual_seed(37);
  int turn = 0;
  for (const DType low : {f16, bf16})
    // odd rows; rows of packs of f32, and of 16 bits, held and in several chunks
    for (const Shape& shape :
         {Shape{4, 3}, Shape{2, 3, 4}, Shape{300, 40}, Shape{3, 768}, Shape{2, 8448}, Shape{0, 8}})
      for (const nn::LayerNormLayerOptions& options :
           {nn::LayerNormLayerOptions{}, {.affine = false}, {.bias = false}})
        for (const bool rounds : {false, true}) {
          if (testing::is_slow() && turn++ % 5 != 0) continue;
          INFO(name(low) << ", " << str(shape) << (options.affine ? ", affine" : "")
                         << (rounds ? ", rounded" : ""));
          LayerNormOperands o(f32, shape, f32, options);
          o.branch = leaf(shape, low, 1);
          if (rounds) o.rounds = low;
          CHECK(o.agree());
          CHECK(o.agree(false, true));
          o.rounds = low == f16 ? bf16 : f16;  // other than the branch
          CHECK(o.agree());
          const amp::autocast casts({.dtype = low});
          CHECK(o.agree());
        }
}

TEST_CASE("add_layer_norm of a 16-bit branch takes any layout, nan and overflow", "[ops]") {
  manual_seed(38);
  LayerNormOperands o(f32, {12, 32}, f32, {});
  o.rounds = f16;
  const Tensor branch = leaf({12, 32}, f16, 1);
  o.branch = branch.detach().t().contiguous().t().requires_grad_();
  CHECK(o.agree());
  o.branch = unaligned(branch.detach());
  CHECK(o.agree());
  {
    const NoGrad no_grad;
    o.x.select(0, 0).fill_(std::nan(""));
    o.branch.select(0, 1).fill_(INFINITY);
    o.x.select(0, 2).fill_(1e30);               // its gradient underflows in f16
    o.layer.weight().select(0, 3).fill_(1e30);  // the norm overflows in f16
  }
  CHECK(o.agree());
}

TEST_CASE("add_layer_norm has the bits of its parts where only one result is used", "[ops]") {
  manual_seed(32);
  for (const DType dtype : {f32, f16})
    for (const std::int64_t width : {7, 64}) {
      const LayerNormOperands o(dtype, {9, width}, dtype, {});
      CHECK(o.agree(false, true));
      CHECK(o.agree(true, false));
    }
}

TEST_CASE("add_layer_norm computes only the requested gradients", "[ops]") {
  manual_seed(33);
  for (const std::int64_t width : {5, 16})
    for (int wanted = 1; wanted < 16; ++wanted) {
      const LayerNormOperands o(f16, {6, width}, f16, {});
      const Tensor all[] = {o.x, o.branch, o.layer.weight(), o.layer.bias()};
      for (int i = 0; i < 4; ++i) all[i].requires_grad_((wanted >> i & 1) != 0);
      INFO("wanted " << wanted << ", width " << width);
      CHECK(o.agree((wanted & 3) != 0, true));
    }
}

TEST_CASE("add_layer_norm takes operands in any layout", "[ops]") {
  manual_seed(34);
  for (const DType dtype : {f32, bf16}) {
    LayerNormOperands o(dtype, {12, 32}, dtype, {});
    const Tensor x = o.x, branch = o.branch;
    o.branch = unaligned(branch.detach());
    CHECK(o.agree());
    o.branch = branch.detach().t().contiguous().t().requires_grad_();
    CHECK(o.agree());
    o.x = unaligned(x.detach());
    CHECK(o.agree());
  }
}

TEST_CASE("add_layer_norm propagates nan and infinity as its parts do", "[ops]") {
  manual_seed(35);
  for (const DType dtype : {f32, f16}) {
    const LayerNormOperands o(dtype, {4, 16}, dtype, {});
    {
      const NoGrad no_grad;
      o.x.select(0, 0).fill_(std::nan(""));
      o.branch.select(0, 1).fill_(INFINITY);
      o.x.select(0, 2).fill_(6e4);  // the sum overflows in f16
      o.branch.select(0, 2).fill_(6e4);
    }
    CHECK(o.agree());
  }
}

TEST_CASE("second gradients of add_layer_norm match its parts", "[ops]") {
  manual_seed(36);
  const LayerNormOperands o(f64, {4, 6}, f64, {});
  const auto second = [&](bool joined) {
    const nn::SumAndNorm y = o.results(joined);
    Tensor total = zeros({}, {.dtype = f64, .device = o.x.device()});
    for (const Tensor& g : grad({sum(y.norm * y.norm * y.sum)}, o.leaves(), {.create_graph = true}))
      total = total + sum(g * g);
    return grad({total}, o.leaves());
  };
  const std::vector<Tensor> joined = second(true), parts = second(false);
  for (std::size_t i = 0; i < parts.size(); ++i)
    CHECK(cases::difference(cases::to_array(joined[i]), cases::to_array(parts[i]),
                            {1e-11, 1e-11}) == "");
}

TEST_CASE("norms of rows add their gradient to those of other uses, with the same bits", "[ops]") {
  manual_seed(39);
  for (const DType dtype : {f64, f32, f16, bf16})
    for (const std::int64_t width : {7, 64})
      for (const bool is_rms : {false, true})
        for (const bool norm_first : {false, true}) {
          INFO(name(dtype) << ", " << width << (is_rms ? ", rms" : "")
                           << (norm_first ? ", norm first" : ""));
          const Tensor x = leaf({20, width}, dtype, 2), weight = leaf({width}, dtype, 1);
          Tensor y, other;
          if (!norm_first) other = x * 0.75;
          y = is_rms ? rms_norm(x, {width}, {.weight = weight})
                     : layer_norm(x, {width}, {.weight = weight});
          if (norm_first) other = x * 0.75;
          const Tensor seed = leaf({20, width}, dtype, 1).detach();
          const auto gradients = [&](const std::vector<Tensor>& used) {
            return grad(used, std::vector{x, weight}, {.retain_graph = true, .allow_unused = true},
                        std::vector<Tensor>(used.size(), seed));
          };
          const std::vector<Tensor> both = gradients({y, other}), norm = gradients({y});
          const Tensor sum = gradients({other})[0] + norm[0];
          CHECK(same_bits({both[0], both[1]}, {sum, norm[1]}));
        }
}

TEST_CASE("add_layer_norm keeps the sum for the backward pass", "[ops]") {
  const LayerNormOperands o(f32, {4, 8}, f32, {});
  const nn::SumAndNorm y = o.results(true);
  y.sum.detach().fill_(1);
  CHECK_THROWS_AS(sum(y.norm).backward(), StateError);
  const nn::SumAndNorm z = o.results(true);
  o.x.detach().fill_(1);
  o.branch.detach().fill_(1);
  sum(z.norm).backward();
}

TEST_CASE("add_layer_norm calls its parts where that could be observed", "[ops]") {
  const LayerNormOperands o(f32, {4, 8}, f32, {});
  const auto made_by = [&](const Tensor& branch) {
    return origin(nn::add_layer_norm(o.layer, o.x, branch).norm);
  };
  CHECK(made_by(o.branch) == "add_layer_norm");
  // Kernels of a device repeat the branch.
  CHECK(made_by(o.branch.detach().select(0, 0)) ==
        (o.x.device() == cpu ? "layer_norm" : "add_layer_norm"));
  CHECK(made_by(o.branch.detach().to(f16)) == "add_layer_norm");
  CHECK(made_by(o.branch.detach().to(f64)) == "layer_norm");
  CHECK(made_by({}) == "layer_norm");
  {
    const amp::autocast casts({.dtype = f16});
    CHECK(made_by(o.branch) == "add_layer_norm");
    CHECK(made_by(o.branch.detach().to(bf16)) == "add_layer_norm");
    const amp::policy_override adds{{"add", Precision::low}};
    CHECK(made_by(o.branch) == "layer_norm");
  }
  {
    const amp::autocast casts({.dtype = f16});  // they widen x, weight and bias
    const LayerNormOperands low(f16, {4, 8}, f16, {});
    CHECK(origin(nn::add_layer_norm(low.layer, low.x, low.branch).norm) == "layer_norm");
  }
  const Names seen;
  CHECK(made_by(o.branch) == "layer_norm");
  CHECK(count(seen.names, "add") == 1);
}

TEST_CASE("add_layer_norm has the errors of its parts", "[ops]") {
  const LayerNormOperands o(f32, {4, 8}, f32, {});
  CHECK_THROWS_WITH_AS_TEXT(nn::add_layer_norm(o.layer, o.x, o.branch.detach().t()), ShapeError,
                            "add: ");
  CHECK_THROWS_WITH_AS_TEXT(nn::add_layer_norm(o.layer, o.x.detach().t(), o.branch.detach().t()),
                            ShapeError, "the input does not end in the normalised shape");
  CHECK_THROWS_AS(nn::add_layer_norm(o.layer, Tensor{}, o.branch), ValueError);
}
