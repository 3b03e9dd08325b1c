#include "dnn_plan.h"

#include <algorithm>

#include "../tensor/numerics.h"
#include "key.h"

namespace mezzo::gpu::dnn {

namespace {

using op::Volume;
using Sizes = std::vector<std::int64_t>;

/** Beside its operands an engine may use so many bytes; one that wants more is passed over. */
constexpr std::int64_t kMostWorkspace = std::int64_t{1} << 30;

Sizes strides_of(MemoryFormat format, const Sizes& sizes) {
  const Strides strides = strides_in(format, sizes);
  return {strides.begin(), strides.end()};
}

/** The library wants two spatial dimensions or three. */
int spatial(const Convolution& c) { return std::max(c.dims, 2); }

/** The last of three numbers, one for each spatial dimension. */
Sizes spatial_part(const Convolution& c, const op::Extent& three) {
  return Sizes(three.end() - spatial(c), three.end());
}

Sizes sizes_of(const Convolution& c, std::int64_t first, std::int64_t second, const op::Extent& rest) {
  Sizes sizes{first, second};
  for (const std::int64_t size : spatial_part(c, rest)) sizes.push_back(size);
  return sizes;
}

struct Array {
  ArrayName name;
  const void* data;
  Sizes sizes;
  cudnnDataType_t type;
  bool intermediate = false;  // never written to memory
};

Descriptor described(const Array& array, MemoryFormat format) {
  Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, array.type);
  d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, array.sizes);
  d.set(CUDNN_ATTR_TENSOR_STRIDES, strides_of(format, array.sizes));
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, array.intermediate ? std::int64_t{'i'} : array.name);
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
        array.intermediate ? 16 : std::min<std::int64_t>(alignment(array.data), 16));
  d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, array.intermediate);
  check(d.finalize() ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED, "cudnnBackendFinalize");
  return d;
}

cudnnDataType_t compute_type(const Convolution& c) {
  return c.x.dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

/** Zeros behind the input: as many as the last position's last tap reaches beyond it. */
op::Extent pad_behind(const op::ConvGeometry& g) {
  op::Extent pad{};
  for (std::size_t d = 0; d < 3; ++d)
    pad[d] = std::max<std::int64_t>(
        0, (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] + 1 - g.in[d] - g.pad[d]);
  return pad;
}

/** Whether the library, which computes the size of y from the rest, comes to the size y has: not where y leaves out positions. */
bool sizes_follow(const op::ConvGeometry& g) {
  const op::Extent behind = pad_behind(g);
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t reach = g.in[d] + g.pad[d] + behind[d] - (g.kernel[d] - 1) * g.dilation[d] - 1;
    if (reach / g.stride[d] + 1 != g.out[d]) return false;
  }
  return true;
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
  check(d.finalize() ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED, "cudnnBackendFinalize");
  return d;
}

