// Generated test of in-place ops whose other operands share memory with the tensor they overwrite:
// values and gradients equal those of the same call on copies, and gradients agree with finite
// differences.
#include <cmath>
#include <set>

#include "../support/catch.h"
#include "samples.h"

using namespace mezzo;
using cases::test_device;

namespace {

/** How the other operand relates to the overwritten tensor. */
enum class Overlap { self, whole_view, detached, shifted, repeated_row };

constexpr Overlap kOverlaps[] = {Overlap::self, Overlap::whole_view, Overlap::detached,
                                 Overlap::shifted, Overlap::repeated_row};

/** One way to pass the overlapping operand to an in-place op. */
struct Form {
  const char* op;  // the registered name
  Shape shape;     // of self and of the overlapping operand
  std::function<void(const Tensor& self, const Tensor& x, const Tensor& constant)> write;
  bool at_kink = false;  // the op is not differentiable at equal operands
};

Tensor rows(const std::vector<double>& places) {
  return tensor(places, {.dtype = i64, .device = test_device()});
}

Tensor first_element(Tensor x) {
  while (x.dim() > 0) x = x[0];
  return x;
}

#define WRITE(expression)                                           \
  [](const Tensor& self, const Tensor& x, const Tensor& constant) { \
    (void)x, (void)constant;                                        \
    (void)(expression);                                             \
  }

std::vector<Form> elementwise_forms() {
  const Shape shape{3, 2};
  return {
      {"add", shape, WRITE(add_(self, x, {.alpha = 2}))},
      {"addcdiv", shape, WRITE(addcdiv_(self, x, constant, {.value = 3}))},
      {"addcdiv", shape, WRITE(addcdiv_(self, constant, x))},
      {"addcdiv", shape, WRITE(addcdiv_(self, x, x))},
      {"addcmul", shape, WRITE(addcmul_(self, x, constant, {.value = 3}))},
      {"addcmul", shape, WRITE(addcmul_(self, constant, x))},
      {"addcmul", shape, WRITE(addcmul_(self, x, x))},
      {"atan2", shape, WRITE(atan2_(self, x))},
      {"clamp", shape, WRITE(clamp_(self, x, constant)), true},
      {"clamp", shape, WRITE(clamp_(self, constant, x)), true},
      {"div", shape, WRITE(div_(self, x))},
      {"floor_divide", shape, WRITE(floor_divide_(self, x)), true},
      {"fmod", shape, WRITE(fmod_(self, x)), true},
      {"lerp", shape, WRITE(lerp_(self, x, constant))},
      {"lerp", shape, WRITE(lerp_(self, constant, x))},
      {"lerp", shape, WRITE(lerp_(self, x, x))},
      {"masked_fill", shape, WRITE(masked_fill_(self, constant > 1, first_element(x)))},
      {"mul", shape, WRITE(mul_(self, x))},
      {"pow", shape, WRITE(pow_(self, x))},
      {"remainder", shape, WRITE(remainder_(self, x)), true},
      {"sub", shape, WRITE(sub_(self, x, {.alpha = 2}))},
      {"trunc_divide", shape, WRITE(div_(self, x, {.rounding = Rounding::trunc})), true},
      {"eq", shape, WRITE(eq_(self, x)), true},
      {"ne", shape, WRITE(ne_(self, x)), true},
      {"lt", shape, WRITE(lt_(self, x)), true},
      {"le", shape, WRITE(le_(self, x)), true},
      {"gt", shape, WRITE(gt_(self, x)), true},
      {"ge", shape, WRITE(ge_(self, x)), true},
  };
}

std::vector<Form> structured_forms() {
  const Shape list{3}, square{3, 3}, squares{2, 3, 3};
  return {
      {"addbmm", square, WRITE(addbmm_(self, x.unsqueeze(0), constant.unsqueeze(0)))},
      {"addbmm", square, WRITE(addbmm_(self, constant.unsqueeze(0), x.unsqueeze(0)))},
      {"addbmm", square, WRITE(addbmm_(self, x.unsqueeze(0), x.unsqueeze(0)))},
      {"addmm", square, WRITE(addmm_(self, x, constant, {.beta = 0.5, .alpha = 2}))},
      {"addmm", square, WRITE(addmm_(self, constant, x))},
      {"addmm", square, WRITE(addmm_(self, x, x))},
      {"addmv", list, WRITE(addmv_(self, x.unsqueeze(0).expand({3, 3}), constant))},
      {"addmv", list, WRITE(addmv_(self, constant.unsqueeze(0).expand({3, 3}), x))},
      {"addmv", list, WRITE(addmv_(self, x.unsqueeze(0).expand({3, 3}), x))},
      {"addr", square, WRITE(addr_(self, x[1], constant[0]))},
      {"addr", square, WRITE(addr_(self, constant[0], x[1]))},
      {"addr", square, WRITE(addr_(self, x[0], x[2]))},
      {"baddbmm", squares, WRITE(baddbmm_(self, x, constant))},
      {"baddbmm", squares, WRITE(baddbmm_(self, constant, x))},
      {"baddbmm", squares, WRITE(baddbmm_(self, x, x))},
      {"copy", square, WRITE(self.copy_(x))},
      {"index_add", square, WRITE(index_add_(self, 0, rows({2, 0, 2}), x, {.alpha = 2}))},
      {"index_copy", square, WRITE(index_copy_(self, 0, rows({2, 0, 1}), x))},
      {"index_fill", square, WRITE(index_fill_(self, 0, rows({2, 0}), first_element(x)))},
      {"index_put", square, WRITE(index_put_(self, {rows({2, 0, 1})}, x))},
      {"index_put", square, WRITE(index_put_(self, {rows({2, 0, 2})}, x, {.accumulate = true}))},
      {"scatter", list, WRITE(scatter_(self, 0, rows({2, 0, 1}), x))},
      {"scatter_add", list, WRITE(scatter_add_(self, 0, rows({2, 0, 2}), x))},
  };
}

std::vector<Form> forms() {
  std::vector<Form> all = elementwise_forms();
  for (Form& form : structured_forms()) all.push_back(std::move(form));
  return all;
}

/** Returns distinct values in [0.5, 1.5). */
Tensor fractions(const Shape& shape, unsigned seed) {
  std::vector<double> list;
  for (std::int64_t i = 0; i < checked_numel(shape, "values"); ++i)
    list.push_back(0.5 + std::fmod(0.618034 * static_cast<double>(i + 1) + 0.37 * seed, 1.0));
  return tensor(list, shape, {.dtype = f64, .device = test_device()});
}

/** Returns the shape of the tensor that self and the other operand are views of. */
Shape base_shape(const Form& form, Overlap overlap) {
  Shape shape = form.shape;
  if (overlap == Overlap::shifted) shape[0] += 1;
  return shape;
}

Tensor overlapping(const Form& form, Overlap overlap, const Tensor& base) {
  switch (overlap) {
    case Overlap::self: return base;
    case Overlap::whole_view: return base.slice(0, 0, form.shape[0]);
    case Overlap::detached: return base.detach();
    case Overlap::shifted: return base.narrow(0, 0, form.shape[0]);
    case Overlap::repeated_row: break;
  }
  return base.narrow(0, 0, 1).expand(form.shape);
}

/** How the overwritten tensor is computed from the leaves. */
struct Source {
  const char* name;
  std::function<Tensor(const std::vector<Tensor>& leaves)> base;
  std::function<std::vector<Tensor>(const Shape& shape)> leaves;
};

const Source kSources[] = {
    {"a product", [](const std::vector<Tensor>& x) { return x[0] * 1.0; },
     [](const Shape& shape) { return std::vector<Tensor>{fractions(shape, 1)}; }},
    {"a layer",
     [](const std::vector<Tensor>& x) {
       return linear(x[0], fractions({x[1].numel(), 2}, 2), x[1]);
     },
     [](const Shape& shape) {
       Shape input = shape;
       input[input.rank() - 1] = 2;
       return std::vector<Tensor>{fractions(input, 1), fractions({shape.back()}, 3)};
     }}};

struct OverlapTrial {
  const Form& form;
  Overlap overlap;
  const Source& source;

