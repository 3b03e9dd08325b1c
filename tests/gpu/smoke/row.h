// A row of the smoke test: a computation, its operands and its tolerance. Those of ops follow from
// ../../ops/rows.
#pragma once

#include <mezzo.h>

#include <functional>
#include <string>
#include <vector>

namespace smoke {

using namespace mezzo;

using Tensors = std::vector<Tensor>;

/** Makes the operands of a row. */
struct Maker {
  enum class Size {
    tiny,
    check,
    timed
  };  // for the emulated device; to compare with the CPU; to time on a GPU
  Size size = Size::tiny;
  Device device = cpu;

  std::int64_t pick(std::int64_t tiny, std::int64_t check, std::int64_t timed) const {
    return size == Size::tiny ? tiny : size == Size::check ? check : timed;
  }
  /** Returns normally distributed numbers. */
  Tensor normal(const Shape& shape, DType dtype = f32) const {
    return randn(shape, {.device = device}).to(dtype);
  }
  /** Returns integers from -2 to 2: sums of few products of them are exact in every dtype. */
  Tensor whole(const Shape& shape, DType dtype = f32) const {
    return randint(-2, 3, shape, {.dtype = i32, .device = device}).to(dtype);
  }
  Tensor indices(std::int64_t end, const Shape& shape) const {
    return randint(0, end, shape, {.dtype = i64, .device = device});
  }
  Tensor fill(const Shape& shape, double value, DType dtype = f32) const {
    return full(shape, value, {.dtype = dtype, .device = device});
  }
};

/** One call of a row's computation; returns its results. */
using Step = std::function<Tensors()>;

struct Case {
  Tensors operands;
  std::function<Step(const Tensors& operands)> prepare;  // on the operands' device
  double bytes = 0, flops = 0;                           // minimum of one call
};

/** How results are compared with the CPU. */
enum class Expected {
  close,  // to the f64 results, within the row's tolerance
  same,   // bits as the results in the same dtypes
};

struct Row {
  std::string name;
  std::function<Case(const Maker& make)> make;
  double tolerance = 0;  // relative to a result's largest element
  Expected expected = Expected::close;
  bool by_library = false;  // may run in cuBLASLt or cuDNN; also compared with our own kernels
  bool may_vary = false;    // the last bits may differ from run to run
};

/** Returns the rows of ops. */
inline std::vector<Row>& op_rows() {
  static std::vector<Row> rows;
  return rows;
}

/** Returns half a unit of a dtype at the largest element, plus the effect of the order of sums. */
inline double tolerance(DType dtype) {
  return dtype == f64 ? 1e-12 : dtype == f32 ? 3e-5 : dtype == f16 ? 0x1p-9 : 0x1p-6;
}

inline double size_of(const Tensor& x) {
  return static_cast<double>(x.numel()) * static_cast<double>(item_size(x.dtype()));
}

/** Returns a case that evaluates f on its operands. It moves `passes` arrays of the first operand's
 *  size. */
template <class F> Case forward_case(Tensors operands, double passes, F f, double flops = 0) {
  const double bytes = passes * size_of(operands[0]);
  const auto prepare = [f](const Tensors& x) -> Step {
    return [f, x] {
      const NoGrad no_grad;
      return Tensors{f(x)};
    };
  };
  return {std::move(operands), prepare, bytes, flops};
}

/** Returns a case of the gradients of f for the floating operands; the last operand is the incoming
 *  gradient. */
template <class F> Case backward_case(Tensors operands, double passes, F f, double flops = 0) {
  const double bytes = passes * size_of(operands[0]);
  const auto prepare = [f](const Tensors& operands_there) -> Step {
    Tensors x(operands_there.begin(), operands_there.end() - 1), leaves;
    const Tensor g = operands_there.back();
    for (Tensor& operand : x) {
      operand = operand.detach();
      if (is_floating(operand.dtype())) leaves.push_back(operand.requires_grad_());
    }
    const Tensor y = f(x);
    return [=] {
      return grad(TensorList(y), TensorList(leaves), {.retain_graph = true}, TensorList(g));
    };
  };
  return {std::move(operands), prepare, bytes, flops};
}

// Each file of rows in this folder defines one of these.
void add_memory_rows(std::vector<Row>& rows);
void add_training_rows(std::vector<Row>& rows);

}  // namespace smoke
