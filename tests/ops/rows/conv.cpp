// Rows of the convolutions.
#include <algorithm>
#include <array>

#include "../row.h"
#include "smoke_lines.h"
#include "windows.h"

using namespace rows;
using namespace mezzo;

namespace {

using Triple = std::array<std::int64_t, 3>;

/** The parameters of a convolution; spatial ones always have three dimensions. */
struct Geometry {
  Triple stride{1, 1, 1}, pad_begin{}, pad_end{}, dilation{1, 1, 1}, output_padding{};
  std::int64_t groups = 1;
};

/** Returns (batch, channels, depth, height, width) of an array with `dims` spatial dimensions. */
std::array<std::int64_t, 5> sizes_of(const Shape& shape, int dims) {
  std::array<std::int64_t, 5> sizes{1, 1, 1, 1, 1};
  const int first = shape.rank() - dims;
  if (first == 2) sizes[0] = shape[0];
  sizes[1] = shape[first - 1];
  for (int i = 0; i < dims; ++i) sizes[static_cast<std::size_t>(5 - dims + i)] = shape[first + i];
  return sizes;
}

std::size_t index_in(const std::array<std::int64_t, 5>& s, std::int64_t n, std::int64_t c,
                     std::int64_t z, std::int64_t y, std::int64_t x) {
  return static_cast<std::size_t>((((n * s[1] + c) * s[2] + z) * s[3] + y) * s[4] + x);
}

/** Visits every (input element, output element, weight) triple of a convolution from `in` to `out`
 *  with weight `w`. */
template <class F>
void for_each_meeting(const std::array<std::int64_t, 5>& in, const std::array<std::int64_t, 5>& out,
                      const std::array<std::int64_t, 5>& w, const Geometry& g, F&& visit) {
  const std::int64_t in_group = in[1] / g.groups, out_group = out[1] / g.groups;
  for (std::int64_t n = 0; n < out[0]; ++n)
    for (std::int64_t o = 0; o < out[1]; ++o)
      for (std::int64_t c = 0; c < in_group; ++c)
        for (std::int64_t p = 0; p < out[2] * out[3] * out[4]; ++p)
          for (std::int64_t k = 0; k < w[2] * w[3] * w[4]; ++k) {
            const Triple i{p / (out[3] * out[4]), p / out[4] % out[3], p % out[4]};
            const Triple t{k / (w[3] * w[4]), k / w[4] % w[3], k % w[4]};
            Triple from;
            bool inside = true;
            for (std::size_t d = 0; d < 3; ++d) {
              from[d] = i[d] * g.stride[d] - g.pad_begin[d] + t[d] * g.dilation[d];
              inside = inside && from[d] >= 0 && from[d] < in[2 + d];
            }
            if (inside)
              visit(index_in(in, n, o / out_group * in_group + c, from[0], from[1], from[2]),
                    index_in(out, n, o, i[0], i[1], i[2]), index_in(w, o, c, t[0], t[1], t[2]));
          }
}

Array with_bias(Array y, const std::vector<Array>& x, int dims) {
  if (x.size() < 3) return y;
  const auto s = sizes_of(y.shape, dims);
  for (std::size_t i = 0; i < y.values.size(); ++i)
    y.values[i] += x[2][static_cast<std::int64_t>(i) / (s[2] * s[3] * s[4]) % s[1]];
  return y;
}

/** Returns zeros of the input's shape with other channels and spatial sizes. */
Array zeros_like_result(const Shape& x, int dims, std::int64_t channels, const Triple& sizes) {
  Shape shape = x;
  const int first = shape.rank() - dims;
  shape[first - 1] = channels;
  std::int64_t count = 1;
  for (int i = 0; i < dims; ++i) shape[first + i] = sizes[static_cast<std::size_t>(3 - dims + i)];
  for (const std::int64_t s : shape) count *= s;
  return {shape, std::vector<double>(static_cast<std::size_t>(count), 0.0)};
}

Oracle conv_oracle(int dims, const Geometry& g) {
  return [=](const std::vector<Array>& x) {
    const auto in = sizes_of(x[0].shape, dims), w = sizes_of(x[1].shape, dims);
    Triple sizes;
    for (std::size_t d = 0; d < 3; ++d)
      sizes[d] = (in[2 + d] + g.pad_begin[d] + g.pad_end[d] - g.dilation[d] * (w[2 + d] - 1) - 1) /
                     g.stride[d] +
                 1;
    Array y = zeros_like_result(x[0].shape, dims, w[0], sizes);
    for_each_meeting(in, sizes_of(y.shape, dims), w, g,
                     [&](std::size_t i, std::size_t o, std::size_t k) {
                       y.values[o] += x[0].values[i] * x[1].values[k];
                     });
    return std::vector<Array>{with_bias(y, x, dims)};
  };
}

Oracle transposed_oracle(int dims, const Geometry& g) {
  return [=](const std::vector<Array>& x) {
    const auto in = sizes_of(x[0].shape, dims), w = sizes_of(x[1].shape, dims);
    Triple sizes;
    for (std::size_t d = 0; d < 3; ++d)
      sizes[d] = (in[2 + d] - 1) * g.stride[d] - g.pad_begin[d] - g.pad_end[d] +
                 g.dilation[d] * (w[2 + d] - 1) + g.output_padding[d] + 1;
    Array y = zeros_like_result(x[0].shape, dims, w[1] * g.groups, sizes);
    for_each_meeting(sizes_of(y.shape, dims), in, w, g,
                     [&](std::size_t o, std::size_t i, std::size_t k) {
                       y.values[o] += x[0].values[i] * x[1].values[k];
                     });
    return std::vector<Array>{with_bias(y, x, dims)};
  };
}

/** The case of a convolution, or of a transposed one. */
Case conv_case(const char* variant, int dims, const Geometry& g,
               std::vector<std::vector<Shape>> shapes, bool conv_transpose_rows = false) {
  const std::size_t operands = shapes[0].size();
  return {.variant = variant,
          .oracle = conv_transpose_rows ? transposed_oracle(dims, g) : conv_oracle(dims, g),
          .operands = std::vector<Operand>(operands),
          .shapes = std::move(shapes)};
}

// ---- arguments of the fuzzer --------------------------------------------------------------------

struct ConvArguments {
  Tensor x, w, bias;
  std::vector<std::int64_t> stride, padding, output_padding, dilation;
  std::int64_t groups;
};

ConvArguments conv_arguments(FuzzDraw& d, int dims, bool conv_transpose_rows) {
  ConvArguments a;
  a.stride = window(d, dims, 1, 3);
  a.padding = window(d, dims, 0, 2);
  a.output_padding = d.flag() ? window(d, dims, 0, 1) : std::vector<std::int64_t>{0};
  a.dilation = window(d, dims, 1, 2);
  a.groups = d.flag() ? 1 : d.number(0, 3);
  const std::int64_t groups = a.groups >= 1 && a.groups <= 3 ? a.groups : 1,
                     per_group = 1 + d.below(2), others = 1 + d.below(3);
  Shape x, w{conv_transpose_rows ? groups * per_group : others * groups,
             conv_transpose_rows ? others : per_group};
  if (d.chance(0.8)) x.push_back(d.below(3));
  x.push_back(groups * per_group);
  for (int i = 0; i < dims; ++i) {
    x.push_back(1 + d.below(8));
    w.push_back(d.chance(0.05) ? 0 : 1 + d.below(3));
  }
  if (d.chance(0.05)) x = d.shape();
  if (d.chance(0.05)) w = d.shape();
  a.x = d.floats(x);
  a.w = d.tensor(w, a.x.dtype());
  a.bias = d.optional({conv_transpose_rows ? others * groups : others * groups}, a.x.dtype());
  return a;
}

/** Returns the shape of a convolution's result, or nothing. */
Expected conv_result(const ConvArguments& a, int dims, bool conv_transpose_rows) {
  const Sizes x = sizes(a.x), w = sizes(a.w);
  const auto spatial = static_cast<std::size_t>(dims);
  if ((x.size() != spatial + 1 && x.size() != spatial + 2) || w.size() != spatial + 2 ||
      a.groups < 1)
    return refused();
  const std::size_t first = x.size() - spatial;
  const Wide channels = conv_transpose_rows ? w[0] : w[1] * a.groups,
             results = conv_transpose_rows ? w[1] * a.groups : w[0];
  if (x[first - 1] != channels || channels % a.groups != 0 || results % a.groups != 0)
    return refused();
  Sizes shape = x;
  shape[first - 1] = results;
  for (int i = 0; i < dims; ++i) {
    const auto stride = at(a.stride, dims, i), padding = at(a.padding, dims, i),
               dilation = at(a.dilation, dims, i), more = at(a.output_padding, dims, i);
    if (!stride || !padding || !dilation || *stride < 1 || *dilation < 1 || *padding < 0)
      return refused();
    const Wide in = x[first + static_cast<std::size_t>(i)],
               kernel = w[2 + static_cast<std::size_t>(i)];
    if (conv_transpose_rows && (!more || *more < 0 || *more >= std::max(*stride, *dilation)))
      return refused();
    const Wide size = conv_transpose_rows
                          ? (in - 1) * *stride - 2 * *padding + *dilation * (kernel - 1) + *more + 1
                          : window_places(in + 2 * *padding, kernel, *stride, *dilation);
    if (size < 1 || kernel < 1) return refused();
    shape[first + static_cast<std::size_t>(i)] = size;
  }
  return gives(shape);
}

template <int N>
constexpr auto drawn_conv = [](FuzzDraw& d, const auto& call) {
  const ConvArguments a = conv_arguments(d, N, false);
  const bool same = d.chance(0.1);
  Expected expected = conv_result(a, N, false);
  if (same) {
    // With stride 1 the sizes do not change.
    ConvArguments whole = a;
    whole.padding = {0};
    for (int i = 0; i < N; ++i)
      if (at(a.stride, N, i) != Wide{1}) expected = refused();
    if (a.x.dim() == N + 1 || a.x.dim() == N + 2) {
      Sizes shape = sizes(a.x);
      if (a.w.dim() == N + 2) shape[shape.size() - N - 1] = a.w.shape()[0];
      bool is_one = true;
      for (int i = 0; i < N; ++i) is_one = is_one && at(a.stride, N, i) == Wide{1};
      expected = is_one ? gives(shape) : refused();
    }
  }

  return Trial{call({a.x, a.w, a.bias},
                    {as_window(a.stride), same ? ConvPadding("same") : as_padding(a.padding),
                     as_window(a.dilation), a.groups}),
               expected};
};

template <int N>
constexpr auto drawn_transposed = [](FuzzDraw& d, const auto& call) {
  const ConvArguments a = conv_arguments(d, N, true);
  return Trial{
      call({a.x, a.w, a.bias}, {as_window(a.stride), as_window(a.padding),
                                as_window(a.output_padding), a.groups, as_window(a.dilation)}),
      conv_result(a, N, true)};
};

// ---- lines of the smoke test --------------------------------------------------------------------

/** A padded 3 x 3 convolution, or one of 1 x 1: y, or the gradient of x or of the weight. */
Smoke smoke_conv(MemoryFormat format, const char* result, std::int64_t side) {
  const std::string what = result;
  return {.name = std::string(side == 1 ? "conv2d, 1 x 1 % " : "conv2d % ") +
                  (format == MemoryFormat::contiguous ? "NCHW " : "NHWC ") + what,
          .dtypes = side == 1 ? std::vector<DType>{f32} : std::vector<DType>{f32, f16, bf16, f64},
          .operands =
              [side](const Maker& make, DType dtype) {
                const std::int64_t batch = make.pick(2, 4, 64), channels = make.pick(4, 32, 128),
                                   pixels = make.pick(6, 14, 28);
                return Tensors{make.normal({batch, channels, pixels, pixels}, dtype),
                               make.normal({channels, channels, side, side}, dtype),
                               make.normal({channels}, dtype)};
              },
          .backward = what != "y",
          .by_library = true,
          .leaf = what == "dx" ? 0 : 1,
          .format = format,
          .flops =
              [side](const Tensors& x) {
                return 2.0 * static_cast<double>(x[0].numel() * x[0].size(1) * side * side);
              }};
}

/** A first layer of ResNet, 7 x 7 of 3 channels with stride 2: y, or the gradient of the weight. */
Smoke smoke_first_layer(const char* result) {
  const std::string what = result;
  return {.name = "conv2d, 3 channels % NHWC " + what,
          .dtypes = {f16, bf16},
          .operands =
              [](const Maker& make, DType dtype) {
                const std::int64_t batch = make.pick(1, 2, 64), pixels = make.pick(8, 20, 224);
                return Tensors{make.normal({batch, 3, pixels, pixels}, dtype),
                               make.normal({make.pick(12, 16, 64), 3, 7, 7}, dtype)};
              },
          .backward = what == "dw",
          .by_library = true,
          .leaf = 1,
          .format = MemoryFormat::channels_last,
          .flops =
              [](const Tensors& x) {
                return 2.0 * static_cast<double>(x[0].numel() / 4 * x[1].size(0) * 49);
              }};
}

/** Gradients on images or lines of `dims` dimensions with n elements each, which have `channels`
 *  channels: `weight` makes the weight's shape. */
Smoke smoke_gradients(const char* name, int dims, Shape (*weight)(std::int64_t channels),
                      std::int64_t steps = 1) {
  return {.name = std::string(name) + " % backward",
          .dtypes = {f32, bf16},
          .operands =
              [=](const Maker& make, DType dtype) {
                const std::int64_t n = steps * make.pick(5, 10, 32),
                                   channels = make.pick(4, 16, 64);
                Shape image{2, channels};
                for (int i = 0; i < dims; ++i) image.push_back(n);
                return Tensors{make.normal(image, dtype), make.normal(weight(channels), dtype)};
              },
          .passes = 3,
          .backward = true,
          .by_library = true};
}

// ---- rows ---------------------------------------------------------------------------------------

/** Starts the row of a convolution; its bias may be missing. */
#define CONV(op, Options) row(#op, CALL(op(x[0], x[1], optional(x, 2), o), const Options& o))

const Rows convolution_rows("window", [] {
  CONV(conv1d, ConvOptions)
      .smoke(smoke_gradients("conv1d", 1, [](std::int64_t c) { return Shape{c, c, 3}; }),
             {.padding = 1})
      .test(conv_case(
          "plain", 1, {},
          {{{2, 3, 7}, {4, 3, 3}, {4}}, {{3, 7}, {2, 3, 7}, {2}}, {{0, 2, 5}, {3, 2, 2}, {3}}}))
      .test(conv_case("options", 1,
                      {.stride = {1, 1, 2},
                       .pad_begin = {0, 0, 3},
                       .pad_end = {0, 0, 3},
                       .dilation = {1, 1, 2},
                       .groups = 2},
                      {{{2, 4, 9}, {6, 2, 3}, {6}}, {{4, 3}, {2, 2, 4}, {2}}}),
            {.stride = 2, .padding = 3, .dilation = 2, .groups = 2})
      .fuzz(drawn_conv<1>)
      .golden({"", "F.conv1d", "real(2, 3, 7), real(4, 3, 3), real(4)"})
      .golden({"options", "F.conv1d(x0, x1, stride=2, padding=2, dilation=2, groups=2)",
               "real(2, 4, 9), real(6, 2, 3)"},
              {.stride = 2, .padding = 2, .dilation = 2, .groups = 2})
      .golden(
          {"same", "F.conv1d(x0, x1, padding='same', dilation=2)", "real(1, 2, 6), real(3, 2, 3)"},
          {.padding = "same", .dilation = 2})
      .golden({"unbatched", "F.conv1d", "real(3, 7), real(2, 3, 2), real(2)"});
  auto images =
      CONV(conv2d, ConvOptions)
          .smoke(smoke_gradients(
                     "conv2d, groups, stride 2", 2,
                     [](std::int64_t c) { return Shape{c, c / 4, 3, 3}; }, 2),
                 {.stride = 2, .padding = 1, .groups = 4})
          .test(conv_case("plain", 2, {},
                          {{{2, 3, 5, 6}, {4, 3, 3, 2}, {4}},
                           {{3, 4, 4}, {2, 3, 1, 1}, {2}},
                           {{1, 1, 3, 3}, {1, 1, 3, 3}, {1}},
                           {{0, 2, 4, 4}, {3, 2, 2, 2}, {3}}}))
          .test(conv_case("no bias", 2, {.pad_begin = {0, 1, 1}, .pad_end = {0, 1, 1}},
                          {{{2, 2, 4, 5}, {3, 2, 3, 3}}}),
                {.padding = 1})
          .test(conv_case("options", 2,
                          {.stride = {1, 2, 3},
                           .pad_begin = {0, 1, 2},
                           .pad_end = {0, 1, 2},
                           .dilation = {1, 2, 1},
                           .groups = 2},
                          {{{2, 4, 7, 6}, {4, 2, 2, 3}, {4}}, {{4, 6, 5}, {2, 2, 3, 2}, {2}}}),
                {.stride = {2, 3}, .padding = {1, 2}, .dilation = {2, 1}, .groups = 2})
          .test(conv_case("each channel for itself", 2, {.groups = 3},
                          {{{2, 3, 4, 4}, {6, 1, 2, 2}, {6}}}),
                {.groups = 3})
          .test(conv_case("same", 2,
                          {.pad_begin = {0, 0, 3}, .pad_end = {0, 1, 3}, .dilation = {1, 1, 3}},
                          {{{1, 2, 4, 5}, {2, 2, 2, 3}, {2}}}),
                {.padding = "same", .dilation = {1, 3}})
          .fuzz(drawn_conv<2>)
          .golden({"", "F.conv2d", "real(2, 3, 5, 6), real(4, 3, 3, 2), real(4)"})
          .golden({"options", "F.conv2d(x0, x1, x2, (2, 1), (1, 2), (1, 2), 2)",
                   "real(1, 4, 6, 5), real(4, 2, 3, 2), real(4)"},
                  {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 2})
          .golden({"depthwise", "F.conv2d(x0, x1, padding=1, groups=3)",
                   "real(1, 3, 4, 4), real(3, 1, 3, 3)"},
                  {.padding = 1, .groups = 3})
          .golden({"one by one", "F.conv2d", "real(2, 3, 3, 3), real(2, 3, 1, 1)"});
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last})
    for (const char* result : {"y", "dx", "dw"}) {
      images.smoke(smoke_conv(format, result, 3), {.padding = 1});
      images.smoke(smoke_conv(format, result, 1), {});
    }
  for (const char* result : {"y", "dw"})
    images.smoke(smoke_first_layer(result), {.stride = 2, .padding = 3});
  CONV(conv3d, ConvOptions)
      .smoke(smoke_gradients("conv3d", 3, [](std::int64_t c) { return Shape{c, c, 3, 3, 3}; }),
             {.padding = 1})
      .test(conv_case(
                "options", 3,
                {.stride = {1, 2, 1},
                 .pad_begin = {1, 0, 1},
                 .pad_end = {1, 0, 1},
                 .dilation = {1, 1, 2}},
                {{{2, 2, 3, 4, 5}, {3, 2, 2, 2, 2}, {3}}, {{1, 2, 3, 4}, {2, 1, 2, 2, 2}, {2}}}),
            {.stride = {1, 2, 1}, .padding = {1, 0, 1}, .dilation = {1, 1, 2}})
      .fuzz(drawn_conv<3>)
      .golden({"", "F.conv3d", "real(1, 2, 3, 4, 3), real(2, 2, 2, 2, 2), real(2)"})
      .golden({"options", "F.conv3d(x0, x1, stride=2, padding=1)",
               "real(1, 2, 3, 4, 3), real(2, 2, 3, 2, 2)"},
              {.stride = 2, .padding = 1});
});