  std::vector<Tensor> leaves() const { return source.leaves(base_shape(form, overlap)); }

  /** Returns a number computed from the base after the op wrote to it. `other` replaces the
   *  overlapping operand; if undefined, the operand itself or a copy of it is used. */
  Tensor result(const std::vector<Tensor>& x, bool copies, const Tensor& other = {}) const {
    const Tensor base = source.base(x);
    const Tensor self = overlap == Overlap::shifted ? base.narrow(0, 1, form.shape[0]) : base;
    const Tensor view = other.defined() ? other : overlapping(form, overlap, base);
    form.write(self, copies ? view.clone() : view, fractions(form.shape, 4));
    return sum(base * base * fractions(base.shape(), 5));
  }

  /** Returns the gradient of result() by central differences. Detached operands stay constant. */
  std::vector<double> differences(const std::vector<Tensor>& x) const {
    const NoGrad no_grad;
    constexpr double kStep = 1e-5;
    Tensor constant;
    if (overlap == Overlap::detached) constant = overlapping(form, overlap, source.base(x));
    std::vector<double> gradient;
    for (std::size_t k = 0; k < x.size(); ++k)
      for (std::int64_t i = 0; i < x[k].numel(); ++i) {
        const auto moved = [&](double by) {
          std::vector<Tensor> near = x;
          std::vector<double> list = x[k].to_vector<double>();
          list[static_cast<std::size_t>(i)] += by;
          near[k] = tensor(list, x[k].shape(), {.dtype = f64, .device = test_device()});
          return result(near, true, constant).item<double>();
        };
        gradient.push_back((moved(kStep) - moved(-kStep)) / (2 * kStep));
      }
    return gradient;
  }

