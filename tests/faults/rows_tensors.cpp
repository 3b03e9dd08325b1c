// Rows: in-place ops, gradients, random numbers.
#include "../../tensor/core/dispatch.h"
#include "../../tensor/core/registry.h"
#include "../amp/nets.h"
#include "look.h"
#include "rows.h"

namespace faults {

namespace {

/** The kind of tensor that an in-place op is called on. */
enum class Self { plain, strided, recorded, recorded_view };

/** `self`, the tensor that it is a view of, and the leaf that its gradient goes to. */
struct Place {
  Tensor self, base, leaf;

  Place(Self kind, const Tensor& value) : self(value.clone()), base(self) {
    if (kind == Self::strided) {
      Shape roomy = value.shape();
      roomy.push_back(2);
      base = full(roomy, 0.5, {.dtype = value.dtype(), .device = value.device()});
      self = base.select(-1, 0);
      self.copy_(value);
    }
    if (kind == Self::recorded || kind == Self::recorded_view) {
      leaf = value.clone().requires_grad_();
      base = leaf * 1;
      self = kind == Self::recorded_view ? base.slice(0, 0, base.size(0)) : base;
    }
  }

  State state() const {
    State out;
    look(out, "self", self);
    look(out, "base", base);
    look_at_leaf(out, "leaf", leaf);
    out["versions"] = str(self.version(), " ", base.version(), " ", self.is_leaf());
    look_at_generator(out);
    if (leaf.defined()) look(out, "gradient", gradient());
    return out;
  }

 private:
  /** Returns the gradient of sum(sin(base)), which shows whether the graph is intact. */
  Tensor gradient() const {
    return grad(sum(sin(base)), leaf, {.retain_graph = true, .allow_unused = true});
  }
};

using InPlace = std::function<void(const Tensor& self)>;

void add_in_place(std::vector<Row>& rows, const std::string& name, const Tensor& value,
                  const InPlace& call, bool recorded = true) {
  for (const auto& [label, kind] :
       {std::pair{"", Self::plain}, std::pair{" on a view", Self::strided},
        std::pair{" recorded", Self::recorded},
        std::pair{" recorded on a view", Self::recorded_view}}) {
    if (!recorded && (kind == Self::recorded || kind == Self::recorded_view)) continue;
    rows.push_back({name + label, [=, kind = kind] {
                      const auto place = std::make_shared<Place>(kind, value);
                      return Subject{[=] { call(place->self); }, [=] { return place->state(); }};
                    }});
  }
}

/** Returns values in (0.1, 0.9), where every function is defined. */
Tensor values(const Shape& shape, double phase, DType dtype) {
  return (nets::wave(shape, phase) * 0.4 + 0.5).to(dtype);
}

/** Adds every elementwise op that has an in-place form and no options. */
void add_registered(std::vector<Row>& rows) {
  for (OpInfo* const op : all_ops()) {
    const OpTraits& traits = op->traits;
    const bool is_plain = op->attrs.bytes == sizeof(NoAttrs) && traits.mask == MaskOperand::none;
    if (!op->elementwise || !traits.in_place || traits.internal || !is_plain) continue;
    for (const DType dtype : {f32, f16}) {
      if (!takes(*op, dtype) || traits.integers == Integers::only) continue;
      const InPlace call = [=](const Tensor& self) {
        std::vector<Tensor> in{self};
        for (int i = 1; i < traits.inputs; ++i) in.push_back(values({3}, i, dtype));
        constexpr char kNoOptions[1] = {};
        run_in_place(*op, in, kNoOptions);
      };
      add_in_place(rows, str(traits.name, "_ in ", name(dtype)), values({5, 3}, 0, dtype), call);
    }
  }
}

void add_listed(std::vector<Row>& rows) {
  const Tensor x = values({6, 4}, 0.3, f32), m = values({6, 6}, 0.9, f16),
               n = values({6, 4}, 1.9, f16);
  const Tensor places = tensor({4, 0, 4}, {3}, {.dtype = i64, .device = nets::test_device()});
  const Tensor wide = places.unsqueeze(1).expand({3, 4}).contiguous(),
               three = values({3, 4}, 2, f16);
  const Tensor rank1 = values({6}, 1, f32), rank1b = values({4}, 1, f32),
               batches = values({2, 6, 3}, 1, f32), others = values({2, 3, 4}, 1, f32);
  const std::vector<std::pair<const char*, InPlace>> calls{
      {"add_", [=](const Tensor& t) { add_(t, n, {.alpha = 2}); }},
      {"sub_ of a transposed", [=](const Tensor& t) { sub_(t, n.t().contiguous().t()); }},
      {"div_ floor", [=](const Tensor& t) { div_(t, n + 1); }},
      {"mul_ by a part of itself", [=](const Tensor& t) { mul_(t, t.slice(0, 1, 2).detach()); }},
      {"addcmul_", [=](const Tensor& t) { addcmul_(t, n, n); }},
      {"addcdiv_", [=](const Tensor& t) { addcdiv_(t, n, n); }},
      {"gelu_", [=](const Tensor& t) { gelu_(t); }},
      {"leaky_relu_", [=](const Tensor& t) { leaky_relu_(t); }},
      {"threshold_", [=](const Tensor& t) { threshold_(t, 0.5, 2); }},
      {"logit_", [=](const Tensor& t) { logit_(t); }},
      {"renorm_", [=](const Tensor& t) { renorm_(t, 2, 0, 0.5); }},
      {"addmm_", [=](const Tensor& t) { addmm_(t, m.to(f32), n.to(f32)); }},
      {"addmv_ rows", [=](const Tensor& t) { addmm_(t, m.to(f32).t(), n.to(f32), {.beta = 0.5}); }},
      {"addr_", [=](const Tensor& t) { addr_(t, rank1, rank1b); }},
      {"addbmm_", [=](const Tensor& t) { addbmm_(t, batches, others); }},
      {"index_add_", [=](const Tensor& t) { index_add_(t, 0, places, three.to(f32)); }},
      {"index_put_", [=](const Tensor& t) { index_put_(t, {places}, three.to(f32)); }},
      {"index_put_ adding",
       [=](const Tensor& t) { index_put_(t, {places}, three.to(f32), {.accumulate = true}); }},
      {"index_copy_", [=](const Tensor& t) { index_copy_(t, 0, places, three.to(f32)); }},
      {"index_fill_", [=](const Tensor& t) { index_fill_(t, 0, places, 2.0); }},
      {"scatter_", [=](const Tensor& t) { scatter_(t, 0, wide, three.to(f32)); }},
      {"scatter_add_", [=](const Tensor& t) { scatter_add_(t, 0, wide, three.to(f32)); }},
      {"cumsum_", [=](const Tensor& t) { cumsum_(t, 0); }},
      {"copy_", [=](const Tensor& t) { t.copy_(n); }},
      {"copy_ of a transposed", [=](const Tensor& t) { t.copy_(n.t().contiguous().t()); }},
      {"copy_ of a part of itself",
       [=](const Tensor& t) { t.slice(0, 1, 6).copy_(t.slice(0, 0, 5).detach()); }},
      {"fill_", [=](const Tensor& t) { t.fill_(2); }},
      {"dropout_", [=](const Tensor& t) { dropout_(t); }},
      {"pow_", [=](const Tensor& t) { pow_(t, n); }},
      {"masked_fill_", [=](const Tensor& t) { masked_fill_(t, n > 0.5, 3.0); }},
      {"clamp_", [=](const Tensor& t) { clamp_(t, {.min = 0.3, .max = 0.6}); }},
  };
  for (const auto& [name, call] : calls) add_in_place(rows, name, x, call);
  add_in_place(rows, "uniform_", x, [](const Tensor& t) { uniform_(t); }, false);
  add_in_place(rows, "normal_", x, [](const Tensor& t) { normal_(t); }, false);
  add_in_place(rows, "bernoulli_", x, [](const Tensor& t) { bernoulli_(t); }, false);
  add_in_place(
      rows, "trunc_normal_", x, [](const Tensor& t) { nn::init::trunc_normal_(t); }, false);
  add_in_place(rows, "orthogonal_", x, [](const Tensor& t) { nn::init::orthogonal_(t); }, false);
  add_in_place(
      rows, "xavier_uniform_", x, [](const Tensor& t) { nn::init::xavier_uniform_(t); }, false);
  add_in_place(rows, "requires_grad_", x, [](const Tensor& t) { t.requires_grad_(); }, false);
  add_in_place(rows, "set_grad", x, [](const Tensor& t) { t.set_grad(t.detach().clone()); }, false);
}

// ---- gradients ----------------------------------------------------------------------------------

/** A net whose parameters may already have gradients. Every call computes a new loss. */
struct Differentiated {
  nets::Net net;
  Tensor shared = nets::wave({3}, 1);

