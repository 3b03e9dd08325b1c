#include "look.h"

#include "../io/files.h"

namespace faults {

void look(State& state, const std::string& name, const Tensor& x) {
  if (!x.defined()) return;
  state[name] = str(x, " ", x.strides(), " ", x.requires_grad()) + states::bytes_of(x);
}

void look(State& state, const std::string& name, double x) { state[name] = states::bytes_of(x); }

void look_at_leaf(State& state, const std::string& name, const Tensor& x) {
  look(state, name, x);
  // The gradient of a parameter with a master is scaled and already consumed; scopes discard it.
  if (x.defined() && x.impl()->twin != Twin::low) look(state, name + ".grad", x.grad());
}

namespace {

/** Omits the location of the first non-finite element, which is not searched for when memory is
 *  short. */
void look_at_events(State& state, const std::vector<amp::ScaleEvent>& events) {
  for (const amp::ScaleEvent& event : events)
    state["events"] +=
        str(event.step, " ", event.old_scale, " ", event.new_scale, " ", name(event.reason), "; ");
}

/** Returns the master as the next step uses it: elements whose parameter was written to since the
 *  last step take the parameter's value. */
Tensor effective(const optim::Slot& slot) {
  const NoGrad no_grad;
  const Tensor low = slot.param.detach(), master = slot.master.detach();
  return where(master.to(low.dtype()) == low, master, low.to(f32));
}

}  // namespace

void look(State& state, const nn::Module& model) {
  for (const nn::NamedTensor& entry : model.named_parameters())
    look_at_leaf(state, entry.name, entry.tensor);
  for (const nn::NamedTensor& entry : model.named_buffers()) look(state, entry.name, entry.tensor);
  for (const nn::NamedModule& entry : model.named_modules()) {
    const nn::Module& m = entry.module;
    state["module " + entry.name] =
        str(m.name(), " ", m.training(), " ", m.attached_to() != nullptr, " ",
            m.call_wrapper() != nullptr, " ", m.state_rule() != nullptr, " ", m.children().size());
  }
}

void look(State& state, const optim::Optimizer& optimizer) {
  state["optimizer"] =
      str(optimizer.num_groups(), " ", optimizer.hooks() != nullptr, " ",
          optimizer.consecutive_skips(), " ", optim::name(optimizer.last_result()));
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group) {
    std::size_t index = 0;
    for (const optim::Slot& slot : optimizer.slots(group)) {
      const std::string name = str(group, "/", index++, " ");
      look_at_leaf(state, name + "param", slot.param);
      if (slot.master.defined()) look(state, name + "master", effective(slot));
      if (slot.master.defined()) look(state, name + "master.grad", slot.master.grad());
      for (std::size_t i = 0; i < slot.state.size(); ++i)
        look(state, str(name, "state ", i), slot.state[i]);
      look(state, name + "steps", static_cast<double>(slot.steps));
    }
    state[str("size ", group)] = str(index);
    const_cast<optim::Optimizer&>(optimizer).change_options(
        group, [&](std::string_view name, double value) {
          look(state, str(group, " ", name), value);
          return value;
        });
  }
}

void look(State& state, const amp::Session& session) {
  for (const auto& [name, fields] : session.state_dict())
    for (const auto& [field, number] : fields) look(state, name + " " + field, number);
  look_at_events(state, const_cast<amp::Session&>(session).loss_scaler().events());
}

void look(State& state, const amp::GradScaler& scaler) {
  for (const auto& [field, number] : scaler.state_dict()) look(state, "scaler " + field, number);
  look_at_events(state, scaler.events());
  look(state, "scaler is amid an iteration", scaler.amid_iteration());
}

void look(State& state, const optim::Scheduler& schedule) {
  for (const auto& [name, number] : schedule.state_dict().scalars)
    look(state, "schedule " + name, number);
}

const std::string& scratch() {
  static const files::Directory directory = files::Directory::fast();
  return directory.path();
}

void look_at_generator(State& state) {
  state["generator"] = str(default_generator().seed, " ", default_generator().draw);
}

}  // namespace faults
