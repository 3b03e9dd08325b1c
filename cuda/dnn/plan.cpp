#include "plan.h"

#include <algorithm>

#include "../../tensor/core/numerics.h"
#include "../blas/key.h"

namespace mezzo::gpu::dnn {

namespace {

using op::Volume;
using Sizes = std::vector<std::int64_t>;

Sizes strides_of(MemoryFormat format, const Sizes& sizes) {
  const Strides strides = strides_in(format, sizes);
  return {strides.begin(), strides.end()};
}

/** Returns the number of spatial dimensions for the library, 2 or 3. */
int spatial(const Convolution& c) { return std::max(c.dims, 2); }

/** Returns the last of three numbers, one per spatial dimension of the library. */
Sizes spatial_part(const Convolution& c, const op::Extent& three) {
  return Sizes(three.end() - spatial(c), three.end());
}

Sizes sizes_of(const Convolution& c, std::int64_t first, std::int64_t second,
               const op::Extent& rest) {
  Sizes sizes{first, second};
  for (const std::int64_t size : spatial_part(c, rest)) sizes.push_back(size);
  return sizes;
}

Array array(std::int64_t name, const void* data, const Sizes& sizes, cudnnDataType_t type,
            MemoryFormat format) {
  return {.name = name,
          .sizes = sizes,
          .strides = strides_of(format, sizes),
          .type = type,
          .alignment = std::min<std::int64_t>(alignment(data), 16)};
}

cudnnDataType_t compute_type(const Convolution& c) {
  return c.x.dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

/** Returns the padding after the input: as far as the last tap of the last position reaches beyond
 *  it. */
op::Extent pad_behind(const op::ConvGeometry& g) {
  op::Extent pad{};
  for (std::size_t d = 0; d < 3; ++d)
    pad[d] =
        std::max<std::int64_t>(0, (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] +
                                      1 - g.in[d] - g.pad[d]);
  return pad;
}

Descriptor geometry_of(const Convolution& c) {
  const op::ConvGeometry& g = c.geometry;
  Descriptor d(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{spatial(c)});
  d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, compute_type(c));
  d.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  d.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, spatial_part(c, g.pad));
  d.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, spatial_part(c, pad_behind(g)));
  d.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, spatial_part(c, g.dilation));
  d.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, spatial_part(c, g.stride));
  return d;
}

/** The library's attribute names for the three kinds of convolution. */
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, weight, y, geometry, alpha, beta;
};
constexpr OperationNames kOperations[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

/** Sets alpha to 1 and beta to 0. The library reads them in the compute type, whatever type the
 *  attribute is set with: a float read as a double is a wrong factor, without an error. */
void set_factors(Descriptor& operation, const OperationNames& names, cudnnDataType_t type) {
  if (type == CUDNN_DATA_DOUBLE) {
    operation.set(names.alpha, 1.0);
    operation.set(names.beta, 0.0);
  } else {
    operation.set(names.alpha, 1.0f);
    operation.set(names.beta, 0.0f);
  }
}

/** Adds an operation that adds one number per channel before the result is rounded. */
void add_bias(Graph& graph, const Convolution& c, Graph::Part sum, Array result) {
  Array bias = array(kBias, c.bias, Sizes(result.sizes.size(), 1), result.type, c.format);
  bias.sizes[1] = result.sizes[1];
  bias.strides = strides_of(c.format, bias.sizes);
  const Graph::Part at_bias = graph.add(bias), at_result = graph.add(result);
  Descriptor plus(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  plus.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
  plus.set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute_type(c));
  const Graph::Part at_plus = graph.add(std::move(plus));
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, graph[at_plus]);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, graph[sum]);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, graph[at_bias]);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, graph[at_result]);
  graph.add_operation(std::move(operation));
}

/** Returns the graph of a convolution: its arrays and one or two operations. */
Graph graph_of(const Convolution& c) {
  Graph graph;
  const cudnnDataType_t type = data_type(c.x.dtype);
  const std::int64_t channels_of_group = c.x.channels / c.geometry.groups;
  const Array x =
      array(kX, c.x.data, sizes_of(c, c.x.batch, c.x.channels, c.geometry.in), type, c.format);
  const Array weight =
      array(kWeight, c.weight, sizes_of(c, c.y.channels, channels_of_group, c.geometry.kernel),
            type, c.format);
  const Array y =
      array(kY, c.y.data, sizes_of(c, c.y.batch, c.y.channels, c.geometry.out), type, c.format);
  Array sum = y;  // the sum before the bias
  sum.name = 'i';
  sum.type = compute_type(c);
  sum.alignment = 16;
  sum.place = Array::Place::engine;
  const Graph::Part at_x = graph.add(x), at_weight = graph.add(weight),
                    at_y = graph.add(c.bias ? sum : y), geometry = graph.add(geometry_of(c));
  const OperationNames& names = kOperations[static_cast<std::size_t>(c.wanted)];
  Descriptor operation(names.type);
  operation.set(names.x, graph[at_x]);
  operation.set(names.weight, graph[at_weight]);
  operation.set(names.y, graph[at_y]);
  operation.set(names.geometry, graph[geometry]);
  set_factors(operation, names, compute_type(c));
  graph.add_operation(std::move(operation));
  if (c.bias) add_bias(graph, c, at_y, y);
  return graph;
}

}  // namespace

bool sizes_follow(const op::ConvGeometry& g) {
  const op::Extent behind = pad_behind(g);
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t reach =
        g.in[d] + g.pad[d] + behind[d] - (g.kernel[d] - 1) * g.dilation[d] - 1;
    if (reach / g.stride[d] + 1 != g.out[d]) return false;
  }
  return true;
}

std::optional<Plan> plan(const Convolution& c, const Target& target, int first) {
  if (!sizes_follow(c.geometry)) return std::nullopt;
  return choose_engine(graph_of(c), target,
                       {.repeats = !allow_nondeterministic(),
                        .tensor_cores = c.x.dtype != DType::f32 || allow_tf32(),
                        .puts_off_direct = c.geometry.groups == 1},
                       first);
}

}  // namespace mezzo::gpu::dnn
