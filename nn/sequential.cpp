#include "sequential.h"

#include "../tensor/core/dispatch.h"
#include "../tensor/text/text.h"
#include "fusion.h"
#include "linear.h"

namespace mezzo::nn {

/** The type-erased members. Destroys them without recursion, so that containers may be nested to
 *  any depth. */
struct Sequential::Calls {
  Calls() = default;
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  ~Calls() {
    static thread_local Call* pending = nullptr;
    static thread_local bool draining = false;
    for (std::unique_ptr<Call>& call : list) {
      call->next_destroyed = pending;
      pending = call.release();
    }
    if (draining) return;
    draining = true;
    while (pending) {
      const std::unique_ptr<Call> next(pending);
      pending = next->next_destroyed;
    }
    draining = false;
  }

  std::vector<std::unique_ptr<Call>> list;
};

Sequential::Sequential() : calls_(std::make_shared<Calls>()) { set_container(); }

namespace {

/** Returns true if the layer accepts an input of these features and dtype. Other layers are called
 *  separately, so that they throw their own error. */
bool fits(const Linear& layer, std::int64_t features, DType dtype) {
  const Tensor &w = layer.weight(), &b = layer.bias();
  const bool casts = thread_hooks().cast != nullptr;
  return w.size(1) == features &&
         (casts || (w.dtype() == dtype && (!b.defined() || b.dtype() == dtype)));
}

}  // namespace

std::vector<Linear> Sequential::chain_from(std::size_t index, const Tensor& x) const {
  std::vector<Linear> layers;
  if (!x.defined() || x.dim() == 0) return layers;
  std::int64_t features = x.size(-1);
  for (; index < size(); index += 2) {
    const Linear* layer = calls_->list[index]->linear();
    if (!layer || layer->wraps_calls() || !fits(*layer, features, x.dtype())) break;
    layers.push_back(*layer);
    features = layer->weight().size(0);
    if (index + 1 < size() && !relu_follows(index)) break;
  }
  return layers;
}

bool Sequential::relu_follows(std::size_t index) const {
  return index + 1 < size() && calls_->list[index + 1]->is_relu();
}

Tensor Sequential::forward(const Tensor& x) const {
  Tensor y = x;
  const bool fuses_linear = detail::mlp_may_fuse(), fuses_norm = detail::batch_norm_relu_may_fuse();
  for (std::size_t i = 0; i < size();) {
    Call& call = *calls_->list[i];
    const std::vector<Linear> layers = fuses_linear ? chain_from(i, y) : std::vector<Linear>{};
    if (layers.size() > 1) {
      y = mlp(y, layers);
      i += 2 * layers.size() - 1;
    } else if (fuses_norm && call.is_batch_norm() && relu_follows(i)) {
      y = call.with_relu(y);
      i += 2;
    } else {
      y = call(y);
      ++i;
    }
  }
  return y;
}

std::size_t Sequential::size() const { return calls_->list.size(); }

void detail::refuse_index(std::string_view kind, std::int64_t index, std::size_t size) {
  fail<IndexError>(kind, {.what = "the index is out of range",
                          .got = str(index),
                          .expected = size == 0 ? "a list with members" : str("0..", size - 1)});
}

Module Sequential::operator[](std::int64_t index) const {
  if (index < 0 || index >= static_cast<std::int64_t>(size()))
    detail::refuse_index("Sequential", index, size());
  return state().children[static_cast<std::size_t>(index)].module;
}

std::string Sequential::next_name() const { return str(size()); }

void Sequential::reserve_call() {
  std::vector<std::unique_ptr<Call>>& list = calls_->list;
  if (list.size() == list.capacity()) list.reserve(2 * list.size() + 1);
}

void Sequential::append(std::unique_ptr<Call> call) { calls_->list.push_back(std::move(call)); }

void Sequential::set_call(std::string_view name, std::unique_ptr<Call> call) {
  calls_->list[*state().names.find(detail::NameKind::child, name)] = std::move(call);
}

}  // namespace mezzo::nn
