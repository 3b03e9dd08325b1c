// Rows: GradScaler.
#include "../amp/nets.h"
#include "look.h"
#include "rows.h"
#include "trained_row.h"

namespace faults {

namespace {

struct Trained {
  nets::Net net;
  optimizers::Made optimizer;
  amp::GradScaler scaler{{.init_scale = 256, .growth_interval = 2}};

  explicit Trained(const optimizers::Kind& kind) : optimizer(kind.make(net.parameters())) {
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

using Call = std::function<void(Trained&)>;

/** Returns the state without gradients: as GradScaler.step documents, a throwing step leaves them
 *  unscaled. The repeated call is still compared. */
State state_of_step(const Trained& made) {
  State out = made.state();
  std::erase_if(out, [](const auto& entry) {
    return entry.first.ends_with(".grad") || entry.first.starts_with("scaler is amid");
  });
  return out;
}

Row row(const std::string& name, const Call& prepare, const Call& call) {
  return trained_row<Trained>(name, prepare, call);
}

Row step_row(const std::string& name, const optimizers::Kind& kind, const Call& prepare,
             const Call& call) {
  return trained_row<Trained>(name, prepare, call, kind, state_of_step);
}

}  // namespace

std::vector<Row> scaler_rows() {
  std::vector<Row> rows;
  const Call backward = [](Trained& t) { t.backward(); },
             overflow = [](Trained& t) { t.backward(HUGE_VAL); };
  const auto stepped = [](const Call& first) {
    return [=](Trained& t) {
      first(t);
      t.scaler.step(*t.optimizer);
    };
  };
  const Call step = [](Trained& t) { t.scaler.step(*t.optimizer); };
  for (const optimizers::Kind& kind : optimizers::kinds()) {
    rows.push_back(step_row(str("GradScaler.step of ", kind.name), kind, backward, step));
    rows.push_back(step_row(
        str("GradScaler.step after unscale_ of ", kind.name), kind,
        [](Trained& t) {
          t.backward();
          t.scaler.unscale_(*t.optimizer);
        },
        step));
    rows.push_back(step_row(str("a skipped GradScaler.step of ", kind.name), kind, overflow, step));
    rows.push_back(step_row(
        str("a third GradScaler.step of ", kind.name), kind,
        [](Trained& t) {
          for (int i = 0; i < 2; ++i) {
            t.backward();
            t.scaler.step(*t.optimizer);
            t.scaler.update();
            t.optimizer->zero_grad();
          }
          t.backward();
        },
        [](Trained& t) { t.scaler.step(*t.optimizer); }));
  }
  rows.push_back(
      row("GradScaler.scale", backward, [](Trained& t) { (void)t.scaler.scale(ones({2})); }));
  rows.push_back(
      row("GradScaler.unscale_", backward, [](Trained& t) { t.scaler.unscale_(*t.optimizer); }));
  rows.push_back(row("unscale_ of an overflow", overflow,
                     [](Trained& t) { t.scaler.unscale_(*t.optimizer); }));
  rows.push_back(
      row("GradScaler.update", stepped(backward), [](Trained& t) { t.scaler.update(); }));
  rows.push_back(
      row("update after an overflow", stepped(overflow), [](Trained& t) { t.scaler.update(); }));
  rows.push_back(
      row("update to a scale", stepped(backward), [](Trained& t) { t.scaler.update(8); }));
  rows.push_back(row("GradScaler.load_state_dict", stepped(backward), [](Trained& t) {
    auto saved = t.scaler.state_dict();
    saved["scale"] = 4;
    t.scaler.load_state_dict(saved);
  }));
  return rows;
}

}  // namespace faults
