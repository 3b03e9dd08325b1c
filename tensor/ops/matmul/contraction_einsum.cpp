// The composite of einsum. Factors are multiplied from left to right; each product is a batch of
// matrix products over permuted dimensions.
#include "../../core/dispatch.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "../index/index.h"
#include "../reduce/reduce.h"
#include "../require.h"
#include "../wide.h"
#include "contraction.h"
#include "contraction_equation.h"
#include "matmul.h"

namespace mezzo::op {

namespace {

/** A factor, and the labels of its dimensions. */
struct Factor {
  Tensor x;
  Labels labels;
};

std::int64_t position(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}

/** Returns the diagonal of the two dimensions with a label: the elements with equal indices. */
Factor diagonal(const Factor& factor, Label label) {
  const std::int64_t first = position(factor.labels, label);
  std::int64_t second = first + 1;
  while (factor.labels[static_cast<std::size_t>(second)] != label) ++second;
  const Tensor& x = factor.x;
  const Tensor places =
      arange(static_cast<double>(x.size(first)), {.dtype = DType::i64, .device = x.device()});
  Factor result{index(x.movedim(second, 0).movedim(first + 1, 0), {places, places}), {label}};
  for (std::size_t i = 0; i < factor.labels.size(); ++i)
    if (static_cast<std::int64_t>(i) != first && static_cast<std::int64_t>(i) != second)
      result.labels.push_back(factor.labels[i]);
  return result;
}

Factor without_repeats(Factor factor) {
  for (std::size_t i = 0; i < factor.labels.size();) {
    const Label label = factor.labels[i];
    if (std::count(factor.labels.begin(), factor.labels.end(), label) < 2) {
      ++i;
      continue;
    }
    factor = diagonal(factor, label);
    i = 0;
  }
  return factor;
}

// ---- products -----------------------------------------------------------------------------------

/** Sums over the dimensions that are not in `kept`. */
Factor summed(const Factor& factor, const Labels& kept) {
  Factor result{factor.x, {}};
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < factor.labels.size(); ++i)
    if (contains(kept, factor.labels[i]))
      result.labels.push_back(factor.labels[i]);
    else
      dims.push_back(static_cast<std::int64_t>(i));
  if (!dims.empty()) result.x = sum(factor.x, dims);
  return result;
}

/** Removes dimensions of size 1 that broadcast to a longer dimension of the other factor. */
Factor without_units(const Factor& factor, const Factor& other) {
  Factor result{factor.x, {}};
  for (std::size_t i = 0; i < factor.labels.size(); ++i) {
    const Label label = factor.labels[i];
    const auto dim = static_cast<std::int64_t>(result.labels.size());
    const bool drop = contains(other.labels, label) && result.x.size(dim) == 1 &&
                      other.x.size(position(other.labels, label)) != 1;
    if (drop)
      result.x = result.x.squeeze(dim);
    else
      result.labels.push_back(label);
  }
  return result;
}

/** The groups of a product's dimensions: in both factors and kept, in both and summed, in the left
 *  factor only, in the right one only. */
struct Groups {
  Labels batch, inner, left, right;

