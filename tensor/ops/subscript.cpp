// Tensor::index(), index_put_(), operator[] and the assignment to what they return.
#include "../core/subscript.h"

#include <limits>
#include <span>

#include "../text/text.h"
#include "index/index.h"

namespace mezzo {

Index::Value Index::value() const {
  switch (kind_) {
    case Kind::number: return *slice_.start;
    case Kind::slice: return slice_;
    case Kind::none: return None;
    case Kind::ellipsis: return Ellipsis;
    case Kind::tensor: break;
  }
  return tensor_;
}

namespace {

/** A view of a tensor, and the tensors that index its dimensions in order; an undefined one keeps
 *  a dimension whole. Empty: the view is all. */
struct Selection {
  Tensor view;
  std::vector<Tensor> indices = {};
};

/** Returns how many dimensions of the tensor an index uses up. */
std::int64_t dims_used(const Index& index) {
  const Index::Value value = index.value();
  if (const auto* tensor = std::get_if<Tensor>(&value))
    return tensor->dtype() == DType::boolean ? tensor->dim() : 1;
  return std::holds_alternative<std::int64_t>(value) || std::holds_alternative<Slice>(value);
}

/** Returns how many dimensions Ellipsis stands for. Errors: IndexError. */
std::int64_t dims_left(const Tensor& x, std::span<const Index> indices) {
  std::int64_t used = 0, ellipses = 0;
  for (const Index& index : indices) {
    used += dims_used(index);
    ellipses += std::holds_alternative<EllipsisType>(index.value());
  }
  if (ellipses > 1)
    fail<IndexError>("index", {.what = "Ellipsis stands for all dimensions that are left",
                               .got = str(ellipses, " of them"),
                               .expected = "one",
                               .hint = "use Slice() for a dimension"});
  if (used > x.dim())
    fail<IndexError>("index", {.what = "there are more indices than dimensions",
                               .got = str(used, " for ", x),
                               .expected = str("at most ", x.dim())});
  return x.dim() - used;
}

/** Applies indices from left to right, as PyTorch does: numbers, slices and None make a view, which
 *  tensors then index. */
class Selector {
 public:
  explicit Selector(const Tensor& x) : view_(x) {}

  Selection select(std::span<const Index> indices) {
    left_ = dims_left(view_, indices);
    for (const Index& index : indices)
      std::visit([this](const auto& value) { apply(value); }, index.value());
    if (!has_tensors_) indices_.clear();
    return {.view = view_, .indices = indices_};
  }

 private:
  void apply(std::int64_t index) { view_ = view_.select(dim_, index); }
  void apply(const Slice& slice) {
    view_ = view_.slice(dim_, slice.start.value_or(0),
                        slice.stop.value_or(std::numeric_limits<std::int64_t>::max()), slice.step);
    keep(1);
  }
  void apply(std::nullopt_t) {
    view_ = view_.unsqueeze(dim_);
    keep(1);
  }
  void apply(EllipsisType) { keep(left_); }
  void apply(const Tensor& index) {
    has_tensors_ = true;
    indices_.push_back(index);
    dim_ += dims_used(index);
  }
  /** Passes over so many dimensions. */
  void keep(std::int64_t dims) {
    indices_.resize(indices_.size() + static_cast<std::size_t>(dims));
    dim_ += dims;
  }

  Tensor view_;
  std::vector<Tensor> indices_;
  std::int64_t dim_ = 0;   // of the view: where the next index applies
  std::int64_t left_ = 0;  // dimensions that Ellipsis stands for
  bool has_tensors_ = false;
};

}  // namespace

Tensor Tensor::index(std::span<const Index> indices) const {
  const Selection chosen = Selector(*this).select(indices);
  return chosen.indices.empty() ? chosen.view : mezzo::index(chosen.view, chosen.indices);
}

Tensor Tensor::index(std::initializer_list<Index> indices) const {
  return index(std::span(indices.begin(), indices.size()));
}

Tensor Tensor::operator[](const Index& one) const { return index(std::span(&one, 1)); }

Tensor Tensor::operator[](std::initializer_list<Index> indices) const { return index(indices); }

const Tensor& Tensor::index_put_(std::initializer_list<Index> indices, const Tensor& values,
                                 bool accumulate) const {
  const Selection chosen = Selector(*this).select({indices.begin(), indices.size()});
  if (!chosen.indices.empty())
    mezzo::index_put_(chosen.view, chosen.indices, values, {.accumulate = accumulate});
  else if (accumulate)
    chosen.view.add_(values);
  else
    chosen.view.copy_(values);
  return *this;
}

void Tensor::require_shared_memory() const {
  if (self().storage->owners() > 1) return;
  fail<ValueError>("operator=",
                   {.what = "the assignment would change a temporary tensor only",
                    .got = str(*this),
                    .expected = "a view of another tensor, such as x[0] or x[{Slice(0, 2), -1}]",
                    .hint = "where a mask or a tensor of indices selects the elements, use "
                            "x.index_put_({mask}, value)"});
}

const Tensor& Tensor::operator=(const Tensor& value) && {
  require_shared_memory();
  return copy_(value);
}

}  // namespace mezzo
