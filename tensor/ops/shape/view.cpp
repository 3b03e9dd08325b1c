// The shape methods of Tensor: argument checks, then one view op.
#include "view.h"

#include <algorithm>

#include "../../core/checked_size.h"
#include "../../core/dispatch.h"
#include "../../core/error.h"
#include "../../core/registry.h"
#include "../../text/text.h"

namespace mezzo {

namespace {

/** Returns the strides of `shape` over the elements of x in row-major order, or nothing if x's
 *  strides do not allow such a view. */
std::optional<Strides> view_strides(const Tensor& x, const Shape& shape) {
  if (x.is_contiguous()) return contiguous_strides(shape);
  Strides out = Strides::filled(shape.rank(), 0);
  int to = shape.rank() - 1;
  std::int64_t chunk_stride = 1, from_elements = 1, to_elements = 1;
  for (int from = x.dim() - 1; from >= 0; --from) {
    if (from_elements == 1) chunk_stride = x.strides()[from];
    from_elements *= x.shape()[from];
    // A run of source dimensions ends where the next outer one is not contiguous with it.
    const bool run_ends = from == 0 || (x.shape()[from - 1] != 1 &&
                                        x.strides()[from - 1] != from_elements * chunk_stride);
    if (!run_ends) continue;
    while (to >= 0 && (to_elements < from_elements || shape[to] == 1)) {
      out[to] = to_elements * chunk_stride;
      to_elements *= shape[to--];
    }
    if (to_elements != from_elements) return std::nullopt;
    from_elements = to_elements = 1;
  }
  return to < 0 ? std::optional(out) : std::nullopt;
}

/** Returns the shape with its -1 replaced by the size that makes the element counts equal. */
Shape complete_shape(const Tensor& x, const Shape& wanted, const char* op) {
  Shape shape = wanted;
  std::int64_t known = 1;
  int unknown = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1 && unknown < 0)
      unknown = i;
    else if (shape[i] < 0)
      fail<ShapeError>(op,
                       {.what = shape[i] == -1 ? "more than one size to infer" : "negative size",
                        .got = str(wanted),
                        .expected = "sizes >= 0 and at most one -1"});
    else if (__builtin_mul_overflow(known, shape[i], &known))
      fail<SizeError>(op, {.what = "number of elements overflows", .got = str(wanted)});
  }
  const bool ambiguous = unknown >= 0 && known == 0;
  if (ambiguous)
    fail<ShapeError>(op, {.what = "the size to infer is ambiguous for an empty tensor",
                          .got = str(wanted),
                          .expected = "every size given"});
  if (unknown >= 0 && x.numel() % known == 0) known *= shape[unknown] = x.numel() / known;
  if (known != x.numel() || (unknown >= 0 && shape[unknown] < 0))
    fail<ShapeError>(op, {.what = "element counts differ",
                          .got = str(x, " as ", wanted),
                          .expected = str(x.numel(), " elements")});
  checked_numel(shape, op);  // a size of 0 makes the product above 0; check the other sizes
  return shape;
}

}  // namespace

namespace op {

Tensor View::view(const Tensor& x, const Attrs& attrs) {
  const std::optional<Strides> strides =
      x.numel() == 0 ? contiguous_strides(attrs.shape) : view_strides(x, attrs.shape);
  if (!strides)
    fail<ShapeError>("view", {.what = "the strides do not allow this shape without a copy",
                              .got = str(x, " with strides ", x.strides(), " as ", attrs.shape),
                              .hint = "use x.reshape(...)"});
  return alias(x, attrs.shape, *strides, x.impl()->offset);
}

Tensor Permute::view(const Tensor& x, const Attrs& attrs) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  for (int i = 0; i < x.dim(); ++i) {
    shape[i] = x.shape()[attrs.order[i]];
    strides[i] = x.strides()[attrs.order[i]];
  }
  return alias(x, shape, strides, x.impl()->offset);
}

Tensor Expand::view(const Tensor& x, const Attrs& attrs) {
  Strides strides = Strides::filled(attrs.shape.rank(), 0);
  const int lead = attrs.shape.rank() - x.dim();
  for (int i = 0; i < x.dim(); ++i)
    strides[lead + i] = x.shape()[i] == attrs.shape[lead + i] ? x.strides()[i] : 0;
  return alias(x, attrs.shape, strides, x.impl()->offset);
}