  Groups(const Factor& a, const Factor& b, const Labels& kept) {
    for (const Label label : a.labels) {
      if (!contains(b.labels, label))
        left.push_back(label);
      else
        (contains(kept, label) ? batch : inner).push_back(label);
    }
    for (const Label label : b.labels)
      if (!contains(a.labels, label)) right.push_back(label);
  }
};

/** Returns the sizes of the labelled dimensions. */
Shape sizes_of(const Factor& factor, const Labels& labels) {
  Shape sizes;
  for (const Label label : labels) sizes.push_back(factor.x.size(position(factor.labels, label)));
  return sizes;
}

std::int64_t count_of(const Shape& sizes) {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  return n;
}

/** Returns the factor with its dimensions merged into three groups, in this order. */
Tensor grouped(const Factor& factor, const Labels& first, const Labels& second,
               const Labels& third) {
  Shape order, sizes;
  for (const Labels* group : {&first, &second, &third}) {
    for (const Label label : *group) order.push_back(position(factor.labels, label));
    sizes.push_back(count_of(sizes_of(factor, *group)));
  }
  return factor.x.permute(order).reshape(sizes);
}

Factor multiplied(const Factor& a, const Factor& b, const Labels& kept) {
  const Groups groups(a, b, kept);
  const Tensor x = grouped(a, groups.batch, groups.left, groups.inner);  // [batch, left, inner]
  Shape shape = sizes_of(a, groups.batch);
  for (const std::int64_t size : sizes_of(a, groups.left)) shape.push_back(size);
  for (const std::int64_t size : sizes_of(b, groups.right)) shape.push_back(size);
  Tensor product;
  if (groups.inner.empty()) {
    product = x * grouped(b, groups.batch, groups.inner, groups.right);
  } else if (groups.left.empty() && groups.right.empty()) {
    product = vecdot(x, grouped(b, groups.batch, groups.right, groups.inner));
  } else if (groups.batch.empty()) {
    const Tensor y = grouped(b, groups.batch, groups.inner, groups.right);
    product = mm(x.squeeze(0), y.squeeze(0));
  } else {
    product = bmm(x, grouped(b, groups.batch, groups.inner, groups.right));
  }
  Factor result{product.reshape(shape), groups.batch};
  for (const Labels* group : {&groups.left, &groups.right})
    result.labels.insert(result.labels.end(), group->begin(), group->end());
  return result;
}

/** Returns the labels that the product of factors 0..k keeps: those of later factors and of the
 *  result. */
Labels kept_after(const std::vector<Factor>& factors, std::size_t k, const Labels& output) {
  Labels kept = output;
  for (std::size_t i = k + 1; i < factors.size(); ++i)
    kept.insert(kept.end(), factors[i].labels.begin(), factors[i].labels.end());
  return kept;
}

/** Returns the product of all factors with the dimensions of `output`, in that order. */
Tensor contracted(const std::vector<Factor>& factors, const Labels& output) {
  Factor product = factors[0];
  for (std::size_t k = 1; k < factors.size(); ++k) {
    const Labels kept = kept_after(factors, k, output);
    const Factor a = without_units(product, factors[k]), b = without_units(factors[k], product);
    Labels for_a = kept, for_b = kept;
    for_a.insert(for_a.end(), b.labels.begin(), b.labels.end());
    for_b.insert(for_b.end(), a.labels.begin(), a.labels.end());
    product = multiplied(summed(a, for_a), summed(b, for_b), kept);
  }
  product = summed(product, output);
  Shape order;
  for (const Label label : output) order.push_back(position(product.labels, label));
  return product.x.permute(order);
}

/** Returns whether the result is one product of two factors, which rounds only once. */
bool is_one_product(const std::vector<Factor>& factors, const Labels& output) {
  if (factors.size() != 2) return false;
  const auto stays = [&](const Factor& a, const Factor& b) {
    for (const Label label : a.labels)
      if (!contains(output, label) && !contains(without_units(b, a).labels, label)) return false;
    return true;
  };
  return stays(factors[0], factors[1]) && stays(factors[1], factors[0]);
}

}  // namespace

std::vector<Tensor> Einsum::composite(Inputs in, const Attrs& attrs) {
  const LabelledOperands labels = label_operands(attrs.equation, in);
  const DType dtype = require_one_number_dtype("einsum", in);
  std::vector<Factor> factors;
  for (std::size_t k = 0; k < in.size(); ++k)
    factors.push_back(without_repeats({in[k], labels.terms[k]}));
  if (!is_one_product(factors, labels.output))
    for (Factor& factor : factors) factor.x = wide(factor.x);
  return {contracted(factors, labels.output).to(dtype)};
}

}  // namespace mezzo::op
