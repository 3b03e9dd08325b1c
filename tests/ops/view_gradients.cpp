// Gradients through every view op: by finite differences, and of a view whose base is overwritten
// afterwards. Some views show an element several times, and some bases are not row-major.
#include <set>

#include "../support/catch.h"
#include "samples.h"

using namespace mezzo;
using cases::test_device;

namespace {

struct View {
  const char* op;  // the registered name
  Tensor (*of)(const Tensor& base);
};

// Views of a tensor of shape [2,3,2,2].
const View kViews[] = {
    {"as_strided", [](const Tensor& x) { return x.as_strided({3, 3}, {1, 1}, 2); }},
    {"as_strided", [](const Tensor& x) { return x.as_strided({2, 3, 2}, {0, 2, 1}, 1); }},
    {"as_strided", [](const Tensor& x) { return x.as_strided({3, 2}, {2, 7}); }},
    {"as_strided", [](const Tensor& x) { return x.as_strided({4}, {0}, 5); }},
    {"diagonal", [](const Tensor& x) { return x.diagonal(1, 0, 1); }},
    {"expand", [](const Tensor& x) { return x.expand({3, 2, 3, 2, 2}); }},
    {"expand", [](const Tensor& x) { return x.narrow(1, 1, 1).expand({2, 4, 2, 2}); }},
    {"permute", [](const Tensor& x) { return x.permute({2, 0, 3, 1}); }},
    {"select", [](const Tensor& x) { return x.select(1, 2); }},
    {"slice", [](const Tensor& x) { return x.slice(1, 0, 3, 2); }},
    {"view", [](const Tensor& x) { return x.unsqueeze(1); }},
    {"windows", [](const Tensor& x) { return x.unfold(1, 2, 1); }},
    {"windows",
     [](const Tensor& x) { return x.unfold(1, 2, 1).unfold(2, 2, 1).expand({2, 2, 1, 2, 2, 2}); }},
};

/** Makes a base of shape [2,3,2,2] from x. */
using ViewLayout = Tensor (*)(const Tensor& x);
const ViewLayout kLayouts[] = {
    [](const Tensor& x) { return x * 1; },
    [](const Tensor& x) { return x.to(MemoryFormat::channels_last) * 1; },
};
/** Bases that are views themselves. */
const ViewLayout kViewLayouts[] = {
    [](const Tensor& x) { return x.transpose(1, 3).contiguous().transpose(1, 3); },
    [](const Tensor& x) { return x.narrow(0, 1, 1).expand({2, 3, 2, 2}); },
    [](const Tensor& x) { return x.slice(0, 0, 2); },
};

Tensor view_leaf() {
  std::vector<double> values;
  for (int i = 0; i < 24; ++i) values.push_back(0.25 + (i * 7) % 24 * 0.125);
  const TensorOptions options{.dtype = f64, .device = test_device(), .requires_grad = true};
  return tensor(values, {2, 3, 2, 2}, options);
}

Tensor weighted(const Tensor& y) {
  const TensorOptions options{.dtype = f64, .device = y.device()};
  return y * y * (arange(static_cast<double>(y.numel()), options) + 1).view(y.shape());
}

std::vector<double> gradient(const Tensor& y, const Tensor& x) {
  return grad(sum(weighted(y)), x).to_vector<double>();
}

}  // namespace

TEST_CASE("gradients through views agree with finite differences", "[ops][views]") {
  std::vector<ViewLayout> layouts(std::begin(kLayouts), std::end(kLayouts));
  layouts.insert(layouts.end(), std::begin(kViewLayouts), std::end(kViewLayouts));
  std::set<std::string_view> tried;
  for (const View& view : kViews)
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      INFO(view.op << " " << &view - kViews << " of base " << i);
      const auto f = [&](const std::vector<Tensor>& x) {
        return std::vector<Tensor>{weighted(view.of(layouts[i](x[0])))};
      };
      const GradcheckResult first = gradcheck(f, {view_leaf()});
      INFO(first.report);
      CHECK(first);
      if (i < 2) CHECK(gradgradcheck(f, {view_leaf()}));
      tried.insert(view.op);
    }
  for (const OpInfo* info : all_ops())
    if (info->traits.view) CHECK(tried.count(info->traits.name) == 1);
}

TEST_CASE("a view of an overwritten base has the new elements and gradients", "[ops][views]") {
  for (const View& view : kViews)
    for (const ViewLayout layout : kLayouts) {
      INFO(view.op << " " << &view - kViews << " of base " << (layout == kLayouts[0] ? 0 : 1));
      const Tensor x = view_leaf(), base = layout(x), early = view.of(base);
      base *= base;
      const Tensor y = layout(x), late = view.of(y * y);
      CHECK(early.to_vector<double>() == late.to_vector<double>());
      CHECK(gradient(early, x) == gradient(late, x));
    }
}

TEST_CASE("as_strided beyond its operand's view has no gradient there", "[ops][views]") {
  const Tensor x = view_leaf(), row = x.view({4, 6})[2];
  row.as_strided({2, 6}, {6, 1}, -6)
      .backward(ones({2, 6}, {.dtype = f64, .device = test_device()}));
  const Tensor expected = zeros({4, 6}, {.dtype = f64, .device = test_device()});
  expected[2].fill_(1);
  CHECK(x.grad().to_vector<double>() == expected.to_vector<double>());
}

TEST_CASE("a write through a view handles a channels-last gradient", "[ops][views]") {
  const Tensor x = view_leaf(), base = x * 1;
  base.slice(1, 0, 1) *= 2.0;
  const Tensor y = base.to(MemoryFormat::channels_last);
  const std::vector<double> got = gradient(y, x);
  const Tensor factor = ones({2, 3, 2, 2}, {.dtype = f64, .device = test_device()});
  factor.slice(1, 0, 1).fill_(2);
  CHECK(got == gradient(x * factor, x));
}

TEST_CASE("gradients of an element that a view shows several times are rounded once",
          "[ops][views]") {
  const TensorOptions half{.dtype = f16, .device = test_device()};
  const Tensor x = zeros({3}, half).requires_grad_();
  // 2048 + 1 + 1 for x[1], along the repeated dimension and across windows.
  const Tensor g = tensor({0., 2048, 1, 0, 0, 1, 0, 0}, {2, 2, 2}, half);
  x.as_strided({2, 2, 2}, {0, 1, 1}).backward(g);
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 2050, 0});
}