Tensor Slice::view(const Tensor& x, const Attrs& attrs) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape[attrs.dim] = attrs.length;
  if (attrs.length > 1)
    strides[attrs.dim] *= attrs.step;  // for a single element the step is unused
  return alias(x, shape, strides, x.impl()->offset + attrs.start * x.strides()[attrs.dim]);
}

Tensor Select::view(const Tensor& x, const Attrs& attrs) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.erase(attrs.dim);
  strides.erase(attrs.dim);
  return alias(x, shape, strides, x.impl()->offset + attrs.index * x.strides()[attrs.dim]);
}

Tensor AsStrided::view(const Tensor& x, const Attrs& attrs) {
  return alias(x, attrs.shape, attrs.strides, x.impl()->offset + attrs.offset);
}

bool overlaps_itself(const Shape& shape, const Strides& strides) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 0) return false;
    if (shape[i] > 1) steps.emplace_back(strides[i], shape[i]);
  }
  std::sort(steps.begin(), steps.end());
  std::int64_t reach = 0;  // largest offset in the dimensions with smaller strides
  for (const auto& step : steps) {
    if (step.first <= reach) return true;
    reach += step.first * (step.second - 1);
  }
  return false;
}

}  // namespace op

// ---- methods ------------------------------------------------------------------------------------

namespace {

Tensor permuted(const Tensor& x, const Shape& order) { return apply_with<op::Permute>({order}, x); }

Shape identity_order(int rank) {
  Shape order;
  for (int i = 0; i < rank; ++i) order.push_back(i);
  return order;
}

/** Returns an empty list with capacity for `views` views, so that too many fail before the first is
 *  made. */
std::vector<Tensor> reserved_list(const char* op, std::int64_t views) {
  std::vector<Tensor> list;
  or_out_of_memory(op, [&] { list.reserve(static_cast<std::size_t>(views)); });
  return list;
}

void require_dimensions(const Tensor& x, const char* op) {
  if (x.dim() == 0)
    fail<ShapeError>(op, {.what = "a 0-dim tensor has no dimension to take from",
                          .got = str(x),
                          .expected = "at least one dimension"});
}

}  // namespace

Tensor Tensor::view(const Shape& shape) const {
  return apply_with<op::View>({complete_shape(*this, shape, "view")}, *this);
}

Tensor Tensor::reshape(const Shape& shape) const {
  const Shape full = complete_shape(*this, shape, "reshape");
  const bool viewable = numel() == 0 || view_strides(*this, full).has_value();
  return viewable ? apply_with<op::View>({full}, *this)
                  : apply_with<op::View>({full}, contiguous());
}

Tensor Tensor::flatten(std::int64_t start, std::int64_t end) const {
  const int first = wrap_dim(start, dim(), "flatten"), last = wrap_dim(end, dim(), "flatten");
  if (first > last)
    fail<ShapeError>("flatten",
                     {.what = "start is after end", .got = str(start, "..", end, " of ", *this)});
  if (dim() == 0) return reshape({1});
  Shape shape;
  for (int i = 0; i < first; ++i) shape.push_back(this->shape()[i]);
  std::int64_t merged = 1;
  for (int i = first; i <= last; ++i) merged *= this->shape()[i];
  shape.push_back(merged);
  for (int i = last + 1; i < dim(); ++i) shape.push_back(this->shape()[i]);
  return reshape(shape);
}

Tensor Tensor::unflatten(std::int64_t dim, const Shape& sizes) const {
  require_dimensions(*this, "unflatten");
  const int d = wrap_dim(dim, this->dim(), "unflatten");
  const Tensor probe = alias(*this, {shape()[d]}, {strides()[d]}, 0);
  const Shape inner = complete_shape(probe, sizes, "unflatten");
  Shape shape = this->shape();
  shape.erase(d);
  for (int i = 0; i < inner.rank(); ++i) shape.insert(d + i, inner[i]);
  return view(shape);
}

Tensor Tensor::transpose(std::int64_t a, std::int64_t b) const {
  const int first = wrap_dim(a, dim(), "transpose"), second = wrap_dim(b, dim(), "transpose");
  Shape order = identity_order(dim());
  if (dim() > 0) std::swap(order[first], order[second]);
  return permuted(*this, order);
}