/** What the three kinds of convolution call their parts. */
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, weight, y, geometry, alpha, beta;
};
constexpr OperationNames kOperations[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

/** The arrays and the one or two operations on them, as the library's descriptors. */
class Graph {
 public:
  explicit Graph(const Convolution& c) : format_(c.format) {
    const cudnnDataType_t type = data_type(c.x.dtype);
    const std::int64_t channels_of_group = c.x.channels / c.geometry.groups;
    const std::size_t at_x = add({kX, c.x.data, sizes_of(c, c.x.batch, c.x.channels, c.geometry.in), type});
    const std::size_t at_weight =
        add({kWeight, c.weight, sizes_of(c, c.y.channels, channels_of_group, c.geometry.kernel), type});
    const Array y{kY, c.y.data, sizes_of(c, c.y.batch, c.y.channels, c.geometry.out),
                  c.bias ? compute_type(c) : type, c.bias != nullptr};
    const std::size_t at_y = add(y);

    parts_.push_back(geometry_of(c));
    const Descriptor& geometry = parts_.back();
    const OperationNames& names = kOperations[static_cast<std::size_t>(c.wanted)];
    Descriptor operation(names.type);
    operation.set(names.x, parts_[at_x]);
    operation.set(names.weight, parts_[at_weight]);
    operation.set(names.y, parts_[at_y]);
    operation.set(names.geometry, geometry);
    operation.set(names.alpha, 1.0f);
    operation.set(names.beta, 0.0f);
    add_operation(std::move(operation));
    if (c.bias) add_bias(c, y, at_y, type);
  }

  /** All of it as one, or none where the library has nothing for it. */
  std::optional<Descriptor> descriptor(const Target& target) {
    if (!supported_) return std::nullopt;
    Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (target.handle) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
    graph.set_list(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
    if (!graph.finalize()) return std::nullopt;
    return graph;
  }

 private:
  std::size_t add(const Array& array) {
    parts_.push_back(described(array, format_));
    return parts_.size() - 1;
  }

  void add_operation(Descriptor operation) {
    supported_ = supported_ && operation.finalize();
    parts_.push_back(std::move(operation));
    operations_.push_back(parts_.back().handle());
  }

  /** The result plus one number per channel, before it is rounded. */
  void add_bias(const Convolution& c, Array result, std::size_t at_sum, cudnnDataType_t type) {
    result.intermediate = false;
    result.type = type;
    Array bias{kBias, c.bias, Sizes(result.sizes.size(), 1), type};
    bias.sizes[1] = result.sizes[1];
    const std::size_t at_bias = add(bias), at_result = add(result);
    parts_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    Descriptor& plus = parts_.back();
    plus.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
    plus.set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute_type(c));
    supported_ = supported_ && plus.finalize();
    Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, plus);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, parts_[at_sum]);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, parts_[at_bias]);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, parts_[at_result]);
    add_operation(std::move(operation));
  }

  MemoryFormat format_;
  std::vector<Descriptor>
      parts_;  // in the order of their making; the library keeps pointers to what they hold
  std::vector<cudnnBackendDescriptor_t> operations_;
  bool supported_ = true;
};

struct Notes {
  bool allowed = true, tensor_cores = false;
};

Notes notes_of(const Descriptor& config, const Convolution& c) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  config.get_into(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  Notes notes;
  for (const auto note : engine.get_all<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                                     CUDNN_NUMERICAL_NOTE_TYPE_COUNT))
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: notes.tensor_cores = true; break;
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        notes.allowed = notes.allowed && allow_nondeterministic();
        break;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: notes.allowed = false; break;
      default: break;
    }
  if (c.x.dtype == DType::f32 && notes.tensor_cores && !allow_tf32()) notes.allowed = false;
  return notes;
}

std::optional<Plan> plan_of(const Descriptor& config, const Target& target) {
  Plan plan{Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)};
  if (target.handle) plan.engine.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
  if (target.properties) plan.engine.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
  plan.engine.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (!plan.engine.finalize()) return std::nullopt;
  plan.workspace = plan.engine.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  if (plan.workspace > kMostWorkspace) return std::nullopt;
  return plan;
}

}  // namespace

std::optional<Plan> plan(const Convolution& c, const Target& target) {
  if (!sizes_follow(c.geometry)) return std::nullopt;
  Graph graph(c);
  const std::optional<Descriptor> operations = graph.descriptor(target);
  if (!operations) return std::nullopt;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    Descriptor choices(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    choices.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *operations);
    choices.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    if (target.properties) choices.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
    if (!choices.finalize()) continue;
    for (const Descriptor& config :
         choices.get_list(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)) {
      const Notes notes = notes_of(config, c);
      if (!notes.allowed) continue;
      if (std::optional<Plan> found = plan_of(config, target)) {
        found->tensor_cores = notes.tensor_cores;
        return found;
      }
    }
  }
  return std::nullopt;
}

}  // namespace mezzo::gpu::dnn
