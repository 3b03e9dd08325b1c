// Convolutions, their adjoints and their weight gradients: as matrix products where these are
// faster, else by cuDNN where it supports them, else by a kernel for all shapes.
#include "../../../tensor/ops/conv/conv_geometry.h"
#include "../../../tensor/ops/shape/copy.h"

#include "../../attach.h"
#include "../../dnn/calls.h"
#include "../../own_kernels.h"
#include "../lines.h"
#include "../tiles.h"
#include "../triple.h"
#include "conv_columns.h"

namespace mezzo::gpu {

namespace {

using op::ConvGeometry;
using op::Volume;

/** A dense (first, second, position) array in either memory format. */
struct Planes {
  void* data;
  DType dtype;
  std::int64_t seconds, positions;              // counts
  std::int64_t second_stride, position_stride;  // in elements

  Planes() = default;
  Planes(const void* elements, DType type, std::int64_t second, std::int64_t position,
         MemoryFormat format)
      : data(const_cast<void*>(elements)),
        dtype(type),
        seconds(second),
        positions(position),
        second_stride(format == MemoryFormat::channels_last ? 1 : position),
        position_stride(format == MemoryFormat::channels_last ? second : 1) {}

  __device__ bool is_row_major() const { return position_stride == 1; }
  __device__ std::int64_t place(std::int64_t first, std::int64_t second,
                                std::int64_t position) const {
    return first * seconds * positions + second * second_stride + position * position_stride;
  }
  template <class C>
  __device__ C load(std::int64_t first, std::int64_t second, std::int64_t position) const {
    return load_element<C>(data, dtype, place(first, second, position));
  }
  template <class C>
  __device__ void store(std::int64_t first, std::int64_t second, std::int64_t position,
                        C value) const {
    store_element<C>(data, dtype, place(first, second, position), value);
  }
};

/** A (batch, channels, space...) array; elements outside are 0. */
struct Image {
  Planes planes;
  Triple size;

  template <class C> __device__ C load(std::int64_t n, std::int64_t c, const Triple& p) const {
    return size.contains(p) ? planes.load<C>(n, c, size.index(p)) : C(0);
  }
};

Image image(const Volume& v, MemoryFormat format) {
  return {Planes(v.data, v.dtype, v.channels, v.pixels(), format), triple(v.size)};
}

/** An optional bias of one number per channel. */
struct Bias {
  const void* data;
  DType dtype;

  template <class C> __device__ C of(std::int64_t channel) const {
    return data ? load_element<C>(data, dtype, channel) : C(0);
  }
};

/** Common data of the three kinds of problems: geometry, channels per group, and operands. Groups
 *  are the entries. */
struct ConvProblem {
  std::int64_t entries, m, n, k;
  bool left_along_terms, right_along_terms;
  Triple kernel, stride, dilation, pad;
  std::int64_t in_channels, out_channels;  // per group: channels read and channels written
  Image x, y;
  Planes weight;  // positions are taps
  Bias bias;

  using Entry = std::int64_t;
  __device__ Entry entry(std::int64_t group) const { return group; }

