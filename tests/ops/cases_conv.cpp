// Cases of the convolutions.
#include <array>

#include "cases.h"

using namespace cases;
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

std::size_t at(const std::array<std::int64_t, 5>& s, std::int64_t n, std::int64_t c, std::int64_t z,
               std::int64_t y, std::int64_t x) {
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
              visit(at(in, n, o / out_group * in_group + c, from[0], from[1], from[2]),
                    at(out, n, o, i[0], i[1], i[2]), at(w, o, c, t[0], t[1], t[2]));
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

void add_conv(const char* op, const char* variant, int dims, Call call, const Geometry& g,
              std::vector<std::vector<Shape>> shapes) {
  const std::size_t operands = shapes[0].size();
  add_case({.op = op,
            .variant = variant,
            .call = std::move(call),
            .oracle = std::string(op).find("transpose") == std::string::npos
                          ? conv_oracle(dims, g)
                          : transposed_oracle(dims, g),
            .operands = std::vector<Operand>(operands),
            .shapes = std::move(shapes)});
}

const Registrar convolutions([] {
  add_conv("conv1d", "plain", 1, CALL(conv1d(x[0], x[1], x[2])), {},
           {{{2, 3, 7}, {4, 3, 3}, {4}}, {{3, 7}, {2, 3, 7}, {2}}, {{0, 2, 5}, {3, 2, 2}, {3}}});
  add_conv("conv1d", "options", 1,
           CALL(conv1d(x[0], x[1], x[2], {.stride = 2, .padding = 3, .dilation = 2, .groups = 2})),
           {.stride = {1, 1, 2},
            .pad_begin = {0, 0, 3},
            .pad_end = {0, 0, 3},
            .dilation = {1, 1, 2},
            .groups = 2},
           {{{2, 4, 9}, {6, 2, 3}, {6}}, {{4, 3}, {2, 2, 4}, {2}}});
  add_conv("conv2d", "plain", 2, CALL(conv2d(x[0], x[1], x[2])), {},
           {{{2, 3, 5, 6}, {4, 3, 3, 2}, {4}},
            {{3, 4, 4}, {2, 3, 1, 1}, {2}},
            {{1, 1, 3, 3}, {1, 1, 3, 3}, {1}},
            {{0, 2, 4, 4}, {3, 2, 2, 2}, {3}}});
  add_conv("conv2d", "no bias", 2, CALL(conv2d(x[0], x[1], {}, {.padding = 1})),
           {.pad_begin = {0, 1, 1}, .pad_end = {0, 1, 1}}, {{{2, 2, 4, 5}, {3, 2, 3, 3}}});
  add_conv("conv2d", "options", 2,
           CALL(conv2d(x[0], x[1], x[2],
                       {.stride = {2, 3}, .padding = {1, 2}, .dilation = {2, 1}, .groups = 2})),
           {.stride = {1, 2, 3},
            .pad_begin = {0, 1, 2},
            .pad_end = {0, 1, 2},
            .dilation = {1, 2, 1},
            .groups = 2},
           {{{2, 4, 7, 6}, {4, 2, 2, 3}, {4}}, {{4, 6, 5}, {2, 2, 3, 2}, {2}}});
  add_conv("conv2d", "each channel for itself", 2, CALL(conv2d(x[0], x[1], x[2], {.groups = 3})),
           {.groups = 3}, {{{2, 3, 4, 4}, {6, 1, 2, 2}, {6}}});
  add_conv("conv2d", "same", 2,
           CALL(conv2d(x[0], x[1], x[2], {.padding = "same", .dilation = {1, 3}})),
           {.pad_begin = {0, 0, 3}, .pad_end = {0, 1, 3}, .dilation = {1, 1, 3}},
           {{{1, 2, 4, 5}, {2, 2, 2, 3}, {2}}});
  add_conv(
      "conv3d", "options", 3,
      CALL(conv3d(x[0], x[1], x[2],
                  {.stride = {1, 2, 1}, .padding = {1, 0, 1}, .dilation = {1, 1, 2}})),
      {.stride = {1, 2, 1}, .pad_begin = {1, 0, 1}, .pad_end = {1, 0, 1}, .dilation = {1, 1, 2}},
      {{{2, 2, 3, 4, 5}, {3, 2, 2, 2, 2}, {3}}, {{1, 2, 3, 4}, {2, 1, 2, 2, 2}, {2}}});
});

const Registrar transposed([] {
  add_conv("conv_transpose1d", "options", 1,
           CALL(conv_transpose1d(x[0], x[1], x[2],
                                 {.stride = 3, .padding = 1, .output_padding = 2, .groups = 2})),
           {.stride = {1, 1, 3},
            .pad_begin = {0, 0, 1},
            .pad_end = {0, 0, 1},
            .output_padding = {0, 0, 2},
            .groups = 2},
           {{{2, 4, 4}, {4, 3, 2}, {6}}, {{2, 3}, {2, 1, 5}, {2}}});
  add_conv("conv_transpose2d", "plain", 2, CALL(conv_transpose2d(x[0], x[1], x[2])), {},
           {{{2, 3, 3, 4}, {3, 2, 3, 2}, {2}},
            {{2, 2, 2}, {2, 3, 1, 1}, {3}},
            {{0, 2, 2, 2}, {2, 3, 2, 2}, {3}}});
  add_conv("conv_transpose2d", "no bias", 2, CALL(conv_transpose2d(x[0], x[1])), {},
           {{{1, 2, 3, 3}, {2, 2, 2, 2}}});
  add_conv(
      "conv_transpose2d", "options", 2,
      CALL(conv_transpose2d(
          x[0], x[1], x[2],
          {.stride = {2, 1}, .padding = {1, 2}, .output_padding = {1, 2}, .dilation = {1, 3}})),
      {.stride = {1, 2, 1},
       .pad_begin = {0, 1, 2},
       .pad_end = {0, 1, 2},
       .dilation = {1, 1, 3},
       .output_padding = {0, 1, 2}},
      {{{2, 2, 3, 3}, {2, 3, 3, 2}, {3}}});
  add_conv("conv_transpose3d", "options", 3,
           CALL(conv_transpose3d(x[0], x[1], x[2], {.stride = {1, 2, 2}, .padding = 1})),
           {.stride = {1, 2, 2}, .pad_begin = {1, 1, 1}, .pad_end = {1, 1, 1}},
           {{{1, 2, 3, 2, 3}, {2, 2, 2, 3, 2}, {2}}});
});

}  // namespace