  explicit Differentiated(bool again) {
    if (again) nets::loss_of(net).backward();
  }
  State state() const {
    State out;
    look(out, net);
    return out;
  }
};

void add_gradients(std::vector<Row>& rows) {
  for (const bool again : {false, true}) {
    const std::string what = again ? " into gradients" : "";
    const auto add = [&](const std::string& name,
                         const std::function<void(Differentiated&)>& call) {
      rows.push_back({name + what, [=] {
                        const auto made = std::make_shared<Differentiated>(again);
                        return Subject{[=] { call(*made); }, [=] { return made->state(); }};
                      }});
    };
    add("backward", [](Differentiated& d) { nets::loss_of(d.net).backward(); });
    add("backward with create_graph",
        [](Differentiated& d) { nets::loss_of(d.net).backward({}, true, true); });
    add("backward through a net used twice", [](Differentiated& d) {
      const Tensor y = d.net(nets::input()), z = d.net(nets::input() * 2);
      sum(y * z).backward();
    });
    add("grad", [](Differentiated& d) { (void)grad(nets::loss_of(d.net), d.net.parameters()); });
    add("backward under autocast", [](Differentiated& d) {
      const amp::autocast on;
      nets::loss_of(d.net).backward();
    });
  }
}

/** Adds calls that draw from the thread's generator. */
void add_random(std::vector<Row>& rows) {
  const auto add = [&](const char* name, const std::function<void()>& call) {
    rows.push_back({name, [=] {
                      return Subject{call, [] {
                                       State out;
                                       look_at_generator(out);
                                       return out;
                                     }};
                    }});
  };
  add("rand", [] { (void)rand({3, 4}, {.device = nets::test_device()}); });
  add("randperm", [] { (void)randperm(7); });
  add("dropout", [] { (void)dropout(nets::wave({3, 4}, 1)); });
  add("randint", [] { (void)randint(0, 5, {4}, {.dtype = f32, .device = nets::test_device()}); });
}

}  // namespace

std::vector<Row> tensor_rows() {
  std::vector<Row> rows;
  add_registered(rows);
  add_listed(rows);
  add_gradients(rows);
  add_random(rows);
  return rows;
}

}  // namespace faults
