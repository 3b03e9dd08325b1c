// Rows: sessions (initialize, close, scale_loss scopes, steps at a level).
#include "../amp/conv_net.h"
#include "../support/levels.h"
#include "look.h"
#include "rows.h"
#include "trained_row.h"

namespace faults {

namespace {

/** A net and its optimizer with gradients, and a session where a level is given. */
struct TrainedSession {
  conv_net::ConvNet net;
  optimizers::Made optimizer;
  std::optional<amp::Session> session;
  Tensor loss;

  explicit TrainedSession(const optimizers::Kind& kind) : optimizer(kind.make(net.parameters())) {
    net.bn.eval();  // so that a forward pass changes no statistics
  }

  void initialize(const char* level, bool check_static = false) {
    amp::Options options = nets::quiet(level);
    if (check_static) options.check_static_overflow = true;
    session.emplace(amp::initialize(net, *optimizer, options));
  }
  Tensor new_loss() const {
    const Tensor x = nets::wave({4, 2, 6, 6}, 0.3);
    return cross_entropy(net(x),
                         tensor({0, 1, 2, 1}, {4}, {.dtype = i64, .device = nets::test_device()}));
  }
  void backward(double factor = 1) const {
    amp::scale_loss(new_loss() * factor, *optimizer,
                    [](const Tensor& scaled) { scaled.backward(); });
  }
  State state() const {
    State out;
    look(out, net);
    look(out, *optimizer);
    if (session) look(out, *session);
    return out;
  }
};

using SessionCall = std::function<void(TrainedSession&)>;

Row session_row(const std::string& name, const SessionCall& prepare, const SessionCall& call,
                const optimizers::Kind& kind = optimizers::kinds()[2]) {
  return trained_row<TrainedSession>(name, prepare, call, kind);
}

// ---- how rows are prepared ----------------------------------------------------------------------

SessionCall begun(const char* level) {
  return [=](TrainedSession& t) { t.initialize(level); };
}

/** Prepares a session after one step, with gradients for the next. */
SessionCall trained(const char* level) {
  return [=](TrainedSession& t) {
    t.initialize(level);
    t.backward();
    t.optimizer->step();
    t.backward();
  };
}

/** The same, with parameters written to after the step. */
SessionCall written(const char* level) {
  return [=](TrainedSession& t) {
    trained(level)(t);
    const NoGrad no_grad;
    for (const Tensor& p : t.net.parameters()) mul_(p.detach(), 0.5);
  };
}

std::shared_ptr<TrainedSession> make_trained(const char* level) {
  const auto made = std::make_shared<TrainedSession>(optimizers::kinds()[2]);
  trained(level)(*made);
  return made;
}

// ---- the rows of a level ------------------------------------------------------------------------

void add_initialize(std::vector<Row>& rows, const char* level) {
  const SessionCall nothing = [](TrainedSession&) {};
  rows.push_back(session_row(str("initialize at ", level), nothing, begun(level)));
  rows.push_back(session_row(
      str("initialize with gradients at ", level),
      [](TrainedSession& t) { t.new_loss().backward(); }, begun(level)));
  rows.push_back(session_row(
      str("initialize after steps at ", level),
      [](TrainedSession& t) {
        t.new_loss().backward();
        t.optimizer->step();
      },
      begun(level)));
  rows.push_back(session_row(
      str("initialize without an optimizer at ", level), nothing,
      [=](TrainedSession& t) { t.session.emplace(amp::initialize(t.net, nets::quiet(level))); }));
}

void add_close(std::vector<Row>& rows, const char* level) {
  const SessionCall close = [](TrainedSession& t) { t.session->close(); };
  rows.push_back(session_row(str("close at ", level), begun(level), close));
  rows.push_back(session_row(str("close after a step at ", level), trained(level), close));
  rows.push_back(session_row(str("close after a write at ", level), written(level), close));
}

void add_scopes(std::vector<Row>& rows, const char* level) {
  const SessionCall scope = [](TrainedSession& t) { t.backward(); };
  rows.push_back(session_row(str("a scope at ", level), trained(level), scope));
  rows.push_back(session_row(str("a scope that overflows at ", level), trained(level),
                             [](TrainedSession& t) { t.backward(1e30); }));
  rows.push_back(session_row(str("a first scope at ", level), begun(level), scope));
}

void add_session_steps(std::vector<Row>& rows, const char* level) {
  const SessionCall step = [](TrainedSession& t) { t.optimizer->step(); };
  rows.push_back(session_row(
      str("a first step at ", level),
      [=](TrainedSession& t) {
        t.initialize(level);
        t.backward();
      },
      step));
  rows.push_back(session_row(
      str("a skipped step at ", level),
      [=](TrainedSession& t) {
        trained(level)(t);
        t.backward(1e30);
      },
      step));
  rows.push_back(session_row(str("a step after a write at ", level), written(level), step));
}

void add_small_calls(std::vector<Row>& rows, const char* level) {
  const auto add = [&](const char* name, const SessionCall& call) {
    rows.push_back(session_row(str(name, " at ", level), trained(level), call));
  };
  rows.push_back(session_row(str("explain at ", level), begun(level),
                             [](TrainedSession& t) { (void)t.session->explain(); }));
  add("zero_grad", [](TrainedSession& t) { t.optimizer->zero_grad(); });
  add("zero_grad to zeros", [](TrainedSession& t) { t.optimizer->zero_grad(false); });
  add("master_params", [](TrainedSession& t) { (void)amp::master_params(*t.optimizer); });
  add("clip_grad_norm of masters",
      [](TrainedSession& t) { optim::clip_grad_norm(amp::master_params(*t.optimizer), 1e-3); });
  add("add_param_group", [](TrainedSession& t) {
    dynamic_cast<optim::Adam&>(*t.optimizer)
        .add_param_group({nets::wave({3}, 1).to(f16).requires_grad_()}, {.lr = 0.5});
  });
}

void add_session_loads(std::vector<Row>& rows, const char* level) {
  rows.push_back(
      session_row(str("Session.load_state_dict at ", level), trained(level), [](TrainedSession& t) {
        t.session->load_state_dict({{"loss_scaler0", {{"loss_scale", 512}, {"unskipped", 7}}}});
      }));
  rows.push_back({str("Module.load_state_dict at ", level), [=] {
                    const conv_net::ConvNet other;
                    other(nets::wave({4, 2, 6, 6}, 2));
                    nn::StateDict saved;
                    for (const auto& [name, tensor] : other.state_dict())
                      saved.set(name, is_floating(tensor.dtype()) ? tensor * 2 : tensor);
                    const auto made = make_trained(level);
                    return Subject{[=] { made->net.load_state_dict(saved); },
                                   [=] { return made->state(); }};
                  }});
  rows.push_back({str("Optimizer.load_state_dict at ", level), [=] {
                    const auto other = make_trained(level);
                    other->optimizer->step();
                    const optim::StateDict saved = other->optimizer->state_dict();
                    const auto made = make_trained(level);
                    return Subject{[=] { made->optimizer->load_state_dict(saved); },
                                   [=] { return made->state(); }};
                  }});
}

void add_session_averages(std::vector<Row>& rows, const char* level) {
  rows.push_back({str("ema.update at ", level), [=] {
                    const auto made = make_trained(level);
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
                    const auto made = make_trained(level);
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

// ---- the rows of an optimizer -------------------------------------------------------------------

void add_optimizers(std::vector<Row>& rows) {
  for (const optimizers::Kind& kind : optimizers::kinds()) {
    const SessionCall scoped = [](TrainedSession& t) {
      t.initialize("O2");
      t.backward();
    };
    rows.push_back(session_row(
        str("initialize ", kind.name), [](TrainedSession&) {},
        [](TrainedSession& t) { t.initialize("O2"); }, kind));
    rows.push_back(session_row(
        str("a step at O2 of ", kind.name), scoped, [](TrainedSession& t) { t.optimizer->step(); },
        kind));
    rows.push_back(session_row(
        str("a second scope at O2 of ", kind.name), scoped, [](TrainedSession& t) { t.backward(); },
        kind));
    rows.push_back(session_row(
        str("a third step at O2 of ", kind.name),
        [](TrainedSession& t) {
          t.initialize("O2");
          for (int i = 0; i < 2; ++i) {
            t.backward();
            t.optimizer->step();
          }
          t.backward();
        },
        [](TrainedSession& t) { t.optimizer->step(); }, kind));
  }
}

}  // namespace

std::vector<Row> session_rows() {
  std::vector<Row> rows;
  for (const char* level : levels::names()) {
    add_initialize(rows, level);
    add_close(rows, level);
    add_scopes(rows, level);
    add_session_steps(rows, level);
    add_small_calls(rows, level);
    add_session_loads(rows, level);
    add_session_averages(rows, level);
  }
  add_optimizers(rows);
  return rows;
}

}  // namespace faults
