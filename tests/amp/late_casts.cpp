// Casts from 16 bits to f32 that wait until their result is read: of scores of cross entropy, and
// of the outputs of models. They change neither a bit nor what may be done with the tensors.
#include <cmath>

#include "../support/catch.h"
#include "../support/same_bits.h"
#include "../support/throws.h"
#include "../support/values.h"
#include "nets.h"

using namespace nets;
using amp::autocast;
using testing::kInf;
using testing::same_bits;

namespace {

std::int64_t used() { return memory_stats(test_device()).total.current; }
/** Returns the most bytes of results that exist at once in a call, without kernels' workspace. */
std::int64_t peak_of(const auto& f) {
  const std::int64_t before = memory_stats(test_device())[MemoryCategory::activations].current;
  reset_peak_memory(test_device());
  f();
  return memory_stats(test_device())[MemoryCategory::activations].peak - before;
}

/** Returns classes in a shape; every fifth is ignored, class 1 where there is one. */
Tensor classes_for(const Shape& shape, std::int64_t classes) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < checked_numel(shape, "classes_for"); ++i)
    numbers.push_back(i % 5 == 3 ? -100 : static_cast<double>((i * 37 + 1) % classes));
  return here(tensor(numbers, shape, {.dtype = i64}));
}

/** A loss, its gradient for scores of 16 bits, and a second gradient. */
struct LossAndGradient {
  Tensor loss, gradient;
};

/** Computes cross entropy of scores that are cast by autocast, or by a call of to(f32). `view` is
 *  applied to the scores. */
template <class View>
LossAndGradient entropy_of(const Tensor& scores, const Tensor& target,
                           const CrossEntropyOptions& options, bool casts, const View& view) {
  const Tensor x = scores.clone().requires_grad_();
  Tensor loss;
  if (casts) {
    const autocast on({.dtype = scores.dtype()});
    loss = cross_entropy(view(x), target, options);
  } else {
    const Tensor wide = view(x).to(f32).clone();
    loss = cross_entropy(wide, target, options);
  }
  CHECK(loss.dtype() == f32);
  sum(loss * 3).backward();
  return {loss.detach(), x.grad()};
}

template <class View>
void check_bits(const Tensor& scores, const Tensor& target, const CrossEntropyOptions& options,
                const View& view) {
  for (const DType dtype : {f16, bf16}) {
    const Tensor low = scores.to(dtype);
    const LossAndGradient a = entropy_of(low, target, options, true, view),
                          b = entropy_of(low, target, options, false, view);
    INFO(name(dtype) << " " << str(scores) << " smoothing " << options.label_smoothing);
    CHECK(same_bits(a.loss, b.loss));
    CHECK(same_bits(a.gradient, b.gradient));
  }
}

const auto kAsItIs = [](const Tensor& x) { return x; };

/** A model whose result is 16 bits at O2. */
struct Scores : nn::Model<Scores> {
  explicit Scores(std::int64_t classes) : head(add("head", Affine(6, classes, 1))) {}
  Tensor forward(const Tensor& x) const {
    const Tensor y = head(x);
    if (keeps) *kept = y;
    return flattens ? y.unsqueeze(0).flatten(0, 1) : y;
  }
  Affine head;
  bool keeps = false, flattens = false;
  std::shared_ptr<Tensor> kept = std::make_shared<Tensor>();
};

}  // namespace