  /** Returns the gradient and, of its weighted sum, the second gradient. */
  std::vector<double> gradients(bool copies) const {
    std::vector<Tensor> x = leaves();
    for (const Tensor& leaf : x) leaf.requires_grad_();
    const Tensor y = result(x, copies);
    const GradOptions options{.create_graph = true, .allow_unused = true};
    std::vector<Tensor> first = grad(std::span(&y, 1), x, options);
    Tensor total = zeros({}, {.dtype = f64, .device = test_device()});
    for (Tensor& g : first) {
      if (!g.defined()) g = zeros_like(x[static_cast<std::size_t>(&g - first.data())]);
      total = total + sum(g * fractions(g.shape(), 6));
    }
    std::vector<Tensor> all = first;
    if (total.requires_grad())
      for (const Tensor& g : grad(std::span(&total, 1), x, {.allow_unused = true}))
        if (g.defined()) all.push_back(g);
    std::vector<double> list;
    for (const Tensor& g : all)
      for (const double v : g.to_vector<double>()) list.push_back(v);
    return list;
  }
};

void check_close(const std::vector<double>& got, const std::vector<double>& expected,
                 double tolerance) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("element " << i << " of " << expected.size());
    REQUIRE(i < got.size());
    CHECK(std::fabs(got[i] - expected[i]) <= tolerance * (1 + std::fabs(expected[i])));
  }
}

}  // namespace

TEST_CASE("in-place ops accept operands that overlap the tensor they overwrite",
          "[ops][in_place]") {
  for (const Form& form : forms())
    for (const Overlap overlap : kOverlaps)
      for (const Source& source : kSources) {
        INFO(form.op << "_, overlap " << static_cast<int>(overlap) << ", of " << source.name);
        const OverlapTrial trial{form, overlap, source};
        const std::vector<Tensor> x = trial.leaves();
        CHECK(trial.result(x, false).item<double>() == trial.result(x, true).item<double>());
        const std::vector<double> got = trial.gradients(false);
        check_close(got, trial.gradients(true), 1e-12);
        if (!form.at_kink) check_close(got, trial.differences(x), 1e-7);
      }
}

TEST_CASE("every in-place op with several operands is tested on overlapping ones",
          "[ops][in_place]") {
  std::set<std::string_view> tried;
  for (const Form& form : forms()) tried.insert(form.op);
  for (const OpInfo* info : all_ops()) {
    const OpTraits& traits = info->traits;
    // A mask has its own dtype and shares no memory; operands on different devices do not either.
    const bool can_overlap = traits.inputs - (traits.mask == MaskOperand::none ? 0 : 1) > 1;
    if (!traits.in_place || traits.internal || traits.crosses_devices || !can_overlap) continue;
    INFO(traits.name << " is in no form");
    CHECK(tried.count(traits.name) == 1);
  }
}

TEST_CASE("a tensor times itself in place", "[ops][in_place]") {
  const Tensor x = tensor({2.0, 3.0, 5.0}, {.device = test_device(), .requires_grad = true});
  const Tensor v = x * 1;
  v *= v;
  CHECK(v.to_vector<double>() == std::vector<double>{4, 9, 25});
  CHECK(grad(sum(v), x).to_vector<double>() == std::vector<double>{4, 6, 10});
}
