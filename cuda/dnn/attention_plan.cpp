// Attention as a graph of cuDNN operations, in the patterns that its fused engines support, forward
// and backward. (cuDNN's single attention operation has no causal form before 9.21, and 9.19
// rejects its backward operation on Hopper and Ampere.)
#include "plan.h"

namespace mezzo::gpu::dnn {

namespace {

using Part = Graph::Part;
using Sizes = std::vector<std::int64_t>;
using Rows = Attention::Rows;

Sizes packed_strides(const Sizes& s) { return {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1}; }

/** Builds the graph one operation at a time; each operation returns its result array. */
class AttentionGraph {
 public:
  explicit AttentionGraph(const Attention& a)
      : a_(a),
        scores_{a.entries, a.heads, a.queries, a.keys},
        rows_{a.entries, a.heads, a.queries, 1} {
    const std::int64_t e = a.entries, h = a.heads;
    scale_ = host(kScale);
    log_sums_ = memory(kLogSums, rows_, packed_strides(rows_), CUDNN_DATA_FLOAT);
    const auto strides = [](const Rows& x) { return Sizes{x.entry, x.head, x.row, 1}; };
    const auto transposed = [](const Rows& x) { return Sizes{x.entry, x.head, 1, x.row}; };
    q_ = memory(kQ, {e, h, a.queries, a.features}, strides(a.q));
    k_transposed_ = memory(kK, {e, a.key_heads, a.features, a.keys}, transposed(a.k));
    // The fused engines expect different operand layouts in the two directions.
    if (a.wanted == Attention::Wanted::y)
      add_forward(memory(kV, {e, a.key_heads, a.keys, a.values}, strides(a.v)));
    else
      add_backward(memory(kV, {e, a.key_heads, a.values, a.keys}, transposed(a.v)),
                   memory(kG, {e, h, a.queries, a.values}, strides(a.g)));
  }

  const Graph& graph() const { return graph_; }

 private:
  // ---- arrays -----------------------------------------------------------------------------------
  cudnnDataType_t low() const { return data_type(a_.dtype); }
  Part memory(ArrayName name, const Sizes& sizes, const Sizes& strides, cudnnDataType_t type) {
    // Engines load eight 16-bit elements at once.
    return graph_.add(
        {.name = name, .sizes = sizes, .strides = strides, .type = type, .alignment = 16});
  }
  Part memory(ArrayName name, const Sizes& sizes, const Sizes& strides) {
    return memory(name, sizes, strides, low());
  }
  /** An operand or result of `rows` rows of `columns` elements. */
  Part matrices(ArrayName name, const Rows& x, std::int64_t rows, std::int64_t columns) {
    return memory(name, {a_.entries, a_.heads, rows, columns}, {x.entry, x.head, x.row, 1});
  }
  Part host(ArrayName name) {
    return graph_.add({.name = name,
                       .sizes = {1, 1, 1, 1},
                       .strides = {1, 1, 1, 1},
                       .place = Array::Place::host});
  }
  Part between(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type) {
    return graph_.add({.name = next_name_++,
                       .sizes = sizes,
                       .strides = strides,
                       .type = type,
                       .place = Array::Place::engine});
  }
  Part between(const Sizes& sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return between(sizes, packed_strides(sizes), type);
  }