Tensor Tensor::t() const {
  if (dim() != 2)
    fail<ShapeError>("t", {.what = "only matrices have a transpose",
                           .got = str(*this),
                           .expected = "2 dimensions",
                           .hint = "use x.transpose(a, b)"});
  return transpose(0, 1);
}

Tensor Tensor::permute(std::span<const std::int64_t> wanted) const {
  if (static_cast<int>(wanted.size()) != dim())
    fail<ShapeError>("permute", {.what = "the order must contain every dimension",
                                 .got = str(Shape(wanted), " for ", *this),
                                 .expected = str(dim(), " dimensions")});
  dim_mask(wanted, dim(), "permute");
  Shape order;
  for (const std::int64_t d : wanted) order.push_back(wrap_dim(d, dim(), "permute"));
  return permuted(*this, order);
}

Tensor Tensor::permute(std::initializer_list<std::int64_t> order) const {
  return permute(std::span(order.begin(), order.size()));
}

Tensor Tensor::movedim(std::initializer_list<std::int64_t> from,
                       std::initializer_list<std::int64_t> to) const {
  return movedim(std::span(from.begin(), from.size()), std::span(to.begin(), to.size()));
}

Tensor Tensor::movedim(std::int64_t from, std::int64_t to) const {
  return movedim(std::span(&from, 1), std::span(&to, 1));
}

Tensor Tensor::movedim(std::span<const std::int64_t> from, std::span<const std::int64_t> to) const {
  if (from.size() != to.size())
    fail<ShapeError>("movedim",
                     {.what = "the numbers of dimensions and targets must be equal",
                      .got = str(from.size(), " dimensions and ", to.size(), " targets")});
  if (from.empty() || dim() == 0) {
    for (std::size_t i = 0; i < from.size(); ++i)
      wrap_dim(from[i], 0, "movedim"), wrap_dim(to[i], 0, "movedim");
    return *this;
  }
  const std::uint32_t moved = dim_mask(from, dim(), "movedim"),
                      taken = dim_mask(to, dim(), "movedim");
  Shape order = Shape::filled(dim(), -1);
  for (std::size_t i = 0; i < from.size(); ++i)
    order[wrap_dim(to[i], dim(), "movedim")] = wrap_dim(from[i], dim(), "movedim");
  for (int source = 0, target = 0; source < dim(); ++source) {
    if (moved >> source & 1) continue;
    while (taken >> target & 1) ++target;
    order[target++] = source;
  }
  return permuted(*this, order);
}

Tensor Tensor::squeeze() const {
  Shape shape;
  for (const std::int64_t size : this->shape())
    if (size != 1) shape.push_back(size);
  return view(shape);
}

Tensor Tensor::squeeze(std::int64_t dim) const {
  const int d = wrap_dim(dim, this->dim(), "squeeze");
  Shape shape = this->shape();
  if (this->dim() > 0 && shape[d] == 1) shape.erase(d);
  return view(shape);
}

Tensor Tensor::unsqueeze(std::int64_t dim) const {
  Shape shape = this->shape();
  shape.insert(wrap_dim(dim, this->dim() + 1, "unsqueeze"), 1);
  return view(shape);
}

Tensor Tensor::expand(const Shape& wanted) const {
  Shape shape = wanted;
  const int lead = shape.rank() - dim();
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] == -1 && i >= lead) shape[i] = this->shape()[i - lead];
  checked_numel(shape, "expand");
  if (!is_expandable(this->shape(), shape))
    fail<ShapeError>("expand", {.what = "sizes do not fit",
                                .got = str(*this, " to ", wanted),
                                .expected = "equal sizes, or 1 to repeat a dimension"});
  return shape == this->shape() ? *this : apply_with<op::Expand>({shape}, *this);
}

Tensor Tensor::slice(std::int64_t dim, std::int64_t start, std::int64_t end,
                     std::int64_t step) const {
  require_dimensions(*this, "slice");
  const int d = wrap_dim(dim, this->dim(), "slice");
  if (step <= 0)
    fail<ValueError>("slice",
                     {.what = "step must be positive", .got = str(step), .expected = "step > 0"});
  const std::int64_t size = shape()[d];
  const auto clamped = [size](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + size : i, 0, size);
  };
  const std::int64_t first = clamped(start), last = std::max(first, clamped(end));
  return apply_with<op::Slice>({d, first, ceil_div(last - first, step), step}, *this);
}

