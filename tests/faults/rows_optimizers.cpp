// Rows: optimizers, gradient clipping and learning-rate schedules.
#include "../amp/nets.h"
#include "../support/optimizers.h"
#include "look.h"
#include "rows.h"

namespace faults {

namespace {

/** A net with gradients and its optimizer. */
struct TrainedNet {
  nets::Net net;
  optimizers::Made optimizer;

  explicit TrainedNet(const optimizers::Kind& kind) : optimizer(kind.make(net.parameters())) {
    fill();
  }
  void fill() const {
    optimizer->zero_grad();
    nets::loss_of(net).backward();
  }
  State state() const {
    State out;
    look(out, net);
    look(out, *optimizer);
    return out;
  }
};

using Made = std::shared_ptr<TrainedNet>;

/** Returns a row on a net with an optimizer. `prepare` runs first and may return what the call
 *  needs. */
Row optimizer_row(const std::string& name, const optimizers::Kind& kind, int steps_before,
                  const std::function<void(TrainedNet&)>& call) {
  return {name + " of " + kind.name, [=] {
            const Made made = std::make_shared<TrainedNet>(kind);
            for (int i = 0; i < steps_before; ++i) {
              made->optimizer->step();
              made->fill();
            }
            return Subject{[=] { call(*made); }, [=] { return made->state(); }};
          }};
}

const optimizers::Kind& adam() { return optimizers::kinds()[2]; }

void add_steps(std::vector<Row>& rows) {
  for (const optimizers::Kind& kind : optimizers::kinds()) {
    rows.push_back(
        optimizer_row("the first step", kind, 0, [](TrainedNet& t) { t.optimizer->step(); }));
    rows.push_back(
        optimizer_row("a later step", kind, 2, [](TrainedNet& t) { t.optimizer->step(); }));
    rows.push_back(optimizer_row("a clipped step", kind, 1,
                                 [](TrainedNet& t) { t.optimizer->step({.max_norm = 0.01}); }));
    rows.push_back({str("load_state_dict of ", kind.name), [&kind] {
                      TrainedNet other(kind);
                      other.optimizer->step();
                      const optim::StateDict saved = other.optimizer->state_dict();
                      const Made made = std::make_shared<TrainedNet>(kind);
                      return Subject{[=] { made->optimizer->load_state_dict(saved); },
                                     [=] { return made->state(); }};
                    }});
    rows.push_back(
        {str("load_state_dict over a state of ", kind.name), [&kind] {
           TrainedNet other(kind);
           for (int i = 0; i < 2; ++i) other.optimizer->step();
           other.optimizer->set_lr(0.5);
           const optim::StateDict saved = other.optimizer->state_dict(other.net.named_parameters());
           const Made made = std::make_shared<TrainedNet>(kind);
           made->optimizer->step();
           return Subject{
               [=] { made->optimizer->load_state_dict(saved, made->net.named_parameters()); },
               [=] { return made->state(); }};
         }});
  }
}

void add_calls(std::vector<Row>& rows) {
  rows.push_back(optimizer_row("a step of a moved model", adam(), 1,
                               [](TrainedNet& t) { t.optimizer->step(); }));
  rows.push_back(
      optimizer_row("zero_grad", adam(), 1, [](TrainedNet& t) { t.optimizer->zero_grad(); }));
  rows.push_back(optimizer_row("zero_grad to zeros", adam(), 1,
                               [](TrainedNet& t) { t.optimizer->zero_grad(false); }));
  rows.push_back(optimizer_row("state_dict", adam(), 1,
                               [](TrainedNet& t) { (void)t.optimizer->state_dict(); }));
  rows.push_back(
      optimizer_row("set_lr", adam(), 1, [](TrainedNet& t) { t.optimizer->set_lr(0.25); }));
  rows.push_back(optimizer_row("change_options", adam(), 1, [](TrainedNet& t) {
    t.optimizer->change_options(0, [](std::string_view, double value) { return value / 2; });
  }));
  rows.push_back({"add_param_group", [] {
                    const Made made = std::make_shared<TrainedNet>(adam());
                    const Tensor more = nets::wave({3, 4}, 2);
                    auto& optimizer = dynamic_cast<optim::Adam&>(*made->optimizer);
                    return Subject{
                        [=, &optimizer] { optimizer.add_param_group({more}, {.lr = 0.5}); },
                        [=] { return made->state(); }};
                  }});
  rows.push_back({"making an optimizer", [] {
                    const auto net = std::make_shared<nets::Net>();
                    return Subject{[=] { (void)optim::Adam(net->parameters()); },
                                   [=] {
                                     State out;
                                     look(out, *net);
                                     return out;
                                   }};
                  }});
  rows.push_back(optimizer_row("clip_grad_norm", adam(), 1, [](TrainedNet& t) {
    optim::clip_grad_norm(t.net.parameters(), 0.001);
  }));
  rows.push_back(optimizer_row("clip_grad_value", adam(), 1, [](TrainedNet& t) {
    optim::clip_grad_value(t.net.parameters(), 1e-5);
  }));
  rows.push_back(optimizer_row("LARC made and ended", adam(), 1,
                               [](TrainedNet& t) { optim::LARC larc(*t.optimizer); }));
}

struct Scheduled : TrainedNet {
  Scheduled() : TrainedNet(adam()) {
    auto& two = dynamic_cast<optim::Adam&>(*optimizer);
    two.add_param_group({nets::wave({3}, 1)}, {.lr = 0.5});
  }
  optim::Scheduler schedule{*optimizer, optim::StepLR{.step_size = 1, .gamma = 0.5}};
  State state() const {
    State out = TrainedNet::state();
    look(out, schedule);
    return out;
  }
};

void add_schedules(std::vector<Row>& rows) {
  const auto scheduled = [&](const char* name, const std::function<void(Scheduled&)>& call) {
    rows.push_back({name, [=] {
                      const auto made = std::make_shared<Scheduled>();
                      return Subject{[=] { call(*made); }, [=] { return made->state(); }};
                    }});
  };
  scheduled("Scheduler.step", [](Scheduled& s) { s.schedule.step(); });
  scheduled("Scheduler.load_state_dict", [](Scheduled& s) {
    optim::StateDict saved = s.schedule.state_dict();
    saved.scalars["step"] = 3;
    saved.scalars["base_lr.1"] = 0.125;
    s.schedule.load_state_dict(saved);
  });
}

}  // namespace

std::vector<Row> optimizer_rows() {
  std::vector<Row> rows;
  add_steps(rows);
  add_calls(rows);
  add_schedules(rows);
  return rows;
}

}  // namespace faults
