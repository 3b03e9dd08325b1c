// Linear (y = x W^T + b), Bilinear, and mlp() over a list of linear layers.
#pragma once

#include "../tensor/ops/matmul/matmul.h"
#include "model.h"

namespace mezzo::nn {

/** Options of nn::Linear and nn::Bilinear. */
struct LinearOptions {
  bool bias = true;  // adds a trained bias
};

/** Computes x W^T + b over the last dimension.
 *  Shape: [..., in_features] gives [..., out_features].
 *  Parameters: weight [out, in], bias [out], both from U(-1, 1) / sqrt(in).
 *  Precision: low.
 *  Errors: ValueError for sizes below 1; calls throw as linear() does. */
class MZ_API Linear : public Model<Linear> {
 public:
  /** Constructs a layer from in_features to out_features features. */
  Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options = {});
  /** Returns a layer that shares its weight tensor with another module, such as an output layer
   *  that uses an embedding's table:
   *    nn::Linear head = add("head", nn::Linear::tied(embedding.weight(), {.bias = false}));
   *  A state_dict contains both names, a file contains the tensor once, and loading either name
   *  loads both. Errors: ShapeError unless the weight is a matrix, StateError unless it is a leaf.
   */
  static Linear tied(const Tensor& weight, const LinearOptions& options = {});

  /** Returns linear(x, weight(), bias()). */
  Tensor forward(const Tensor& x) const;

  /** Returns the weight, [out_features, in_features]. */
  const Tensor& weight() const { return weight_; }
  /** Returns the bias; undefined without the option `bias`. */
  const Tensor& bias() const { return bias_; }

 private:
  Linear(const Tensor& weight, bool bias);

  Tensor weight_, bias_;
};

/** Applies linear layers with relu (or options.activation) between them in one call of mezzo::mlp:
 *    const Tensor scores = nn::mlp(x, {fc1, fc2, fc3});
 *  Shape: [..., in_features of the first] gives [..., out_features of the last].
 *  Precision, errors: as mezzo::mlp. */
MZ_API Tensor mlp(const Tensor& x, const std::vector<Linear>& layers,
                  const MlpOptions& options = {});

/** Computes y_o = x1^T W_o x2 + b_o.
 *  Shape: [..., in1_features] and [..., in2_features] give [..., out_features].
 *  Parameters: weight [out, in1, in2], bias [out], both from U(-1, 1) / sqrt(in1).
 *  Precision: promote.
 *  Errors: ValueError for sizes below 1; calls throw as bilinear() does. */
class MZ_API Bilinear : public Model<Bilinear> {
 public:
  /** Constructs a layer from two inputs to out_features features. */
  Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features,
           const LinearOptions& options = {});

  /** Returns bilinear(x1, x2, weight(), bias()). */
  Tensor forward(const Tensor& x1, const Tensor& x2) const;

  /** Returns the weight, [out_features, in1_features, in2_features]. */
  const Tensor& weight() const { return weight_; }
  /** Returns the bias; undefined without the option `bias`. */
  const Tensor& bias() const { return bias_; }

 private:
  Tensor weight_, bias_;
};

}  // namespace mezzo::nn
