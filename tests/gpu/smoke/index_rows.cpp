// Rows: indexing, sorting, scans, pooling and resizing.
#include "row.h"

namespace smoke {

namespace {

/** f of a matrix x[rows, columns] and indices of its rows. */
template <class F>
void add_indexed(std::vector<Row>& rows, const std::string& op, Expected expected, F f) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t n = make.pick(40, 500, 8192), columns = make.pick(24, 100, 2048);
    return forward_case({make.normal({n, columns}), make.indices(n, {n, columns})}, 2, f);
  };
  rows.push_back({op + " f32", cases, tolerance(f32), expected});
}

void add_embedding(std::vector<Row>& rows, DType dtype, bool backward) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t entries = make.pick(30, 1000, 50304), width = make.pick(16, 64, 768),
                       count = make.pick(50, 2000, 16384);
    const auto f = [](const Tensors& x) { return embedding(x[0], x[1]); };
    Tensors operands{make.indices(entries, {count}), make.normal({entries, width}, dtype)};
    if (backward) operands.push_back(make.normal({count, width}, dtype));
    Case c = backward ? backward_case(operands, 0, f) : forward_case(operands, 0, f);
    c.bytes = 2 * static_cast<double>(count * width) * static_cast<double>(item_size(dtype));
    return c;
  };
  rows.push_back({"embedding " + std::string(name(dtype)) + (backward ? " backward" : " forward"),
                  cases, tolerance(dtype)});
}

/** f of the rows of a matrix, compared exactly. */
template <class F>
void add_rows(std::vector<Row>& rows, const std::string& op, DType dtype, Expected expected, F f) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t n = make.pick(6, 50, 4096), columns = make.pick(70, 1000, 4096);
    return forward_case({make.normal({n, columns}, dtype)}, 2, f);
  };
  rows.push_back({op + " " + std::string(name(dtype)), cases, tolerance(dtype), expected});
}

/** f of images, or its gradient. */
template <class F>
void add_images(std::vector<Row>& rows, const std::string& op, DType dtype, MemoryFormat format,
                F f) {
  for (const bool backward : {false, true}) {
    const auto cases = [=](const Maker& make) {
      const std::int64_t batch = make.pick(1, 4, 64), channels = make.pick(3, 16, 64),
                         pixels = make.pick(8, 28, 112);
      const auto g = [=](const Tensors& x) { return f(x[0].contiguous(format)); };
      const Tensor x = make.normal({batch, channels, pixels, pixels}, dtype).contiguous(format);
      if (!backward) return forward_case({x}, 1.5, g);
      const Shape shape = g({x}).shape();
      return backward_case({x, make.normal(shape, dtype)}, 2, g);
    };
    rows.push_back({op + " " + std::string(name(dtype)) +
                        (format == MemoryFormat::contiguous ? " NCHW" : " NHWC") +
                        (backward ? " backward" : " forward"),
                    cases, 2 * tolerance(dtype)});
  }
}

void add_grid_sample(std::vector<Row>& rows) {
  const auto cases = [](const Maker& make) {
    const std::int64_t batch = make.pick(1, 2, 16), pixels = make.pick(8, 28, 128);
    const Shape image{batch, 3, pixels, pixels};
    // Away from integer positions, where the gradient by the grid is discontinuous.
    return backward_case({make.normal(image), make.normal({batch, pixels, pixels, 2}) * 0.3 + 0.01,
                          make.normal(image)},
                         4, [](const Tensors& x) { return grid_sample(x[0], x[1]); });
  };
  rows.push_back({"grid_sample f32 backward", cases, 1e-2});
}

}  // namespace

