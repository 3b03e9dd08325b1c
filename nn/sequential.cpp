#include "sequential.h"

#include "../tensor/dispatch.h"
#include "../tensor/near_names.h"
#include "../tensor/text.h"
#include "joining.h"
#include "linear.h"

namespace mezzo::nn {

Sequential::Sequential() : calls_(std::make_shared<std::vector<std::unique_ptr<Call>>>()) {}

namespace {

/** Errors are better told by the layer itself. */
bool fits(const Linear& layer, std::int64_t features, DType dtype) {
  const Tensor &w = layer.weight(), &b = layer.bias();
  const bool casts = thread_hooks().cast != nullptr;
  return w.size(1) == features && (casts || (w.dtype() == dtype && (!b.defined() || b.dtype() == dtype)));
}

}  // namespace

std::vector<Linear> Sequential::chain_from(std::size_t index, const Tensor& x) const {
  std::vector<Linear> layers;
  if (!x.defined() || x.dim() == 0) return layers;
  std::int64_t features = x.size(-1);
  for (; index < size(); index += 2) {
    const Linear* layer = (*calls_)[index]->linear();
    if (!layer || layer->call_wrapper() || !fits(*layer, features, x.dtype())) break;
    layers.push_back(*layer);
    features = layer->weight().size(0);
    if (index + 1 < size() && !relu_follows(index)) break;
  }
  return layers;
}

bool Sequential::relu_follows(std::size_t index) const {
  return index + 1 < size() && (*calls_)[index + 1]->is_relu();
}

Tensor Sequential::forward(const Tensor& x) const {
  Tensor y = x;
  const bool joins_linear = detail::mlp_may_join(), joins_norm = detail::batch_norm_relu_may_join();
  for (std::size_t i = 0; i < size();) {
    Call& call = *(*calls_)[i];
    const std::vector<Linear> layers = joins_linear ? chain_from(i, y) : std::vector<Linear>{};
    if (layers.size() > 1) {
      y = mlp(y, layers);
      i += 2 * layers.size() - 1;
    } else if (joins_norm && call.is_batch_norm() && relu_follows(i)) {
      y = call.with_relu(y);
      i += 2;
    } else {
      y = call(y);
      ++i;
    }
  }
  return y;
}

std::size_t Sequential::size() const { return calls_->size(); }

Module Sequential::operator[](std::int64_t index) const {
  if (index < 0 || index >= static_cast<std::int64_t>(size()))
    fail<IndexError>("Sequential", {.what = "no such member",
                                    .got = str(index),
                                    .expected = str("0..", static_cast<std::int64_t>(size()) - 1)});
  return state().children[static_cast<std::size_t>(index)].module;
}

std::string Sequential::next_name() const { return str(size()); }
void Sequential::append(std::unique_ptr<Call> call) { calls_->push_back(std::move(call)); }

void detail::refuse_member(const Module& module, std::string_view name) {
  std::vector<std::string> names;
  for (const NamedModule& child : module.children()) names.push_back(child.name);
  fail<ValueError>(module.kind(), {.what = "there is no member of this name",
                                   .got = str("\"", name, "\""),
                                   .hint = did_you_mean(name, names)});
}

}  // namespace mezzo::nn
