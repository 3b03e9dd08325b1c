#include "optimizer_masters.h"

#include "../../tensor/text/text.h"
#include "../scaling/amp_optimizer_state.h"
#include "../session.h"
#include "conversion.h"

namespace mezzo::amp {

using optim::Optimizer;
using optim::Slot;

bool keeps_gradients_scaled(const SessionCore& core, const Optimizer& optimizer) {
  return core.properties.masters() && !optimizer.materializes_master_grads();
}

Device device_of_params(const Optimizer& optimizer) {
  std::optional<Device> device;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (const Slot& slot : optimizer.slots(group)) {
      const Device here = slot.param.device();
      device = device.value_or(here) == here ? here : cpu;
    }
  return device.value_or(cpu);
}

void require_masters_gradients(const Optimizer& optimizer) {
  bool of_master = false, of_low = false;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (const Slot& slot : optimizer.slots(group)) {
      if (!through_master(slot)) continue;
      of_master = of_master || slot.master.grad().defined();
      of_low = of_low || slot.param.grad().defined();
    }
  if (of_low && !of_master)
    fail<StateError>(str(optimizer.type_name(), ".step"),
                     {.what = "backward ran outside scale_loss",
                      .got = "gradients of 16-bit parameters, none of their masters",
                      .expected = "scale_loss(loss, optimizer, body) around backward"});
}

void create_masters(const SessionCore& core, const Optimizer& optimizer, std::span<Slot> slots,
                    MasterChanges& changes, const Conversion* conversion) {
  if (!core.properties.masters()) return;
  for (Slot& slot : slots) {
    const Tensor& param = slot.param;
    if (through_master(slot) || !is_low(param.dtype())) continue;
    if (!param.requires_grad() && !param.grad().defined()) continue;
    create_master(core, optimizer, slot, changes, conversion);
  }
}

void create_master(const SessionCore& core, const Optimizer& optimizer, Slot& slot,
                   MasterChanges& changes, const Conversion* conversion) {
  const Tensor value = conversion ? conversion->original(slot.param) : Tensor{};
  changes.point(slot.master, changes.create(slot.param, value),
                keeps_gradients_scaled(core, optimizer) ? Twin::bare_master : Twin::none);
}

void bring_masters_up_to_date(const SessionCore& core, Optimizer& optimizer,
                              MasterChanges& changes) {
  if (!core.properties.masters()) return;
  each_slot(optimizer, [&](Slot& slot) {
    create_masters(core, optimizer, {&slot, 1}, changes);
    if (through_master(slot)) changes.reconcile(slot.param);
  });
}

void bring_masters_up_to_date(SessionCore& core, Optimizer& optimizer) {
  MasterChanges changes(core.masters);
  bring_masters_up_to_date(core, optimizer, changes);
  changes.commit();
}

void drop_masters_gradients(Optimizer& optimizer) {
  each_slot(optimizer, [](Slot& slot) {
    if (through_master(slot)) slot.master.set_grad({});
  });
}

void masters_in_step(SessionCore& core, Optimizer& optimizer) {
  each_slot(optimizer, [&](Slot& slot) {
    if (!through_master(slot)) return;
    if (Master* master = core.masters.find(slot.param)) master->in_step();
  });
}

std::vector<Tensor> master_params(Optimizer& optimizer) {
  if (const auto link = AmpOptimizerState::of(optimizer))
    bring_masters_up_to_date(*link->core, optimizer);
  return optimizer.params();
}

}  // namespace mezzo::amp
