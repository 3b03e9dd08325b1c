// How many casts a training step at O1 makes, worked out beforehand from the policy: the ops of the step, their tags, and the dtypes of what flows
// between them. The ledger of a real step must come to the same numbers, forward and back.
#include <map>
#include <set>

#include "../../samples/nets/lenet.h"
#include "../../samples/nets/mlp.h"
#include "../support/catch.h"
#include "nets.h"

using namespace mezzo;

namespace {

/** Notes the ops a program calls; those that ops call in turn run with casts barred and are none of the policy's business. */
class Script final : public TraceHook {
 public:
  struct Line {
    const OpRow* row;
    std::vector<Tensor> in, out;  // held, so that no address comes twice
  };
  Script() { thread_hooks().trace = this; }
  ~Script() { thread_hooks().trace = nullptr; }
  void trace(const OpRow& row, Inputs in, Outputs out) override {
    if (!thread_hooks().casts_barred)
      lines.push_back({&row, {in.begin(), in.end()}, {out.begin(), out.end()}});
  }
  std::vector<Line> lines;
};

struct Prediction {
  std::int64_t forward = 0, backward = 0, bytes = 0, hits = 0;
};

/** Plays the policy's part on a script of an f32 run, with dtypes alone. */
class Policy {
 public:
  Prediction predict(const Script& script) {
    for (const Script::Line& line : script.lines) op(line);
    return prediction_;
  }

 private:
  DType dtype(const Tensor& x) const {
    const auto known = dtypes_.find(x.impl());
    return known == dtypes_.end() ? x.dtype() : known->second;
  }

  void op(const Script::Line& line) {
    DType result = f32;
    switch (line.row->traits.precision) {
      case Precision::low:
        for (const Tensor& x : line.in) cast(x, f16);
        result = f16;
        break;
      case Precision::full:
        for (const Tensor& x : line.in) cast(x, f32);
        break;
      case Precision::match: result = first_floating(line.in); break;
      case Precision::widest: result = widest(line.in); break;
      case Precision::banned: FAIL("a banned op");
    }
    for (const Tensor& y : line.out)
      if (y.defined() && y.dtype() == f32) dtypes_[y.impl()] = result;
  }

  void cast(const Tensor& x, DType to) {
    if (!x.defined() || !amp::eligible(x.dtype()) || dtype(x) == to) return;
    const bool weight = x.impl()->is_parameter;
    if (weight && !cached_.insert(x.impl()).second) {
      ++prediction_.hits;
      return;
    }
    ++prediction_.forward;
    if (x.requires_grad()) ++prediction_.backward;
    prediction_.bytes += x.numel() * static_cast<std::int64_t>(item_size(to));
  }

  DType first_floating(const std::vector<Tensor>& in) const {
    for (const Tensor& x : in)
      if (x.defined() && is_floating(x.dtype())) return dtype(x);
    return f32;
  }
  DType widest(const std::vector<Tensor>& in) const {
    for (const Tensor& x : in)
      if (x.defined() && is_floating(x.dtype()) && x.dim() > 0 && dtype(x) == f32) return f32;
    return first_floating(in);
  }

  std::map<const TensorImpl*, DType> dtypes_;
  std::set<const TensorImpl*> cached_;
  Prediction prediction_;
};

Tensor images() { return nets::wave({2, 1, 28, 28}, 0.1); }
Tensor labels() { return tensor({3, 7}, {2}, {.dtype = i64}); }

/** The forward half of a step, `passes` times over one set of weights. */
template <class Net> Tensor loss_of(const Net& net, int passes) {
  Tensor loss = cross_entropy(net(images()), labels());
  for (int i = 1; i < passes; ++i) loss = loss + cross_entropy(net(images()), labels());
  return loss;
}

template <class Net> Prediction predicted(int passes) {
  const Net net;
  const Script script;
  loss_of(net, passes);
  return Policy().predict(script);
}

template <class Net> void check(int passes, const Prediction& frozen) {
  const Prediction p = predicted<Net>(passes);
  Net net;
  optim::SGD optimizer(net.parameters());
  amp::Options options = nets::quiet("O1");
  options.loss_scale = 128.0;
  const auto session = amp::initialize(net, optimizer, options);
  const amp::trace ledger;
  const amp::CastStats before = amp::cast_stats();
  amp::scale_loss(loss_of(net, passes), optimizer, [](const Tensor& scaled) { scaled.backward(); });
  CHECK(optimizer.step() == amp::StepResult::stepped);
  const amp::CastStats counted = amp::cast_stats() - before;
  const amp::CastEntry forward = ledger.total(amp::CastDirection::forward);
  CHECK(forward.count == p.forward);
  CHECK(forward.bytes == p.bytes);
  CHECK(forward.cache_hits == p.hits);
  CHECK(counted.casts == p.forward);
  CHECK(counted.bytes == p.bytes);
  CHECK(ledger.total(amp::CastDirection::backward).count == p.backward);
  // The prediction itself, should both go wrong together.
  CHECK(p.forward == frozen.forward);
  CHECK(p.backward == frozen.backward);
  CHECK(p.hits == frozen.hits);
}

}  // namespace

TEST_CASE("an MLP's step at O1 casts what the policy predicts", "[trace]") {
  // The input, three weights, three biases; the logits on their way into the loss. All but the input have a gradient.
  check<samples::Mlp>(1, {.forward = 8, .backward = 7, .hits = 0});
  // A second pass finds the six weights and biases cast.
  check<samples::Mlp>(2, {.forward = 10, .backward = 8, .hits = 6});
}

TEST_CASE("a LeNet's step at O1 casts what the policy predicts", "[trace]") {
  // The input, weights of two convolutions, weights and biases of two linear layers, the logits. Batch norm follows its input, its weights stay in f32.
  check<samples::LeNet>(1, {.forward = 8, .backward = 7, .hits = 0});
  check<samples::LeNet>(2, {.forward = 10, .backward = 8, .hits = 6});
}