TEST_CASE("cross entropy under casts has the bits of scores cast before", "[casting][late]") {
  manual_seed(3);
  for (const Shape& shape :
       {Shape{5}, Shape{7, 27}, Shape{5, 1}, Shape{1, 40}, Shape{33, 64}, Shape{300, 12},
        Shape{4, 1001}, Shape{3, 5000}, Shape{0, 5}, Shape{3, 7, 2, 3}, Shape{2, 8, 5}}) {
    const Tensor x = here(randn(shape) * 4);
    const std::int64_t classes = shape[shape.rank() == 1 ? 0 : 1];
    Shape rest = shape;
    rest.erase(shape.rank() == 1 ? 0 : 1);
    const Tensor target = classes_for(rest, classes), weight = here(rand({classes}) + 0.5);
    for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
      for (const double smoothing : {0.0, 0.2}) {
        const CrossEntropyOptions plain{.reduction = reduction, .label_smoothing = smoothing};
        check_bits(x, target, plain, kAsItIs);
        CrossEntropyOptions weighted = plain;
        weighted.weight = weight;
        weighted.ignore_index = 1;
        if (classes > 1) check_bits(x, target.clone().fill_(1), weighted, kAsItIs);
        weighted.ignore_index = -100;
        check_bits(x, target, weighted, kAsItIs);
      }
  }
}

TEST_CASE("cross entropy under casts takes views of 16-bit scores", "[casting][late]") {
  manual_seed(4);
  const Tensor x = here(randn({6, 10, 24}) * 3);
  check_bits(x, classes_for({60}, 24), {}, [](const Tensor& t) { return t.flatten(0, 1); });
  check_bits(x, classes_for({10}, 24), {}, [](const Tensor& t) { return t[3]; });
  check_bits(x, classes_for({10}, 20), {}, [](const Tensor& t) { return t[2].slice(1, 4, 24); });
  check_bits(x, classes_for({10}, 21), {}, [](const Tensor& t) { return t[5].slice(1, 3, 24); });
  check_bits(x, classes_for({24}, 10), {}, [](const Tensor& t) { return t[1].t(); });
  check_bits(x, classes_for({6, 24}, 10), {}, kAsItIs);
}

TEST_CASE("cross entropy of 16-bit scores keeps infinities and nan", "[casting][late]") {
  for (const std::int64_t n : {5, 8, 64, 1000}) {
    const Tensor x = zeros({6, n});
    x.select(0, 0).fill_(-kInf);
    x.select(0, 1).slice(0, 0, n / 2).fill_(-kInf);
    x.select(0, 2).select(0, n - 1).fill_(kInf);
    x.select(0, 3).select(0, 1).fill_(NAN);
    x.select(0, 4).fill_(60000);
    for (const double smoothing : {0.0, 0.1})
      check_bits(here(x), classes_for({6}, n),
                 {.reduction = Reduction::none, .label_smoothing = smoothing}, kAsItIs);
  }
}

TEST_CASE("cross entropy under casts makes no copy of its scores in f32", "[casting][late]") {
  const Tensor x = here(zeros({64, 4096}).to(bf16)).requires_grad_(),
               target = classes_for({64}, 4096);
  const std::int64_t low = x.numel() * 2;
  const auto pass = [&] {
    const autocast on({.dtype = bf16});
    const amp::CastStats before = amp::cast_stats();
    cross_entropy(x * 1.0, target).backward();
    CHECK((amp::cast_stats() - before).casts == 1);
  };
  pass();
  x.set_grad({});
  // x * 1.0 and two gradients of it; a copy in f32 would be as large as two of them.
  CHECK(peak_of(pass) < 3 * low + low / 2);
}

TEST_CASE("scores that are overwritten before the backward pass are an error", "[casting][late]") {
  const Tensor x = here(ones({4, 8}).to(f16)).requires_grad_();
  const autocast on({.dtype = f16});
  const Tensor scores = x * 2.0, loss = cross_entropy(scores, classes_for({4}, 8));
  {
    const NoGrad no_grad;
    scores.mul_(2.0);
  }
  CHECK_THROWS_WITH_AS_TEXT(loss.backward(), StateError, "was modified in place");
}