  // ---- operations: the last argument is the result ----------------------------------------------
  Part multiply(Part x, Part y, Part to) {
    Descriptor sums(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    sums.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    const Part how = graph_.add(std::move(sums));
    Descriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, graph_[x]);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, graph_[y]);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, graph_[to]);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, graph_[how]);
    graph_.add_operation(std::move(operation));
    return to;
  }

  struct Pointwise {
    cudnnPointwiseMode_t mode;
    Part x;
    std::optional<Part> other = {}, condition = {};
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    std::int64_t axis = -1;  // axis of GEN_INDEX
  };
  Part apply(const Pointwise& p, Part to) {
    Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    function.set(CUDNN_ATTR_POINTWISE_MODE, p.mode);
    function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, p.type);
    if (p.axis >= 0) function.set(CUDNN_ATTR_POINTWISE_AXIS, p.axis);
    const Part how = graph_.add(std::move(function));
    Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, graph_[how]);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, graph_[p.x]);
    if (p.other) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, graph_[*p.other]);
    if (p.condition) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, graph_[*p.condition]);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, graph_[to]);
    graph_.add_operation(std::move(operation));
    return to;
  }
  Part apply(cudnnPointwiseMode_t mode, Part x, Part other, Part to) {
    return apply({.mode = mode, .x = x, .other = other}, to);
  }

  /** Reduces the last dimension. */
  Part reduce(cudnnReduceTensorOp_t what, Part x, Part to) {
    Descriptor reduction(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, what);
    reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    const Part how = graph_.add(std::move(reduction));
    Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, graph_[how]);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, graph_[x]);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, graph_[to]);
    graph_.add_operation(std::move(operation));
    return to;
  }

  Part reshape(Part x, Part to) {
    Descriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, graph_[x]);
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, graph_[to]);
    graph_.add_operation(std::move(operation));
    return to;
  }

  // ---- attention --------------------------------------------------------------------------------
  /** An array with the rows of a bias, broadcast where a size is 1. */
  Part scores_in_memory(ArrayName name, std::int64_t entries, std::int64_t heads,
                        std::int64_t queries, cudnnDataType_t type) {
    const std::int64_t row = a_.pitch();
    return memory(name, {entries, heads, queries, a_.keys},
                  {heads * queries * row, queries * row, row, 1}, type);
  }
  Part biased(Part x) {
    const Attention::Bias& b = a_.bias;
    if (!b.exists()) return x;
    const Part bias = scores_in_memory(kScoreBias, b.entries, b.heads, b.queries, CUDNN_DATA_FLOAT);
    return apply(CUDNN_POINTWISE_ADD, x, bias, between(scores_));
  }
  /** Sets the elements that dropout does not keep to 0. */
  Part kept(Part x) {
    if (!a_.drops) return x;
    if (!kept_) kept_ = scores_in_memory(kKept, a_.entries, a_.heads, a_.queries, low());
    return apply(CUDNN_POINTWISE_MUL, x, *kept_, between(scores_));
  }
  /** Multiplies by the inverse of dropout's probability to keep an element. */
  Part grown(Part x, cudnnDataType_t type) {
    if (!a_.drops) return x;
    if (!keep_factor_) keep_factor_ = host(kKeepFactor);
    return apply(CUDNN_POINTWISE_MUL, x, *keep_factor_, between(scores_, type));
  }

  /** Returns the scores, with the bias. */
  Part biased_products() {
    const Part products = multiply(q_, k_transposed_, between(scores_));
    return biased(apply(CUDNN_POINTWISE_MUL, products, scale_, between(scores_)));
  }

  /** Masks x where the key comes after the query, if attention is causal. */
  Part causal(Part x) {
    if (!a_.is_causal) return x;
    const auto index = [&](std::int64_t axis) {
      return apply(
          {.mode = CUDNN_POINTWISE_GEN_INDEX, .x = x, .type = CUDNN_DATA_INT32, .axis = axis},
          between(scores_, CUDNN_DATA_INT32));
    };
    const Part query = index(2), key = index(3);
    const Part seen = apply(
        {.mode = CUDNN_POINTWISE_CMP_GE, .x = query, .other = key, .type = CUDNN_DATA_BOOLEAN},
        between(scores_, CUDNN_DATA_BOOLEAN));
    return apply(
        {.mode = CUDNN_POINTWISE_BINARY_SELECT, .x = x, .other = host(kMasked), .condition = seen},
        between(scores_));
  }

  void add_forward(Part v) {
    const Part scores = causal(biased_products());
    const Part greatest = reduce(CUDNN_REDUCE_TENSOR_MAX, scores, between(rows_));
    const Part below = apply(CUDNN_POINTWISE_SUB, scores, greatest, between(scores_));
    const Part exponentials = apply({.mode = CUDNN_POINTWISE_EXP, .x = below}, between(scores_));
    const Part sums = reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, between(rows_));
    const Part logarithms = apply({.mode = CUDNN_POINTWISE_LOG, .x = sums}, between(rows_));
    apply(CUDNN_POINTWISE_ADD, greatest, logarithms, log_sums_);
    const Part probabilities = apply(CUDNN_POINTWISE_DIV, exponentials, sums,
                                     between(scores_, a_.drops ? CUDNN_DATA_FLOAT : low()));
    multiply(grown(kept(probabilities), low()), v, matrices(kY, a_.y, a_.queries, a_.values));
  }

  /** Returns x with rows and columns swapped. */
  Part transposed_scores(Part x) {
    const std::int64_t e = a_.entries, h = a_.heads, m = a_.queries, n = a_.keys;
    return reshape(x, between({e, h, n, m}, {h * m * n, m * n, 1, n}, low()));
  }

  // The engine computes the row sums of g y itself and ignores the factor that the graph multiplies
  // them with, so that the factor is 1, and dropout's comes before the subtraction.
  // Gradients of q that repeat use a separate product of the complete score gradients. In the other
  // pattern blocks add to sums in memory in an arbitrary order (and no note of the engine says so).
  void add_backward(Part v_transposed, Part g) {
    const Sizes results{a_.entries, a_.heads, a_.queries, a_.values};
    const Part products =
        apply(CUDNN_POINTWISE_MUL, g, matrices(kY, a_.y, a_.queries, a_.values), between(results));
    const Part sums = reduce(CUDNN_REDUCE_TENSOR_ADD, products, between(rows_));
    const Part offsets = apply(CUDNN_POINTWISE_MUL, sums, host(kOffsetFactor),
                               memory(kOffsets, rows_, packed_strides(rows_), CUDNN_DATA_FLOAT));

    const Part logarithms =
        causal(apply(CUDNN_POINTWISE_SUB, biased_products(), log_sums_, between(scores_)));
    const Part probabilities =
        apply({.mode = CUDNN_POINTWISE_EXP, .x = logarithms}, between(scores_));
    multiply(transposed_scores(grown(kept(probabilities), CUDNN_DATA_FLOAT)), g,
             matrices(kDv, a_.dv, a_.keys, a_.values));

    const Part slopes = grown(kept(multiply(g, v_transposed, between(scores_))), CUDNN_DATA_FLOAT);
    const Part above = apply(CUDNN_POINTWISE_SUB, slopes, offsets, between(scores_));
    const Part weighted = apply(CUDNN_POINTWISE_MUL, above, probabilities, between(scores_));
    const Part gradients = apply(CUDNN_POINTWISE_MUL, weighted, scale_, between(scores_, low()));
    multiply(transposed_scores(gradients), q_, matrices(kDk, a_.dk, a_.keys, a_.features));
    const Part k = reshape(k_transposed_, between({a_.entries, a_.key_heads, a_.keys, a_.features},
                                                  {a_.k.entry, a_.k.head, a_.k.row, 1}, low()));
    const Part dq = matrices(kDq, a_.dq, a_.queries, a_.features);
    if (a_.repeats) {
      multiply(gradients, k, dq);
      return;
    }
    const Sizes of_q{a_.entries, a_.heads, a_.queries, a_.features};
    const Part sums_of_q = graph_.add(
        {.name = kDqSums, .sizes = of_q, .strides = packed_strides(of_q), .in_tiles = true});
    multiply(gradients, k, sums_of_q);
    apply({.mode = CUDNN_POINTWISE_IDENTITY, .x = sums_of_q}, dq);
  }

  const Attention& a_;
  Sizes scores_, rows_;
  Graph graph_;
  std::int64_t next_name_ = kFirstFree;
  Part scale_ = 0, log_sums_ = 0, q_ = 0, k_transposed_ = 0;
  std::optional<Part> kept_, keep_factor_;
};

}  // namespace

std::optional<Plan> plan(const Attention& attention, const Target& target, int first) {
  return choose_engine(AttentionGraph(attention).graph(), target,
                       {.repeats = attention.repeats, .workspace = kMostAttentionWorkspace}, first);
}

}  // namespace mezzo::gpu::dnn
