// Sessions: initialize, close, scopes of scaled losses, steps under a level.
#include "../amp/conv_net.h"
#include "look.h"
#include "rows.h"

namespace faults {

namespace {

constexpr const char* kLevels[] = {"O0", "O1", "O2", "O3", "O4", "O5"};

/** A net and its optimizer, with gradients from before; a session where a level is given. */
struct Trained {
  conv_net::ConvNet net;
  optimizers::Made optimizer;
  std::optional<amp::Session> session;
  Tensor loss;

  explicit Trained(const optimizers::Kind& kind) : optimizer(kind.make(net.parameters())) {
    net.bn.eval();  // a forward pass changes nothing
  }

  void initialize(const char* level, bool check_static = false) {
    amp::Options options = nets::quiet(level);
    if (check_static) options.check_static_overflow = true;
    session.emplace(amp::initialize(net, *optimizer, options));
  }
  Tensor new_loss() const {
    const Tensor x = nets::wave({4, 2, 6, 6}, 0.3);
    return cross_entropy(net(x), tensor({0, 1, 2, 1}, {4}, {.dtype = i64, .device = nets::test_device()}));
  }
  void backward(double factor = 1) const {
    amp::scale_loss(new_loss() * factor, *optimizer, [](const Tensor& scaled) { scaled.backward(); });
  }
  State state() const {
    State out;
    look(out, net);
    look(out, *optimizer);
    if (session) look(out, *session);
    return out;
  }
};

using Made = std::shared_ptr<Trained>;
using Call = std::function<void(Trained&)>;

Row row(const std::string& name, const Call& prepare, const Call& call,
        const optimizers::Kind& kind = optimizers::kinds()[2]) {
  return {name, [=, &kind] {
            const Made made = std::make_shared<Trained>(kind);
            prepare(*made);
            return Subject{[=] { call(*made); }, [=] { return made->state(); }};
          }};
}

void add_sessions(std::vector<Row>& rows) {
  for (const char* level : kLevels) {
    const Call nothing = [](Trained&) {};
    const Call begin = [=](Trained& t) { t.initialize(level); };
    const Call train = [=](Trained& t) {
      t.initialize(level);
      t.backward();
      t.optimizer->step();
      t.backward();
    };
    rows.push_back(row(str("initialize at ", level), nothing, begin));
    rows.push_back(row(
        str("initialize with gradients at ", level), [](Trained& t) { t.new_loss().backward(); }, begin));
    rows.push_back(row(
        str("initialize after steps at ", level),
        [](Trained& t) {
          t.new_loss().backward();
          t.optimizer->step();
        },
        begin));
    rows.push_back(row(str("initialize without an optimizer at ", level), nothing,
                       [=](Trained& t) { t.session.emplace(amp::initialize(t.net, nets::quiet(level))); }));
    rows.push_back(row(str("close at ", level), begin, [](Trained& t) { t.session->close(); }));
    rows.push_back(row(str("close after a step at ", level), train, [](Trained& t) { t.session->close(); }));
    rows.push_back(row(
        str("close after a write at ", level),
        [=](Trained& t) {
          train(t);
          const NoGrad no_grad;
          for (const Tensor& p : t.net.parameters()) mul_(p.detach(), 0.5);
        },
        [](Trained& t) { t.session->close(); }));
    rows.push_back(row(str("explain at ", level), begin, [](Trained& t) { (void)t.session->explain(); }));
    rows.push_back(row(str("Session.load_state_dict at ", level), train, [](Trained& t) {
      t.session->load_state_dict({{"loss_scaler0", {{"loss_scale", 512}, {"unskipped", 7}}}});
    }));
    rows.push_back(row(str("a scope at ", level), train, [](Trained& t) { t.backward(); }));
    rows.push_back(
        row(str("a scope that overflows at ", level), train, [](Trained& t) { t.backward(1e30); }));
    rows.push_back(row(str("a first scope at ", level), begin, [](Trained& t) { t.backward(); }));
    rows.push_back(row(
        str("a first step at ", level),
        [=](Trained& t) {
          t.initialize(level);
          t.backward();
        },
        [](Trained& t) { t.optimizer->step(); }));
    rows.push_back(row(
        str("a skipped step at ", level),
        [=](Trained& t) {
          train(t);
          t.backward(1e30);
        },
        [](Trained& t) { t.optimizer->step(); }));
    rows.push_back(row(
        str("a step after a write at ", level),
        [=](Trained& t) {
          train(t);
          const NoGrad no_grad;
          for (const Tensor& p : t.net.parameters()) mul_(p.detach(), 0.5);
        },
        [](Trained& t) { t.optimizer->step(); }));
    rows.push_back(row(str("zero_grad at ", level), train, [](Trained& t) { t.optimizer->zero_grad(); }));
    rows.push_back(
        row(str("zero_grad to zeros at ", level), train, [](Trained& t) { t.optimizer->zero_grad(false); }));
    rows.push_back(row(str("master_params at ", level), train,
                       [](Trained& t) { (void)amp::master_params(*t.optimizer); }));
    rows.push_back(row(str("clip_grad_norm of masters at ", level), train,
                       [](Trained& t) { optim::clip_grad_norm(amp::master_params(*t.optimizer), 1e-3); }));
    rows.push_back(row(str("add_param_group at ", level), train, [](Trained& t) {
      dynamic_cast<optim::Adam&>(*t.optimizer)
          .add_param_group({nets::wave({3}, 1).to(f16).requires_grad_()}, {.lr = 0.5});
    }));
    rows.push_back(
        {str("Module.load_state_dict at ", level), [=] {
           const conv_net::ConvNet other;
           other(nets::wave({4, 2, 6, 6}, 2));
           nn::StateDict saved;
           for (const auto& [name, tensor] : other.state_dict())
             saved.set(name, is_floating(tensor.dtype()) ? tensor * 2 : tensor);
           const Made made = std::make_shared<Trained>(optimizers::kinds()[2]);
           train(*made);
           return Subject{[=] { made->net.load_state_dict(saved); }, [=] { return made->state(); }};
         }});
    rows.push_back(
        {str("Optimizer.load_state_dict at ", level), [=] {
           Trained other(optimizers::kinds()[2]);
           train(other);
           other.optimizer->step();
           const optim::StateDict saved = other.optimizer->state_dict();
           const Made made = std::make_shared<Trained>(optimizers::kinds()[2]);
           train(*made);
           return Subject{[=] { made->optimizer->load_state_dict(saved); }, [=] { return made->state(); }};
         }});
    rows.push_back({str("ema.update at ", level), [=] {
                      const Made made = std::make_shared<Trained>(optimizers::kinds()[2]);
                      train(*made);
                      const auto ema = std::make_shared<nn::ExponentialMovingAverage>(
                          made->net, nn::EmaOptions{.decay = 0.5});
                      made->optimizer->step();
                      return Subject{[=] { ema->update(); },
                                     [=] {
                                       State out = made->state();
                                       for (const auto& [name, tensor] : ema->averages())
                                         look(out, "average " + name, tensor);
                                       look(out, "updates", static_cast<double>(ema->num_updates()));
                                       return out;
                                     }};
                    }});
    rows.push_back({str("ema.swap at ", level), [=] {
                      const Made made = std::make_shared<Trained>(optimizers::kinds()[2]);
                      train(*made);
                      const auto ema = std::make_shared<nn::ExponentialMovingAverage>(made->net);
                      made->optimizer->step();
                      return Subject{[=] { ema->swap(); },
                                     [=] {
                                       State out = made->state();
                                       out["swapped"] = str(ema->swapped());
                                       return out;
                                     }};
                    }});
  }
}

void add_optimizers(std::vector<Row>& rows) {
  for (const optimizers::Kind& kind : optimizers::kinds()) {
    const Call scoped = [](Trained& t) {
      t.initialize("O2");
      t.backward();
    };
    rows.push_back(row(
        str("initialize ", kind.name), [](Trained&) {}, [](Trained& t) { t.initialize("O2"); }, kind));
    rows.push_back(row(
        str("a step at O2 of ", kind.name), scoped, [](Trained& t) { t.optimizer->step(); }, kind));
    rows.push_back(row(
        str("a second scope at O2 of ", kind.name), scoped, [](Trained& t) { t.backward(); }, kind));
    rows.push_back(row(
        str("a deferred step at O2 of ", kind.name),
        [](Trained& t) {
          t.initialize("O2");
          for (int i = 0; i < 2; ++i) {
            t.backward();
            amp::step_deferred(*t.optimizer);
          }
          t.backward();
        },
        [](Trained& t) { amp::step_deferred(*t.optimizer); }, kind));
  }
}

}  // namespace

std::vector<Row> session_rows() {
  std::vector<Row> rows;
  add_sessions(rows);
  add_optimizers(rows);
  return rows;
}

}  // namespace faults
