// Rows of the convolutions.
#include <algorithm>

#include "fuzz_windows.h"

using namespace fuzz;
using namespace mezzo;

namespace {

struct ConvArguments {
  Tensor x, w, bias;
  std::vector<std::int64_t> stride, padding, output_padding, dilation;
  std::int64_t groups;
};

ConvArguments conv_arguments(Draw& d, int dims, bool transposed) {
  ConvArguments a;
  a.stride = window(d, dims, 1, 3);
  a.padding = window(d, dims, 0, 2);
  a.output_padding = d.flag() ? window(d, dims, 0, 1) : std::vector<std::int64_t>{0};
  a.dilation = window(d, dims, 1, 2);
  a.groups = d.flag() ? 1 : d.number(0, 3);
  const std::int64_t groups = a.groups >= 1 && a.groups <= 3 ? a.groups : 1,
                     per_group = 1 + d.below(2), others = 1 + d.below(3);
  Shape x, w{transposed ? groups * per_group : others * groups, transposed ? others : per_group};
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
  a.bias = d.optional({transposed ? others * groups : others * groups}, a.x.dtype());
  return a;
}

/** Returns the shape of a convolution's result, or nothing. */
Expected conv_result(const ConvArguments& a, int dims, bool transposed) {
  const Sizes x = sizes(a.x), w = sizes(a.w);
  const auto spatial = static_cast<std::size_t>(dims);
  if ((x.size() != spatial + 1 && x.size() != spatial + 2) || w.size() != spatial + 2 ||
      a.groups < 1)
    return refused();
  const std::size_t first = x.size() - spatial;
  const Wide channels = transposed ? w[0] : w[1] * a.groups,
             results = transposed ? w[1] * a.groups : w[0];
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
    if (transposed && (!more || *more < 0 || *more >= std::max(*stride, *dilation)))
      return refused();
    const Wide size = transposed
                          ? (in - 1) * *stride - 2 * *padding + *dilation * (kernel - 1) + *more + 1
                          : window_places(in + 2 * *padding, kernel, *stride, *dilation);
    if (size < 1 || kernel < 1) return refused();
    shape[first + static_cast<std::size_t>(i)] = size;
  }
  return gives(shape);
}

using Conv = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions&);
using ConvTranspose = Tensor (*)(const Tensor&, const Tensor&, const Tensor&,
                                 const ConvTransposeOptions&);

template <int N, Conv f> Trial conv(Draw& d) {
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
  return {[=] {
            return list(f(a.x, a.w, a.bias,
                          {as_window(a.stride), same ? ConvPadding("same") : as_padding(a.padding),
                           as_window(a.dilation), a.groups}));
          },
          expected};
}

template <int N, ConvTranspose f> Trial conv_transpose(Draw& d) {
  const ConvArguments a = conv_arguments(d, N, true);
  return {[=] {
            return list(f(a.x, a.w, a.bias,
                          {as_window(a.stride), as_window(a.padding), as_window(a.output_padding),
                           a.groups, as_window(a.dilation)}));
          },
          conv_result(a, N, true)};
}

const Rows convolutions([] {
  add_row("conv1d", conv<1, conv1d>);
  add_row("conv2d", conv<2, conv2d>);
  add_row("conv3d", conv<3, conv3d>);
  add_row("conv_transpose1d", conv_transpose<1, conv_transpose1d>);
  add_row("conv_transpose2d", conv_transpose<2, conv_transpose2d>);
  add_row("conv_transpose3d", conv_transpose<3, conv_transpose3d>);
});

}  // namespace
