// Rows: modules, their state dicts, weights files, averaged weights.
#include "../amp/conv_net.h"
#include "../io/files.h"
#include "look.h"
#include "rows.h"

namespace faults {

namespace {

using conv_net::ConvNet;

/** A net with gradients. */
struct Model {
  ConvNet net;
  Model() { fill(); }
  void fill() const {
    const Tensor x = nets::wave({4, 2, 6, 6}, 0.3);
    mean(net(x) * net(x)).backward();
  }
  State state() const {
    State out;
    look(out, net);
    return out;
  }
};

void add_model(std::vector<Row>& rows, const std::string& name,
               const std::function<void(Model&)>& call) {
  rows.push_back({name, [=] {
                    const auto made = std::make_shared<Model>();
                    return Subject{[=] { call(*made); }, [=] { return made->state(); }};
                  }});
}

/** Returns the values of another net in another dtype and order. */
nn::StateDict other_values(DType dtype) {
  const ConvNet net;
  net(nets::wave({4, 2, 6, 6}, 2));
  nn::StateDict out;
  for (const auto& [name, tensor] : net.state_dict())
    out.set(name, is_floating(tensor.dtype()) ? (tensor * 2).to(dtype) : tensor);
  return out;
}

void add_conversions(std::vector<Row>& rows) {
  for (const DType dtype : {f16, f64})
    add_model(rows, str("Module.to ", name(dtype)), [=](Model& m) { m.net.to(dtype); });
  add_model(rows, "Module.to channels_last",
            [](Model& m) { m.net.to(MemoryFormat::channels_last); });
  add_model(rows, "Module.requires_grad_", [](Model& m) { m.net.requires_grad_(false); });
  add_model(rows, "Module.eval", [](Model& m) { m.net.eval(); });
  add_model(rows, "Module.zero_grad", [](Model& m) { m.net.zero_grad(); });
  add_model(rows, "Module.zero_grad to zeros", [](Model& m) { m.net.zero_grad(false); });
  add_model(rows, "Module.state_dict", [](Model& m) { (void)m.net.state_dict(); });
  add_model(rows, "a batch norm in training",
            [](Model& m) { (void)m.net.bn(nets::wave({4, 4, 2, 2}, 1)); });
  add_model(rows, "add_parameter",
            [](Model& m) { m.net.add_parameter("more", nets::wave({2}, 1)); });
  add_model(rows, "add_buffer", [](Model& m) { m.net.add_buffer("more", nets::wave({2}, 1)); });
  add_model(rows, "add", [](Model& m) { m.net.add("more", nn::BatchNorm1d{2}); });
  add_model(rows, "Sequential",
            [](Model&) { nn::Sequential s{nn::Linear{2, 3}, nn::ReLU{}, nn::Dropout{0.5}}; });
}

void add_loads(std::vector<Row>& rows) {
  for (const DType dtype : {f32, f16}) {
    rows.push_back({str("Module.load_state_dict from ", name(dtype)), [=] {
                      const nn::StateDict saved = other_values(dtype);
                      const auto made = std::make_shared<Model>();
                      return Subject{[=] { made->net.load_state_dict(saved); },
                                     [=] { return made->state(); }};
                    }});
  }
  rows.push_back({"load_state_dict into channels_last", [] {
                    const nn::StateDict saved = other_values(f64);
                    const auto made = std::make_shared<Model>();
                    made->net.to(MemoryFormat::channels_last);
                    return Subject{[=] { made->net.load_state_dict(saved); },
                                   [=] { return made->state(); }};
                  }});
  rows.push_back({"load from a file", [] {
                    const auto directory = std::make_shared<files::Directory>(scratch());
                    const std::string path = *directory / "weights.safetensors";
                    const ConvNet other;
                    other.load_state_dict(other_values(f32));
                    save(path, other);
                    const auto made = std::make_shared<Model>();
                    return Subject{[=] { (void)directory, load(path, made->net); },
                                   [=] { return made->state(); }};
                  }});
  rows.push_back({"save over a file", [] {
                    const auto directory = std::make_shared<files::Directory>(scratch());
                    const std::string path = *directory / "weights.safetensors";
                    const ConvNet other;
                    save(path, other);
                    const auto made = std::make_shared<Model>();
                    return Subject{[=] { save(path, made->net); },
                                   [=] {
                                     State out = made->state();
                                     out["file"] = files::read(path);
                                     out["entries"] = str(directory->count());
                                     return out;
                                   }};
                  }});
}

/** A model and its averaged weights, which differ. */
struct Averaged : Model {
  nn::ExponentialMovingAverage ema{net, {.decay = 0.75}};
  void move() const {
    const NoGrad no_grad;
    for (const Tensor& p : net.parameters()) p.copy_(p * 1.5);
  }
  Averaged() { move(); }
  State state() const {
    State out = Model::state();
    for (const auto& [name, tensor] : ema.averages()) look(out, "average " + name, tensor);
    out["ema"] = str(ema.num_updates(), " ", ema.swapped());
    return out;
  }
};

void add_averages(std::vector<Row>& rows) {
  const auto averaged = [&](const char* name, bool swapped,
                            const std::function<void(Averaged&)>& call) {
    rows.push_back({name, [=] {
                      const auto made = std::make_shared<Averaged>();
                      made->ema.update();
                      made->move();
                      if (swapped) made->ema.swap();
                      return Subject{[=] { call(*made); }, [=] { return made->state(); }};
                    }});
  };
  averaged("ema.update", false, [](Averaged& a) { a.ema.update(); });
  averaged("ema.swap", false, [](Averaged& a) { a.ema.swap(); });
  averaged("ema.swap back", true, [](Averaged& a) { a.ema.swap(); });
  averaged("ema.averaged", false, [](Averaged& a) { const auto on = a.ema.averaged(); });
  averaged("ema.state_dict", false, [](Averaged& a) { (void)a.ema.state_dict(); });
  averaged("making an ema", false, [](Averaged& a) { nn::ExponentialMovingAverage other(a.net); });
  for (const DType dtype : {f32, f16})
    rows.push_back({str("ema.load_state_dict from ", name(dtype)), [=] {
                      Averaged other;
                      other.ema.update();
                      nn::StateDict saved;
                      for (const auto& [name, tensor] : other.ema.state_dict())
                        saved.set(name, is_floating(tensor.dtype()) ? tensor.to(dtype) : tensor);
                      const auto made = std::make_shared<Averaged>();
                      return Subject{[=] { made->ema.load_state_dict(saved); },
                                     [=] { return made->state(); }};
                    }});
}

/** Adds calls that throw: building their error texts allocates many strings, each of which may
 *  fail. */
void add_refusals(std::vector<Row>& rows) {
  const auto refused = [&](const char* name, const std::function<void(Model&)>& call) {
    add_model(rows, str("refused: ", name), [=](Model& m) {
      try {
        call(m);
      } catch (const Error&) {}
    });
  };
  refused("shapes",
          [](Model& m) { (void)(m.net.fc.weight() + ones({7}, {.device = nets::test_device()})); });
  refused("an input", [](Model& m) { (void)m.net(nets::wave({4, 3, 6, 6}, 1)); });
  refused("Module.load_state_dict", [](Model& m) {
    m.net.load_state_dict({{"conv.weigth", nets::wave({2}, 1)}, {"fc.bias", nets::wave({2}, 1)}});
  });
  refused("Module.parameter", [](Model& m) { (void)m.net.parameter("fc.weigth"); });
  refused("an optimizer's options", [](Model& m) { optim::Adam(m.net.parameters(), {.lr = -1}); });
  refused("Optimizer.load_state_dict", [](Model& m) {
    optim::StateDict saved = optim::Adam(m.net.parameters()).state_dict();
    saved.scalars["no such entry of a state"] = 1;
    saved.scalars.erase("param_groups.0.lr");
    optim::Adam(m.net.parameters()).load_state_dict(saved);
  });
  refused("initialize",
          [](Model& m) { (void)amp::initialize(m.net, amp::Options{.opt_level = "O7"}); });
  refused("memory", [](Model&) { (void)empty({std::int64_t{1} << 50}, {.dtype = u8}); });
}

}  // namespace

std::vector<Row> model_rows() {
  (void)scratch();  // created here, so that this process removes it
  std::vector<Row> rows;
  add_conversions(rows);
  add_loads(rows);
  add_averages(rows);
  add_refusals(rows);
  return rows;
}

}  // namespace faults
