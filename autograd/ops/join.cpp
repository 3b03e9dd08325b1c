#include "join.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/join.h"

namespace mezzo {

Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim) {
  return apply_list<op::Cat>({dim}, tensors);
}

Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim) {
  return apply_list<op::Stack>({dim}, tensors);
}

Tensor hstack(const std::vector<Tensor>& tensors) { return apply_list<op::Hstack>({}, tensors); }

Tensor vstack(const std::vector<Tensor>& tensors) { return apply_list<op::Vstack>({}, tensors); }

}  // namespace mezzo