TEST_CASE("the output of a model is cast when it is read", "[casting][late]") {
  for (const bool flattens : {false, true}) {
    INFO(flattens);
    Scores model(1000);
    model.flattens = flattens;
    const auto session = amp::initialize(model, quiet("O2"));
    const Tensor x = wave({256, 6}, 0.5);
    const std::int64_t low = 256 * 1000 * 2;
    Tensor y;
    (void)model(x);
    CHECK(peak_of([&] { y = model(x); }) < low + low / 2);
    CHECK(y.dtype() == f32);
    CHECK(y.shape() == Shape{256, 1000});
    const std::int64_t unread = used();
    const Tensor expected = linear(x.to(f16), model.head.weight, model.head.bias).to(f32).detach();
    CHECK(same_bits(y.detach(), expected));
    CHECK(used() - unread >= 3 * low);  // y and `expected`, without the scores of 16 bits
    y.detach().mul_(2.0);
    CHECK(same_bits(y.detach(), expected * 2.0));
  }
}

TEST_CASE("a model's output that someone else holds is cast at once", "[casting][late]") {
  Scores model(40);
  model.keeps = true;
  const auto session = amp::initialize(model, quiet("O2"));
  const Tensor x = wave({16, 6}, 0.5);
  const Tensor y = model(x);
  const Tensor expected = model.kept->to(f32).detach();
  model.kept->detach().fill_(7);
  CHECK(same_bits(y.detach(), expected));
}

TEST_CASE("losses of a late output have the bits of an output that was read", "[casting][late]") {
  for (const char* const level : {"O2", "O5"})
    for (const bool flattens : {false, true}) {
      const auto train = [&](bool reads) {
        Scores model(27);
        model.flattens = flattens;
        const auto session = amp::initialize(model, quiet(level));
        const Tensor y = model(wave({33, 6}, 0.5)), target = classes_for({33}, 27);
        if (reads) (void)y.to_vector<float>();
        const Tensor loss =
            cross_entropy(y, target) + 0.5 * cross_entropy(y.slice(1, 0, 8), classes_for({33}, 8));
        (loss * 64.0).backward();
        return std::vector{loss.detach(), model.head.weight.grad(), model.head.bias.grad()};
      };
      const std::vector<Tensor> late = train(false), eager = train(true);
      for (std::size_t i = 0; i < late.size(); ++i) CHECK(same_bits(late[i], eager[i]));
    }
}

TEST_CASE("hooks and second gradients see a late output as any other", "[casting][late]") {
  Scores model(5);
  const auto session = amp::initialize(model, quiet("O2"));
  const Tensor y = model(wave({4, 6}, 0.5));
  y.retain_grad();
  const Tensor loss = cross_entropy(y, classes_for({4}, 5));
  const Tensor g = grad(TensorList(loss), {y}, {.create_graph = true})[0];
  CHECK(g.dtype() == f32);
  (loss + sum(g * g)).backward();
  CHECK(y.grad().dtype() == f32);
  CHECK(model.head.weight.grad().dtype() == f16);
}

TEST_CASE("the gradient of a late output has 16 bits, also through a change of shape",
          "[casting][late]") {
  for (const bool flattens : {false, true}) {
    INFO(flattens);
    Scores model(1000);
    const auto session = amp::initialize(model, quiet("O2"));
    const Tensor x = wave({256, 6}, 0.5), target = classes_for({256}, 1000);
    const std::int64_t low = 256 * 1000 * 2;
    const auto pass = [&] {
      const Tensor y = model(x);
      const Tensor loss =
          cross_entropy(flattens ? y.view({1, 256, 1000}).flatten(0, 1) : y, target);
      (loss * 64.0).backward();
      return std::vector{loss.detach(), model.head.weight.grad().clone()};
    };
    const auto read = [&] {
      const Tensor y = model(x);
      (void)y.to_vector<float>();
      const Tensor loss =
          cross_entropy(flattens ? y.view({1, 256, 1000}).flatten(0, 1) : y, target);
      y.retain_grad();  // a hook, which reads the gradient in f32
      (loss * 64.0).backward();
      return std::vector{loss.detach(), model.head.weight.grad().clone()};
    };
    const std::vector<Tensor> a = pass();
    model.head.weight.set_grad({});
    CHECK(peak_of([&] { (void)pass(); }) < 2 * low + low / 2);  // the scores and their gradient
    model.head.weight.set_grad({});
    const std::vector<Tensor> b = read();
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(same_bits(a[i], b[i]));
  }
}
