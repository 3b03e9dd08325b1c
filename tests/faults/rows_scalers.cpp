// Rows: GradScaler.
#include "../amp/nets.h"
#include "look.h"
#include "rows.h"
#include "trained_row.h"

namespace faults {

namespace {

struct ScaledNet {
  nets::Net net;
  optimizers::Made optimizer;
  amp::GradScaler scaler{{.init_scale = 256, .growth_interval = 2}};

  explicit ScaledNet(const optimizers::Kind& kind) : optimizer(kind.make(net.parameters())) {
    backward();
    scaler.step(*optimizer);
    scaler.update();
    optimizer->zero_grad();
  }
  void backward(double factor = 1) { scaler.scale(nets::loss_of(net) * factor).backward(); }
  State state() const {
    State out;
    look(out, net);
    look(out, *optimizer);
    look(out, scaler);
    return out;
  }
};

using ScalerCall = std::function<void(ScaledNet&)>;

/** Returns the state without gradients: as GradScaler.step documents, a throwing step leaves them
 *  unscaled. The repeated call is still compared. */
State state_of_step(const ScaledNet& made) {
  State out = made.state();
  std::erase_if(out, [](const auto& entry) {
    return entry.first.ends_with(".grad") || entry.first.starts_with("scaler is amid");
  });
  return out;
}

Row scaler_row(const std::string& name, const ScalerCall& prepare, const ScalerCall& call) {
  return trained_row<ScaledNet>(name, prepare, call);
}

Row step_row(const std::string& name, const optimizers::Kind& kind, const ScalerCall& prepare,
             const ScalerCall& call) {
  return trained_row<ScaledNet>(name, prepare, call, kind, state_of_step);
}

}  // namespace

std::vector<Row> scaler_rows() {
  std::vector<Row> rows;
  const ScalerCall backward = [](ScaledNet& t) { t.backward(); },
                   overflow = [](ScaledNet& t) { t.backward(HUGE_VAL); };
  const auto stepped = [](const ScalerCall& first) {
    return [=](ScaledNet& t) {
      first(t);
      t.scaler.step(*t.optimizer);
    };
  };
  const ScalerCall step = [](ScaledNet& t) { t.scaler.step(*t.optimizer); };
  for (const optimizers::Kind& kind : optimizers::kinds()) {
    rows.push_back(step_row(str("GradScaler.step of ", kind.name), kind, backward, step));
    rows.push_back(step_row(
        str("GradScaler.step after unscale_ of ", kind.name), kind,
        [](ScaledNet& t) {
          t.backward();
          t.scaler.unscale_(*t.optimizer);
        },
        step));
    rows.push_back(step_row(str("a skipped GradScaler.step of ", kind.name), kind, overflow, step));
    rows.push_back(step_row(
        str("a third GradScaler.step of ", kind.name), kind,
        [](ScaledNet& t) {
          for (int i = 0; i < 2; ++i) {
            t.backward();
            t.scaler.step(*t.optimizer);
            t.scaler.update();
            t.optimizer->zero_grad();
          }
          t.backward();
        },
        [](ScaledNet& t) { t.scaler.step(*t.optimizer); }));
  }
  rows.push_back(scaler_row("GradScaler.scale", backward,
                            [](ScaledNet& t) { (void)t.scaler.scale(ones({2})); }));
  rows.push_back(scaler_row("GradScaler.unscale_", backward,
                            [](ScaledNet& t) { t.scaler.unscale_(*t.optimizer); }));
  rows.push_back(scaler_row("unscale_ of an overflow", overflow,
                            [](ScaledNet& t) { t.scaler.unscale_(*t.optimizer); }));
  rows.push_back(
      scaler_row("GradScaler.update", stepped(backward), [](ScaledNet& t) { t.scaler.update(); }));
  rows.push_back(scaler_row("update after an overflow", stepped(overflow),
                            [](ScaledNet& t) { t.scaler.update(); }));
  rows.push_back(
      scaler_row("update to a scale", stepped(backward), [](ScaledNet& t) { t.scaler.update(8); }));
  rows.push_back(scaler_row("GradScaler.load_state_dict", stepped(backward), [](ScaledNet& t) {
    auto saved = t.scaler.state_dict();
    saved["scale"] = 4;
    t.scaler.load_state_dict(saved);
  }));
  return rows;
}

}  // namespace faults
