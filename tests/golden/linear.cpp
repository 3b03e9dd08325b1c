// Golden calls: matrix and tensor products, normalisation.
#include "golden.h"

namespace {

using namespace golden;
using namespace mezzo;

#define GOLDEN_ADDED(op)                                                    \
  GOLDEN(#op, op(x[0], x[1], x[2]));                                        \
  GOLDEN(#op "/factors", op(x[0], x[1], x[2], {.beta = 0.5, .alpha = -2})); \
  GOLDEN_IN_PLACE(#op "/in place", op##_(self, x[1], x[2]))

void add_products() {
  GOLDEN("matmul", matmul(x[0], x[1]));
  GOLDEN("matmul/vectors", matmul(x[0], x[1]));
  GOLDEN("matmul/matrix, vector", matmul(x[0], x[1]));
  GOLDEN("matmul/vector, matrix", matmul(x[0], x[1]));
  GOLDEN("matmul/batches", matmul(x[0], x[1]));
  GOLDEN("matmul/inner 0", matmul(x[0], x[1]));
  GOLDEN("matmul/batch, vector", matmul(x[0], x[1]));
  GOLDEN("mm", mm(x[0], x[1]));
  GOLDEN("bmm", bmm(x[0], x[1]));
  GOLDEN("mv", mv(x[0], x[1]));
  GOLDEN("dot", dot(x[0], x[1]));
  GOLDEN("vecdot", vecdot(x[0], x[1]));
  GOLDEN("mul/outer", outer(x[0], x[1]));
  GOLDEN_ADDED(addmm);
  GOLDEN_ADDED(addmv);
  GOLDEN_ADDED(addr);
  GOLDEN_ADDED(addbmm);
  GOLDEN_ADDED(baddbmm);
  GOLDEN("addmm/broadcast", addmm(x[0], x[1], x[2]));
  GOLDEN("linear", linear(x[0], x[1], x[2]));
  GOLDEN("linear/without bias", linear(x[0], x[1]));
}

void add_contractions() {
  GOLDEN("mlp", mlp(x[0], {x[1], x[3], x[5]}, {x[2], x[4], x[6]}));
  GOLDEN("mlp/gelu", mlp(x[0], {x[1], x[3]}, {x[2], x[4]}, {.activation = MlpActivation::gelu}));
  GOLDEN("mlp/gelu_tanh",
         mlp(x[0], {x[1], x[3]}, {x[2], x[4]}, {.activation = MlpActivation::gelu_tanh}));
  GOLDEN("mlp/sigmoid", mlp(x[0], {x[1], x[2]}, {},
                            {.activation = MlpActivation::sigmoid, .activates_last = true}));
  GOLDEN("bilinear", bilinear(x[0], x[1], x[2], x[3]));
  GOLDEN("bilinear/without bias", bilinear(x[0], x[1], x[2]));
  GOLDEN("chain_matmul", chain_matmul(x));
  GOLDEN("multi_dot", multi_dot(x));
  GOLDEN("tensordot", tensordot(x[0], x[1]));
  GOLDEN("tensordot/dimensions", tensordot(x[0], x[1], {{0, 2}, {1, 0}}));
  GOLDEN("cross", cross(x[0], x[1]));
  GOLDEN("cross/dimension", cross(x[0], x[1], {.dim = 0}));
#define GOLDEN_EINSUM(equation) GOLDEN("einsum/" equation, einsum(equation, x))
  GOLDEN_EINSUM("ij,jk->ik");
  GOLDEN_EINSUM("ij,jk");
  GOLDEN_EINSUM("bij,bjk->bik");
  GOLDEN_EINSUM("ii->i");
  GOLDEN_EINSUM("ii");
  GOLDEN_EINSUM("ij->ji");
  GOLDEN_EINSUM("i,j->ij");
  GOLDEN_EINSUM("...ij,...jk->...ik");
  GOLDEN_EINSUM("bn,anm,bm->ba");
  GOLDEN_EINSUM("ij->");
  GOLDEN_EINSUM("bhqd,bhkd->bhqk");
}

/** Calls a norm and returns its result and the running statistics that it updated. */
template <class F> Tensors training(const Tensors& x, F&& norm) {
  const Tensor mean = x[1].clone(), var = x[2].clone();
  return {norm(mean, var), mean, var};
}

BatchNormOptions outside_training(const Tensors& x) {
  return {.running_mean = x[1], .running_var = x[2], .weight = x[3], .bias = x[4]};
}

using BatchNormFunction = Tensor (*)(const Tensor& x, const BatchNormOptions& options);

Tensors in_training(const Tensors& x, BatchNormFunction norm) {
  return training(x, [&](const Tensor& mean, const Tensor& var) {
    return norm(x[0], {.running_mean = mean,
                       .running_var = var,
                       .weight = x[3],
                       .bias = x[4],
                       .training = true,
                       .momentum = 0.3,
                       .eps = 1e-3});
  });
}

Tensors batch_norm_in_training(const Tensors& x) { return in_training(x, batch_norm); }

Tensors batch_norm_relu_in_training(const Tensors& x) {
  return in_training(x, [](const Tensor& in, const BatchNormOptions& options) {
    return batch_norm_relu(in, options);
  });
}

Tensor with_residual(const Tensors& x) {
  return batch_norm_relu(
      x[0], {.running_mean = x[2], .running_var = x[3], .weight = x[4], .bias = x[5]}, x[1]);
}

void add_norms() {
  GOLDEN("batch_norm", batch_norm(x[0], outside_training(x)));
  GOLDEN("batch_norm/2-D", batch_norm(x[0], outside_training(x)));
  GOLDEN("batch_norm/4-D", batch_norm(x[0], outside_training(x)));
  GOLDEN_WITHIN("batch_norm/training ", 4, batch_norm_in_training(x));
  GOLDEN_WITHIN("batch_norm/training 2-D", 4, batch_norm_in_training(x));
  GOLDEN_WITHIN("batch_norm/training 4-D", 4, batch_norm_in_training(x));
  GOLDEN_WITHIN("batch_norm/without statistics", 4, batch_norm(x[0], {.training = true}));
  GOLDEN_WITHIN("batch_norm_relu/training", 4, batch_norm_relu_in_training(x));
  GOLDEN_WITHIN("batch_norm_relu/training 4-D", 4, batch_norm_relu_in_training(x));
  GOLDEN("batch_norm_relu/residual", with_residual(x));
  GOLDEN("batch_norm_relu/residual 4-D", with_residual(x));
  GOLDEN_WITHIN("batch_norm_relu/residual, training", 4,
                batch_norm_relu(x[0], {.training = true}, x[1]));
  GOLDEN_WITHIN("instance_norm", 4, instance_norm(x[0], {.weight = x[1], .bias = x[2]}));
  GOLDEN(
      "instance_norm/statistics",
      instance_norm(x[0], {.running_mean = x[1], .running_var = x[2], .use_input_stats = false}));
  GOLDEN_WITHIN("instance_norm/updates", 4, training(x, [&](const Tensor& mean, const Tensor& var) {
                  return instance_norm(x[0],
                                       {.running_mean = mean, .running_var = var, .momentum = 0.2});
                }));
  GOLDEN_WITHIN("group_norm", 4, group_norm(x[0], 2, {.weight = x[1], .bias = x[2]}));
  GOLDEN_WITHIN("group_norm/plain", 4, group_norm(x[0], 3, {.eps = 0.1}));
  GOLDEN_WITHIN("layer_norm", 4, layer_norm(x[0], {4}, {.weight = x[1], .bias = x[2]}));
  GOLDEN_WITHIN("layer_norm/two dimensions", 4,
                layer_norm(x[0], {3, 4}, {.weight = x[1], .eps = 0.1}));
  GOLDEN_WITHIN("rms_norm", 4, rms_norm(x[0], {4}, {.weight = x[1], .eps = 1e-3}));
}

const Registrar additions([] {
  add_products();
  add_contractions();
  add_norms();
});

}  // namespace
