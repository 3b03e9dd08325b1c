#include "profile_log.h"

namespace mezzo::detail {

namespace {

/** Stands for an undefined tensor. */
constexpr std::int64_t kUndefined = -1;

}  // namespace

std::uint32_t TextTable::number(std::string_view text) {
  if (const auto found = numbers_.find(text); found != numbers_.end()) return found->second;
  const auto [added, is_new] =
      numbers_.emplace(std::string(text), static_cast<std::uint32_t>(texts_.size()));
  texts_.push_back(&added->first);
  return added->second;
}

void ProfileLog::add_tensors(Inputs list) {
  for (const Tensor& x : list) {
    if (!x.defined()) {
      tensors.push(kUndefined);
      continue;
    }
    const Shape& shape = x.shape();
    tensors.push(static_cast<std::int64_t>(x.dtype()) << 8 | shape.rank());
    for (const std::int64_t size : shape) tensors.push(size);
  }
}

std::vector<TensorRecord> ProfileLog::tensors_of(const ProfileEvent& event) const {
  std::vector<TensorRecord> out;
  auto at = static_cast<std::size_t>(event.operands);
  for (int i = 0; i < event.inputs + event.outputs; ++i) {
    const std::int64_t head = tensors[at++];
    TensorRecord& x = out.emplace_back();
    if (head == kUndefined) continue;
    x.defined = true;
    x.dtype = static_cast<DType>(head >> 8);
    for (std::int64_t d = 0; d < (head & 255); ++d) x.shape.push_back(tensors[at++]);
  }
  return out;
}

}  // namespace mezzo::detail
