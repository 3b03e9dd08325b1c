// fingerprint: a hash of all the bits that a training step may change.
#pragma once

#include <mezzo.h>

#include <cstdint>

namespace fingerprint {

/** FNV-1a over all added values. */
class Hash {
 public:
  void add(const void* bytes, std::size_t count) {
    const auto* at = static_cast<const unsigned char*>(bytes);
    for (std::size_t i = 0; i < count; ++i) value_ = (value_ ^ at[i]) * 0x100000001b3;
  }
  template <class T> void add(const T& value) { add(&value, sizeof value); }
  void add(const mezzo::Tensor& x) {
    add(x.defined());
    if (!x.defined()) return;
    const mezzo::Tensor dense = x.detach().to(mezzo::cpu).contiguous();
    add(dense.dtype());
    add(dense.raw_data(),
        static_cast<std::size_t>(dense.numel()) * mezzo::item_size(dense.dtype()));
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

/** Hashes an optimizer's parameters, masters, state and step counts. */
inline std::uint64_t of(const mezzo::optim::Optimizer& optimizer) {
  Hash hash;
  optimizer.sync_to_host();
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (const mezzo::optim::Slot& slot : optimizer.slots(group)) {
      hash.add(slot.param);
      hash.add(slot.master);
      for (const mezzo::Tensor& state : slot.state) hash.add(state);
      hash.add(slot.steps);
    }
  return hash.value();
}

/** Hashes the parameters and buffers of a model. */
inline std::uint64_t of(const mezzo::nn::Module& model) {
  Hash hash;
  for (const auto& entry : model.named_parameters()) hash.add(entry.tensor);
  for (const auto& entry : model.named_buffers()) hash.add(entry.tensor);
  return hash.value();
}

}  // namespace fingerprint