Tensor Tensor::narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const {
  require_dimensions(*this, "narrow");
  const int d = wrap_dim(dim, this->dim(), "narrow");
  const std::int64_t size = shape()[d], first = start < 0 ? start + size : start;
  if (first < 0 || length < 0 || first > size || length > size - first)
    fail<IndexError>("narrow", {.what = "range outside the tensor",
                                .got = str("start ", start, ", length ", length,
                                           " along dimension ", d, " of ", *this),
                                .expected = str("0..", size)});
  return apply_with<op::Slice>({d, first, length, 1}, *this);
}

Tensor Tensor::select(std::int64_t dim, std::int64_t index) const {
  require_dimensions(*this, "select");
  const int d = wrap_dim(dim, this->dim(), "select");
  const std::int64_t size = shape()[d];
  if (index < -size || index >= size)
    fail<IndexError>("select", {.what = "index out of range",
                                .got = str(index, " along dimension ", d, " of ", *this),
                                .expected = str(-size, "..", size - 1)});
  return apply_with<op::Select>({d, index < 0 ? index + size : index}, *this);
}

std::vector<Tensor> Tensor::split(std::int64_t size, std::int64_t dim) const {
  require_dimensions(*this, "split");
  const int d = wrap_dim(dim, this->dim(), "split");
  if (size <= 0)
    fail<ValueError>("split",
                     {.what = "size must be positive", .got = str(size), .expected = "size > 0"});
  std::vector<Tensor> pieces = reserved_list("split", ceil_div(shape()[d], size));
  for (std::int64_t start = 0; start == 0 || start < shape()[d]; start += size)
    pieces.push_back(narrow(d, start, std::min(size, shape()[d] - start)));
  return pieces;
}

std::vector<Tensor> Tensor::chunk(std::int64_t chunks, std::int64_t dim) const {
  require_dimensions(*this, "chunk");
  if (chunks <= 0)
    fail<ValueError>("chunk", {.what = "number of chunks must be positive",
                               .got = str(chunks),
                               .expected = "chunks > 0"});
  const std::int64_t length = size(dim);
  return split(std::max<std::int64_t>(ceil_div(length, chunks), 1), dim);
}

std::vector<Tensor> Tensor::unbind(std::int64_t dim) const {
  require_dimensions(*this, "unbind");
  std::vector<Tensor> pieces = reserved_list("unbind", size(dim));
  for (std::int64_t i = 0; i < size(dim); ++i) pieces.push_back(select(dim, i));
  return pieces;
}

Tensor Tensor::as_strided(const Shape& shape, const Strides& strides, std::int64_t offset) const {
  if (shape.rank() != strides.rank())
    fail<ShapeError>("as_strided", {.what = "sizes and strides differ in number",
                                    .got = str(shape, " with strides ", strides)});
  const auto elements = static_cast<std::int64_t>(self().storage->bytes() / item_size(dtype()));
  WideSize last = WideSize{self().offset} + offset;
  const bool before = last < 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (strides[i] < 0)
      fail<ValueError>(
          "as_strided",
          {.what = "negative stride", .got = str(strides), .expected = "strides >= 0"});
    last += (WideSize{std::max<std::int64_t>(shape[i], 1)} - 1) * strides[i];
  }
  // A view without elements is never read, but its offsets must not overflow.
  const bool outside = checked_numel(shape, "as_strided") > 0
                           ? before || last >= elements
                           : last < -kMaxElements || last > kMaxElements;
  if (outside)
    fail<IndexError>("as_strided", {.what = "the view extends outside the storage",
                                    .got = str(shape, " with strides ", strides, " and offset ",
                                               offset, " of ", *this),
                                    .expected = str("elements up to ", elements - 1)});
  return apply_with<op::AsStrided>({shape, strides, offset, this->strides()}, *this);
}

}  // namespace mezzo

namespace mezzo::op {

std::span<OpInfo* const> view_ops() { return infos_of(ViewOps{}); }

}  // namespace mezzo::op