  /** Returns the input position that output position `out` of a convolution reads through a tap. */
  __device__ Triple reached(const Triple& out, const Triple& tap) const {
    Triple p;
    for (int d = 0; d < 3; ++d)
      p.at[d] = out.at[d] * stride.at[d] - pad.at[d] + tap.at[d] * dilation.at[d];
    return p;
  }
  /** Returns the output position that reads input position `in` through a tap; a position outside
   *  if there is none. */
  __device__ Triple reaching(const Triple& in, const Triple& tap) const {
    Triple p;
    for (int d = 0; d < 3; ++d) {
      const std::int64_t distance = in.at[d] + pad.at[d] - tap.at[d] * dilation.at[d];
      p.at[d] = distance % stride.at[d] == 0 ? distance / stride.at[d] : -1;
      if (distance < 0) p.at[d] = -1;
    }
    return p;
  }
};

/** Rows are positions of the result over the batch, columns its channels, terms the channels and
 *  taps of the operand. */
struct PositionsByChannels : ConvProblem {
  template <class C>
  __device__ void store(std::int64_t group, std::int64_t row, std::int64_t column, C sum) const {
    const std::int64_t positions = y.size.count(), channel = group * out_channels + column;
    y.planes.store<C>(row / positions, channel, row % positions, sum + bias.of<C>(channel));
  }
};

struct Direct : PositionsByChannels {
  template <class C>
  __device__ C left(std::int64_t group, std::int64_t row, std::int64_t term) const {
    const std::int64_t positions = y.size.count(), taps = kernel.count();
    return x.load<C>(row / positions, group * in_channels + term / taps,
                     reached(y.size.position(row % positions), kernel.position(term % taps)));
  }
  template <class C>
  __device__ C right(std::int64_t group, std::int64_t term, std::int64_t column) const {
    const std::int64_t first = group * out_channels + column;
    if (weight.is_row_major()) return load_element<C>(weight.data, weight.dtype, first * k + term);
    return weight.load<C>(first, term / weight.positions, term % weight.positions);
  }
};

struct Transposed : PositionsByChannels {
  template <class C>
  __device__ C left(std::int64_t group, std::int64_t row, std::int64_t term) const {
    const std::int64_t positions = y.size.count(), taps = kernel.count();
    return x.load<C>(row / positions, group * in_channels + term / taps,
                     reaching(y.size.position(row % positions), kernel.position(term % taps)));
  }
  template <class C>
  __device__ C right(std::int64_t group, std::int64_t term, std::int64_t column) const {
    const std::int64_t taps = kernel.count();
    return weight.load<C>(group * in_channels + term / taps, column, term % taps);
  }
};

/** Rows are channels and taps of x in the weight's memory order, columns channels of y, terms
 *  positions of y over the batch. y is read, and the weight is written. */
struct Weight : ConvProblem {
  template <class C>
  __device__ C left(std::int64_t group, std::int64_t row, std::int64_t term) const {
    const std::int64_t positions = y.size.count();
    return x.load<C>(term / positions, group * in_channels + channel(row),
                     reached(y.size.position(term % positions), kernel.position(tap(row))));
  }
  template <class C>
  __device__ C right(std::int64_t group, std::int64_t term, std::int64_t column) const {
    const std::int64_t positions = y.size.count();
    return y.planes.load<C>(term / positions, group * out_channels + column, term % positions);
  }
  template <class C>
  __device__ void store(std::int64_t group, std::int64_t row, std::int64_t column, C sum) const {
    store_element<C>(weight.data, weight.dtype, (group * out_channels + column) * m + row, sum);
  }