const Rows conv_transpose_rows("window", [] {
  CONV(conv_transpose1d, ConvTransposeOptions)
      .test(conv_case("options", 1,
                      {.stride = {1, 1, 3},
                       .pad_begin = {0, 0, 1},
                       .pad_end = {0, 0, 1},
                       .output_padding = {0, 0, 2},
                       .groups = 2},
                      {{{2, 4, 4}, {4, 3, 2}, {6}}, {{2, 3}, {2, 1, 5}, {2}}}, true),
            {.stride = 3, .padding = 1, .output_padding = 2, .groups = 2})
      .fuzz(drawn_transposed<1>)
      .golden({"", "F.conv_transpose1d", "real(2, 3, 4), real(3, 2, 3), real(2)"})
      .golden({"options",
               "F.conv_transpose1d(x0, x1, stride=3, padding=1, output_padding=2, groups=2, "
               "dilation=2)",
               "real(1, 4, 4), real(4, 3, 3)"},
              {.stride = 3, .padding = 1, .output_padding = 2, .groups = 2, .dilation = 2});
  CONV(conv_transpose2d, ConvTransposeOptions)
      .smoke(
          smoke_gradients("conv_transpose2d", 2, [](std::int64_t c) { return Shape{c, c, 4, 4}; }),
          {.stride = 2, .padding = 1})
      .test(conv_case("plain", 2, {},
                      {{{2, 3, 3, 4}, {3, 2, 3, 2}, {2}},
                       {{2, 2, 2}, {2, 3, 1, 1}, {3}},
                       {{0, 2, 2, 2}, {2, 3, 2, 2}, {3}}},
                      true))
      .test(conv_case("no bias", 2, {}, {{{1, 2, 3, 3}, {2, 2, 2, 2}}}, true))
      .test(conv_case("options", 2,
                      {.stride = {1, 2, 1},
                       .pad_begin = {0, 1, 2},
                       .pad_end = {0, 1, 2},
                       .dilation = {1, 1, 3},
                       .output_padding = {0, 1, 2}},
                      {{{2, 2, 3, 3}, {2, 3, 3, 2}, {3}}}, true),
            {.stride = {2, 1}, .padding = {1, 2}, .output_padding = {1, 2}, .dilation = {1, 3}})
      .fuzz(drawn_transposed<2>)
      .golden({"", "F.conv_transpose2d", "real(1, 3, 3, 4), real(3, 2, 2, 3), real(2)"})
      .golden({"options", "F.conv_transpose2d(x0, x1, x2, 2, 1, 1)",
               "real(1, 3, 3, 3), real(3, 2, 3, 3), real(2)"},
              {.stride = 2, .padding = 1, .output_padding = 1});
  CONV(conv_transpose3d, ConvTransposeOptions)
      .test(conv_case("options", 3,
                      {.stride = {1, 2, 2}, .pad_begin = {1, 1, 1}, .pad_end = {1, 1, 1}},
                      {{{1, 2, 3, 2, 3}, {2, 2, 2, 3, 2}, {2}}}, true),
            {.stride = {1, 2, 2}, .padding = 1})
      .fuzz(drawn_transposed<3>)
      .golden({"", "F.conv_transpose3d", "real(1, 2, 2, 3, 2), real(2, 2, 2, 2, 2), real(2)"})
      .golden({"options", "F.conv_transpose3d(x0, x1, stride=2, padding=1)",
               "real(1, 2, 2, 3, 2), real(2, 2, 3, 3, 2)"},
              {.stride = 2, .padding = 1});
});

}  // namespace
