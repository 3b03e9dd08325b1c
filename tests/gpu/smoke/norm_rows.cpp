// Rows: norms, softmax and losses.
#include <array>

#include "../../../tensor/core/dispatch.h"
#include "../../../tensor/core/registry.h"
#include "../../../tensor/ops/norm/layer_norm.h"
#include "row.h"

namespace smoke {

namespace {

struct Sizes {
  std::int64_t rows, columns;
};
Sizes sizes(const Maker& make) { return {make.pick(6, 300, 16384), make.pick(40, 1000, 4096)}; }

/** Forward and backward of f over rows of x, with `vectors` weights and biases. */
template <class F>
void add_pair(std::vector<Row>& rows, const std::string& op, DType dtype, int vectors, const F& f) {
  const auto cases = [=](const Maker& make, bool backward) {
    const auto [count, columns] = sizes(make);
    Tensors operands{make.normal({count, columns}, dtype)};
    for (int i = 0; i < vectors; ++i) operands.push_back(make.normal({columns}, dtype));
    if (!backward) return forward_case(operands, 2, f);
    operands.push_back(make.normal({count, columns}, dtype));
    return backward_case(operands, 3, f);
  };
  const std::string what = op + " " + std::string(name(dtype));
  rows.push_back(
      {what + " forward", [=](const Maker& make) { return cases(make, false); }, tolerance(dtype)});
  rows.push_back({what + " backward", [=](const Maker& make) { return cases(make, true); },
                  2 * tolerance(dtype)});
}

/** Forward and backward of f(x, weight, bias) over images. */
template <class F>
void add_image_pair(std::vector<Row>& rows, const std::string& op, DType dtype, MemoryFormat format,
                    const F& f) {
  const auto cases = [=](const Maker& make, bool backward) {
    const std::int64_t batch = make.pick(3, 8, 128), channels = make.pick(8, 32, 128),
                       pixels = make.pick(4, 14, 56);
    const Shape shape{batch, channels, pixels, pixels};
    const auto on_images = [=](const Tensors& x) { return f(x[0].contiguous(format), x[1], x[2]); };
    Tensors operands{make.normal(shape, dtype).contiguous(format), make.normal({channels}),
                     make.normal({channels})};
    if (!backward) return forward_case(operands, 2, on_images);
    operands.push_back(make.normal(shape, dtype).contiguous(format));
    return backward_case(operands, 3, on_images);
  };
  const std::string what = op + " " + std::string(name(dtype)) +
                           (format == MemoryFormat::contiguous ? " NCHW" : " NHWC");
  rows.push_back({what + " forward", [=](const Maker& make) { return cases(make, false); },
                  2 * tolerance(dtype)});
  rows.push_back({what + " backward", [=](const Maker& make) { return cases(make, true); },
                  4 * tolerance(dtype)});
}

void add_cross_entropy(std::vector<Row>& rows, DType dtype) {
  const auto cases = [=](const Maker& make, bool backward) {
    const std::int64_t count = make.pick(6, 100, 8192), classes = make.pick(40, 3000, 50304);
    const auto f = [](const Tensors& x) { return cross_entropy(x[0], x[1]); };
    Tensors operands{make.normal({count, classes}, dtype), make.indices(classes, {count})};
    if (!backward) return forward_case(operands, 1, f);
    operands.push_back(ones_like(f(operands)));
    return backward_case(operands, 2, f);
  };
  const std::string what = "cross_entropy " + std::string(name(dtype));
  rows.push_back(
      {what + " forward", [=](const Maker& make) { return cases(make, false); }, tolerance(dtype)});
  rows.push_back(
      {what + " backward", [=](const Maker& make) { return cases(make, true); }, tolerance(dtype)});
}

void add_ctc(std::vector<Row>& rows) {
  const auto cases = [](const Maker& make) {
    const std::int64_t steps = make.pick(8, 60, 500), batch = make.pick(2, 4, 32),
                       length = steps / 4;
    return backward_case(
        {make.normal({steps, batch, 20}), make.indices(19, {batch, length}) + 1,
         make.fill({batch}, static_cast<double>(steps), i64),
         make.fill({batch}, static_cast<double>(length), i64), make.fill({}, 1)},
        3, [](const Tensors& x) { return ctc_loss(log_softmax(x[0], 2), x[1], x[2], x[3]); });
  };
  rows.push_back({"ctc_loss f32 backward", cases, 1e-3});
}

}  // namespace

void add_norm_rows(std::vector<Row>& rows) {
  const auto columns = [](const Tensors& x) { return Shape{x[0].size(-1)}; };
  for (const DType dtype : {f32, f16, bf16}) {
    add_pair(rows, "softmax", dtype, 0, [](const Tensors& x) { return softmax(x[0], -1); });
    add_pair(rows, "log_softmax", dtype, 0, [](const Tensors& x) { return log_softmax(x[0], -1); });
    add_pair(rows, "layer_norm", dtype, 2, [=](const Tensors& x) {
      return layer_norm(x[0], columns(x), {.weight = x[1], .bias = x[2]});
    });
    add_pair(rows, "add_layer_norm", dtype, 2, [=](const Tensors& x) {
      const op::AddLayerNorm::Attrs attrs{columns(x)};
      std::array<Tensor, 4> in{x[0], x[0] * 0.5, x[1], x[2]};
      std::array<Tensor, op::AddLayerNorm::traits.outputs> out;
      run(*find_op("add_layer_norm"), in, out, &attrs);
      return out[1];
    });
    add_pair(rows, "rms_norm", dtype, 1,
             [=](const Tensors& x) { return rms_norm(x[0], columns(x), {.weight = x[1]}); });
    for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
      add_image_pair(rows, "batch_norm", dtype, format,
                     [](const Tensor& x, const Tensor& w, const Tensor& b) {
                       return batch_norm(x, {.weight = w, .bias = b, .training = true});
                     });
      add_image_pair(rows, "sync_batch_norm", dtype, format,
                     [](const Tensor& x, const Tensor& w, const Tensor& b) {
                       const BatchNormOptions options{.weight = w, .bias = b, .training = true};
                       return detail::sync_batch_norm(x, options, comm::Communicator());
                     });
    }
    add_image_pair(rows, "group_norm", dtype, MemoryFormat::contiguous,
                   [](const Tensor& x, const Tensor& w, const Tensor& b) {
                     return group_norm(x, 4, {.weight = w, .bias = b});
                   });
    add_cross_entropy(rows, dtype);
  }
  add_ctc(rows);
}

}  // namespace smoke