 private:
  __device__ std::int64_t channel(std::int64_t row) const {
    return weight.is_row_major() ? row / weight.positions : row % weight.seconds;
  }
  __device__ std::int64_t tap(std::int64_t row) const {
    return weight.is_row_major() ? row % weight.positions : row / weight.seconds;
  }
};

template <class P>
P conv_problem(const ConvGeometry& g, const Volume& x, const Volume& y, const Tensor& weight,
               MemoryFormat format) {
  P p{};
  p.entries = g.groups;
  p.kernel = triple(g.kernel);
  p.stride = triple(g.stride);
  p.dilation = triple(g.dilation);
  p.pad = triple(g.pad);
  p.in_channels = x.channels / g.groups;
  p.out_channels = y.channels / g.groups;
  p.x = image(x, format);
  p.y = image(y, format);
  p.weight = Planes(weight.raw_data(), weight.dtype(), weight.size(1), g.taps(), format);
  p.left_along_terms = false;
  p.right_along_terms = format == MemoryFormat::contiguous;
  return p;
}

template <class P> void run_conv(const P& problem, DType result, Device device) {
  visit_floating_compute(result,
                         [&]<class C>(std::type_identity<C>) { run_tiles<C>(problem, device); });
}

/** Computes the convolution with cuBLASLt or cuDNN. Returns false if neither supports it, as the
 *  operands must have one dtype and be non-empty, or if cuDNN's results are not those of Mezzo's
 *  own kernels. */
bool by_library(const ConvCall& call, const ResultPairs& pairs) {
  const Volume x = op::volume_of(call.x, call.dims), y = op::volume_of(call.y, call.dims);
  const Tensor &weight = call.weight, &bias = call.bias;
  const bool one_dtype = x.dtype == y.dtype && weight.dtype() == x.dtype &&
                         (!bias.defined() || bias.dtype() == x.dtype);
  const bool has_work =
      x.batch * x.channels * x.pixels() * y.channels * y.pixels() * call.geometry.taps() > 0;
  if (OwnKernels::active() || !one_dtype || !has_work) return false;
  if (are_conv_products(call)) {
    run_conv_products(call);
    return true;
  }
  const dnn::Convolution convolution{.wanted = call.wanted,
                                     .dims = call.dims,
                                     .format = call.format,
                                     .x = x,
                                     .y = y,
                                     .geometry = call.geometry,
                                     .weight = weight.raw_data(),
                                     .bias = bias.defined() ? bias.raw_data() : nullptr};
  if (has_few_channels(call) && dnn::takes(convolution)) {
    const ConvCall columns = with_columns_as_channels(call);
    if (call.wanted == dnn::Convolution::Wanted::y) return by_library(columns, pairs);
    const auto with_weight = [&] {
      copy_weight_of_columns(columns, call);
      return pairs();
    };
    if (!by_library(columns, with_weight)) return false;
    copy_weight_of_columns(columns, call);
    return true;
  }
  const bool adds_to_y = !bias.defined() || call.wanted == dnn::Convolution::Wanted::y;
  const Device device = weight.device();
  return adds_to_y && dnn::convolve(convolution, device, current_stream(device), pairs);
}

/** Returns the result of a call, and what `call` computes, which runs Mezzo's own kernels. Sums
 *  have `terms` products of elements of a and b. */
template <class Call>
std::vector<ResultPair> conv_beside_own(const Tensor& out, const Call& call, std::int64_t terms,
                                        const Tensor& a, const Tensor& b) {
  const CategoryScope scope(MemoryCategory::workspace);
  Tensor own = empty_tensor(out.shape(), out.dtype(), out.device(), false, out.memory_format());
  call({&own, 1});
  return {{out, own, typical_sum(terms, a, b)}};
}

template <class P>
void run_positions(P problem, const Volume& y, const Tensor& bias, Device device) {
  problem.m = y.batch * y.pixels();
  problem.n = problem.out_channels;
  problem.k =
      problem.in_channels * problem.kernel.at[0] * problem.kernel.at[1] * problem.kernel.at[2];
  problem.bias = {bias.defined() ? bias.raw_data() : nullptr,
                  bias.defined() ? bias.dtype() : DType::f32};
  run_conv(problem, y.dtype, device);
}

/** Computes a convolution or its adjoint, which exchanges the roles of input and output in the
 *  geometry. */
template <class P> void convolve(Inputs in, Outputs out, const op::ConvAttrs& attrs) {
  constexpr bool kTransposed = std::is_same_v<P, Transposed>;
  const MemoryFormat format = common_format(in, out[0], attrs.dims);
  const Tensor x = to_format(in[0], format), w = to_format(in[1], format), bias = row_major(in[2]);
  const Volume from = op::volume_of(x, attrs.dims), to = op::volume_of(out[0], attrs.dims);
  const ConvGeometry g =
      op::conv_geometry(attrs, kTransposed ? to.size : from.size, kTransposed ? from.size : to.size,
                        op::volume_of(w, attrs.dims).size);
  const ResultPairs pairs = [&] {
    return conv_beside_own(
        out[0], [&](Outputs own) { convolve<P>(in, own, attrs); },
        g.taps() * from.channels / g.groups, x, w);
  };
  using Wanted = dnn::Convolution::Wanted;
  if (by_library({.wanted = kTransposed ? Wanted::x : Wanted::y,
                  .dims = attrs.dims,
                  .format = format,
                  .geometry = g,
                  .x = kTransposed ? out[0] : x,
                  .y = kTransposed ? x : out[0],
                  .weight = w,
                  .bias = bias},
                 pairs))
    return;
  run_positions(conv_problem<P>(g, from, to, w, format), to, bias, x.device());
}

void conv_weight(Inputs in, Outputs out, const op::ConvAttrs& attrs) {
  if (out[0].dtype() != in[0].dtype()) {  // the library rounds once
    Tensor result =
        empty_tensor(out[0].shape(), in[0].dtype(), out[0].device(), false, out[0].memory_format());
    conv_weight(in, {&result, 1}, attrs);
    return op::convert_to(result, out[0]);
  }
  const MemoryFormat format = common_format(in, out[0], attrs.dims);
  const Tensor x = to_format(in[0], format), y = to_format(in[1], format);
  const Volume from = op::volume_of(x, attrs.dims), to = op::volume_of(y, attrs.dims);
  const ConvGeometry g =
      op::conv_geometry(attrs, from.size, to.size, op::leading(attrs.sizes, attrs.dims, 1));
  const ResultPairs pairs = [&] {
    return conv_beside_own(
        out[0], [&](Outputs own) { conv_weight(in, own, attrs); }, to.batch * to.pixels(), x, y);
  };
  if (by_library({.wanted = dnn::Convolution::Wanted::weight,
                  .dims = attrs.dims,
                  .format = format,
                  .geometry = g,
                  .x = x,
                  .y = y,
                  .weight = out[0]},
                 pairs))
    return;
  Weight problem = conv_problem<Weight>(g, from, to, out[0], format);
  problem.m = problem.in_channels * g.taps();
  problem.n = problem.out_channels;
  problem.k = to.batch * to.pixels();
  // Neighbouring positions are adjacent in row-major arrays, neighbouring channels in channels-last
  // ones.
  problem.left_along_terms = problem.right_along_terms;
  run_conv(problem, out[0].dtype(), x.device());
}

}  // namespace

void attach_conv() {
  attach<op::Conv1d, convolve<Direct>>();
  attach<op::Conv2d, convolve<Direct>>();
  attach<op::Conv3d, convolve<Direct>>();
  attach<op::ConvTranspose1d, convolve<Transposed>>();
  attach<op::ConvTranspose2d, convolve<Transposed>>();
  attach<op::ConvTranspose3d, convolve<Transposed>>();
  attach<op::ConvWeight, conv_weight>();
}

}  // namespace mezzo::gpu
