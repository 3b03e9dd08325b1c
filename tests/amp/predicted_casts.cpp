// The number of casts in a training step at O1, predicted from the policy: the ops of the step,
// their tags, and the dtypes of their operands. The trace of a real step must give the same
// numbers, forward and backward.
#include <map>
#include <set>

#include "../../samples/nets/lenet.h"
#include "../../samples/nets/mlp.h"
#include "../support/catch.h"
#include "nets.h"

using namespace mezzo;

namespace {

/** Records the ops that a program calls. Ops inside ops run with casts off and are not recorded. */
class Script final : public TraceHook {
 public:
  struct Line {
    const OpInfo* info;
    std::vector<Tensor> in, out;  // held, so that addresses stay unique
  };
  Script() { thread_hooks().trace = this; }
  ~Script() { thread_hooks().trace = nullptr; }
  void trace(const OpInfo& info, Inputs in, Outputs out) override {
    if (!thread_hooks().casts_barred)
      lines.push_back({&info, {in.begin(), in.end()}, {out.begin(), out.end()}});
  }
  std::vector<Line> lines;
};

struct Prediction {
  std::int64_t forward = 0, backward = 0, bytes = 0, hits = 0;
};

/** Applies the policy to the script of an f32 run, with dtypes only. */
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
    switch (line.info->traits.precision) {
      case Precision::low:
        for (const Tensor& x : line.in) cast(x, f16);
        result = f16;
        break;
      case Precision::f32:
        for (const Tensor& x : line.in) cast(x, f32);
        break;
      case Precision::match: result = first_floating(line.in); break;
      case Precision::promote: result = widest(line.in); break;
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

/** Returns the loss of `passes` forward passes over one set of weights. */
template <class Net> Tensor loss_of_passes(const Net& net, int passes) {
  Tensor loss = cross_entropy(net(images()), labels());
  for (int i = 1; i < passes; ++i) loss = loss + cross_entropy(net(images()), labels());
  return loss;
}

template <class Net> Prediction predicted(int passes) {
  const Net net;
  const Script script;
  loss_of_passes(net, passes);
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
  amp::scale_loss(loss_of_passes(net, passes), optimizer,
                  [](const Tensor& scaled) { scaled.backward(); });
  CHECK(optimizer.step() == amp::StepResult::stepped);
  const amp::CastStats counted = amp::cast_stats() - before;
  const amp::CastEntry forward = ledger.total(amp::CastDirection::forward);
  CHECK(forward.count == p.forward);
  CHECK(forward.bytes == p.bytes);
  CHECK(forward.cache_hits == p.hits);
  CHECK(counted.casts == p.forward);
  CHECK(counted.bytes == p.bytes);
  CHECK(ledger.total(amp::CastDirection::backward).count == p.backward);
  // The literal numbers, in case prediction and trace are wrong in the same way.
  CHECK(p.forward == frozen.forward);
  CHECK(p.backward == frozen.backward);
  CHECK(p.hits == frozen.hits);
}

}  // namespace

TEST_CASE("an MLP's step at O1 casts what the policy predicts", "[trace]") {
  // The input, three weights, three biases; the logits as an input of the loss. All but the input
  // have a gradient.
  check<samples::Mlp>(1, {.forward = 8, .backward = 7, .hits = 0});
  // A second pass finds the six weights and biases in the cache.
  check<samples::Mlp>(2, {.forward = 10, .backward = 8, .hits = 6});
}

TEST_CASE("a LeNet's step at O1 casts what the policy predicts", "[trace]") {
  // The input, weights of two convolutions, weights and biases of two linear layers, the logits.
  // Batch norm follows its input, its weights stay in f32.
  check<samples::LeNet>(1, {.forward = 8, .backward = 7, .hits = 0});
  check<samples::LeNet>(2, {.forward = 10, .backward = 8, .hits = 6});
}
