#include "reducer.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/text/text.h"
#include "broadcast_state.h"

namespace mezzo::comm {

namespace {

std::string text_of(const std::vector<Tensor>& tensors) {
  std::string text;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    text += str("tensor ", i, ": ", tensors[i].defined() ? str(tensors[i]) : "no gradient", "\n");
  return text;
}

/** Returns the tensor if it is dense, else a dense copy. */
Tensor dense(const Tensor& x) { return same_dense_layout(x, x) ? x : x.contiguous(); }

}  // namespace

Reducer::Reducer(const nn::Module& model, Communicator ranks)
    : params_(model.parameters()), ranks_(std::move(ranks)) {
  if (ranks_.size() == 1) return;
  const NoGradNoCasts plain_ops;
  std::string text;
  for (const nn::NamedTensor& entry : model.named_parameters())
    text += str(entry.name, " ", entry.tensor, "\n");
  nn::require_same_lines(ranks_, "Reducer", std::move(text));
  nn::broadcast_state(model, ranks_);
}

Reducer::Reducer(std::vector<Tensor> params, Communicator ranks)
    : params_(std::move(params)), ranks_(std::move(ranks)) {
  if (ranks_.size() == 1) return;
  const NoGradNoCasts plain_ops;
  nn::require_same_lines(ranks_, "Reducer", text_of(params_));
  for (const Tensor& param : params_) {
    const Tensor own = param.detach(), values = dense(own);
    ranks_.broadcast(nn::flat(values)).wait();
    if (!values.is_same(own)) own.copy_(values);
  }
}

void Reducer::reduce() const {
  if (ranks_.size() == 1) return;
  const NoGradNoCasts plain_ops;
  std::vector<Tensor> grads;
  for (const Tensor& param : params_) grads.push_back(param.grad());
  nn::require_same_lines(ranks_, "Reducer.reduce", text_of(grads));
  std::vector<Pending> pending;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) continue;
    const Tensor sum = dense(grads[i]);
    if (!sum.is_same(grads[i])) params_[i].set_grad(sum);
    pending.push_back(ranks_.all_reduce(nn::flat(sum), {.f32_sum = is_low(sum.dtype()),
                                                        .factor = 1.0 / ranks_.size(),
                                                        .checked = false,
                                                        .label = "Reducer"}));
  }
  for (Pending& one : pending) one.wait();
}

}  // namespace mezzo::comm
