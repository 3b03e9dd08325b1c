// A row of the smoke test: one computation, its operands and what it may be wrong by.
// Sees: mezzo.h.
// Read next: product_rows.cpp, run_row.h.
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
  /** Normal numbers. */
  Tensor normal(const Shape& shape, DType dtype = f32) const {
    return randn(shape, {.device = device}).to(dtype);
  }
  /** Whole numbers from -2 to 2: sums of few products of them are exact in every dtype. */
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

/** One call of what a row computes; gives its results. */
using Step = std::function<Tensors()>;

struct Case {
  Tensors operands;
  std::function<Step(const Tensors& operands)> prepare;  // on the device that the operands are on
  double bytes = 0, flops = 0;                           // that one call must move and compute at least
};

/** What is compared with the CPU. */
enum class Expected {
  close,  // to what f64 gives, within the row's tolerance
  same,   // to what the same dtypes give, bit for bit
};

struct Row {
  std::string name;
  std::function<Case(const Maker& make)> make;
  double tolerance = 0;  // of a result, in units of its largest element
  Expected expected = Expected::close;
  bool by_library = false;  // cuBLASLt or cuDNN may compute it: compared with our own kernels too
  bool may_vary = false;    // from run to run, in the last bits
};

/** Half a unit of a dtype in the largest element, and what a different order of sums may add. */
inline double tolerance(DType dtype) {
  return dtype == f64 ? 1e-12 : dtype == f32 ? 3e-5 : dtype == f16 ? 0x1p-9 : 0x1p-6;
}

inline double size_of(const Tensor& x) {
  return static_cast<double>(x.numel()) * static_cast<double>(item_size(x.dtype()));
}

/** A case that is a function of its operands. `passes` arrays of the first operand's size are moved. */
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

/** The gradients of f for the floating operands; the last operand is the gradient of its result. */
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
    return [=] { return grad(TensorList(y), TensorList(leaves), {.retain_graph = true}, TensorList(g)); };
  };
  return {std::move(operands), prepare, bytes, flops};
}

// Each file of rows appends its own.
void add_memory_rows(std::vector<Row>& rows);
void add_product_rows(std::vector<Row>& rows);
void add_network_rows(std::vector<Row>& rows);
void add_norm_rows(std::vector<Row>& rows);
void add_elementwise_rows(std::vector<Row>& rows);
void add_index_rows(std::vector<Row>& rows);
void add_training_rows(std::vector<Row>& rows);

}  // namespace smoke