void add_index_rows(std::vector<Row>& rows) {
  const auto same = Expected::same;
  add_indexed(rows, "gather", same, [](const Tensors& x) { return gather(x[0], 0, x[1]); });
  add_indexed(rows, "scatter", same, [](const Tensors& x) { return scatter(x[0], 0, x[1], x[0]); });
  add_indexed(rows, "scatter_add", Expected::close,
              [](const Tensors& x) { return scatter_add(x[0], 0, x[1], x[0]); });
  add_indexed(rows, "index_select", same,
              [](const Tensors& x) { return index_select(x[0], 0, x[1].select(1, 0)); });
  add_indexed(rows, "index_add", Expected::close,
              [](const Tensors& x) { return index_add(x[0], 0, x[1].select(1, 0), x[0]); });
  add_indexed(rows, "index_put", same,
              [](const Tensors& x) { return index_put(x[0], {x[1].select(1, 0)}, x[0]); });
  add_indexed(rows, "masked_select", same,
              [](const Tensors& x) { return masked_select(x[0], x[0] > 0); });
  add_indexed(rows, "nonzero", same, [](const Tensors& x) { return nonzero(x[0] > 1); });
  for (const DType dtype : {f32, bf16})
    for (const bool backward : {false, true}) add_embedding(rows, dtype, backward);
  add_rows(rows, "cat", f32, same, [](const Tensors& x) { return cat({x[0], x[0]}, 1); });
  add_rows(rows, "tril", f32, same, [](const Tensors& x) { return tril(x[0]); });
  add_rows(rows, "cumsum", f32, Expected::close,
           [](const Tensors& x) { return cumsum(square(x[0]), 1); });
  add_rows(rows, "cumsum, long", f32, Expected::close,
           [](const Tensors& x) { return cumsum(square(x[0]).flatten(), 0); });
  add_rows(rows, "cumsum of i32, long", f32, same,
           [](const Tensors& x) { return cumsum((x[0] * 8.0).to(i32).flatten(), 0); });
  add_rows(rows, "cummax", f32, same, [](const Tensors& x) { return cummax(x[0], 1).values; });
  add_rows(rows, "cummax, long", f32, same,
           [](const Tensors& x) { return cummax(x[0].flatten(), 0).indices; });
  for (const DType dtype : {f32, f16}) {
    add_rows(rows, "sort", dtype, same, [](const Tensors& x) { return sort(x[0]).indices; });
    add_rows(rows, "topk", dtype, same, [](const Tensors& x) { return topk(x[0], 5).indices; });
  }
  add_rows(rows, "sort, long", f32, same,
           [](const Tensors& x) { return sort(x[0].flatten()).indices; });
  add_rows(rows, "kthvalue", f32, same, [](const Tensors& x) { return kthvalue(x[0], 7).values; });
  add_rows(rows, "median", f32, same, [](const Tensors& x) { return median(x[0], 1).values; });
  add_rows(rows, "renorm", f32, Expected::close,
           [](const Tensors& x) { return renorm(x[0], 2, 0, 1); });
  add_rows(rows, "searchsorted", f32, same,
           [](const Tensors& x) { return searchsorted(sort(x[0]).values, x[0]); });
  add_rows(rows, "pdist", f32, Expected::close,
           [](const Tensors& x) { return pdist(x[0].slice(0, 0, 200)); });
  const auto nchw = MemoryFormat::contiguous, nhwc = MemoryFormat::channels_last;
  for (const DType dtype : {f32, bf16})
    for (const MemoryFormat format : {nchw, nhwc}) {
      add_images(rows, "max_pool2d", dtype, format,
                 [](const Tensor& x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); });
      add_images(rows, "avg_pool2d", dtype, format,
                 [](const Tensor& x) { return avg_pool2d(x, 2); });
      add_images(rows, "adaptive_avg_pool2d", dtype, format,
                 [](const Tensor& x) { return adaptive_avg_pool2d(x, 1); });
    }
  for (const auto& [mode, what] : {std::pair{InterpolateMode::nearest, "interpolate nearest"},
                                   std::pair{InterpolateMode::bilinear, "interpolate bilinear"}})
    add_images(rows, what, f32, nchw, [mode = mode](const Tensor& x) {
      return interpolate(x, {.scale_factor = 2, .mode = mode});
    });
  add_images(rows, "unfold 3x3", f32, nchw,
             [](const Tensor& x) { return unfold(x, 3, {.padding = 1}); });
  add_grid_sample(rows);
}

}  // namespace smoke
