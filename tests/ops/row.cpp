#include "row.h"

namespace rows {

using namespace mezzo;

namespace {

/** The golden file of the rows that are added at present. */
std::string& golden_file() {
  static std::string file;
  return file;
}

}  // namespace

Rows::Rows(const char* golden, void (*add)()) {
  golden_file() = golden;
  add();
}

Tensors draw_operands(FuzzDraw& d, Broadcasting operands) {
  Tensors x{d.maybe_huge()};
  const bool is_mixed = operands == binary && d.flag();
  for (int i = 1; i < static_cast<int>(operands); ++i)
    x.push_back(d.tensor(d.like(x[0].shape()), is_mixed ? d.dtype() : x[0].dtype()));
  return x;
}

Expected broadcast_result(const Tensors& x, bool in_place) {
  std::optional<Sizes> shape = sizes(x[0]);
  for (const Tensor& operand : x) shape = broadcast(shape, sizes(operand));
  return in_place && shape != sizes(x[0]) ? refused() : gives(shape);
}

void add_golden(const std::string& op, const Golden& golden,
                std::function<Tensors(const Tensors& x)> call) {
  golden::all_cases().push_back({.name = op + (golden.variant.empty() ? "" : "/" + golden.variant),
                                 .call = std::move(call),
                                 .factor = golden.factor,
                                 .file = golden_file(),
                                 .torch = golden.torch,
                                 .operands = golden.operands});
}

namespace {

using Run = std::function<Tensors(const Tensors& x)>;

/** Returns a case of the gradient of operand `leaf`; the last operand is the incoming one. */
smoke::Case gradient_case(const Tensors& operands, const Run& run, std::size_t leaf) {
  const auto prepare = [=](const Tensors& there) -> smoke::Step {
    Tensors x(there.begin(), there.end() - 1);
    x[leaf] = x[leaf].detach().requires_grad_();
    const Tensor y = run(x)[0], at = x[leaf], g = there.back();
    return [=] { return Tensors{grad(y, at, {.retain_graph = true}, g)}; };
  };
  return {operands, prepare};
}

}  // namespace

void add_smoke(const Smoke& line, const Run& call) {
  const Run run = [=](Tensors x) {
    for (Tensor& operand : x)
      if (line.format && operand.dim() == 4) operand = operand.contiguous(*line.format);
    return call(x);
  };
  for (const DType dtype : line.dtypes) {
    const auto made = [=](const Maker& make) {
      Tensors x = line.operands(make, dtype);
      double bytes = 0;
      for (std::size_t i = x.size(); i-- > 0;)
        if (is_floating(x[i].dtype())) bytes = line.passes * smoke::size_of(x[i]);
      if (line.bytes) bytes = line.bytes(x);
      const double flops = line.flops ? line.flops(x) : 0;
      smoke::Case c;
      if (line.backward) {
        const Tensor y = run(x)[0];
        x.push_back(empty_like(y).copy_(make.normal(y.shape(), y.dtype())));
        c = line.leaf ? gradient_case(x, run, *line.leaf)
                      : smoke::backward_case(x, 0, [=](const Tensors& t) { return run(t)[0]; });
      } else {
        c = smoke::forward_case(x, 0, run);
      }
      c.bytes = bytes;
      c.flops = flops;
      return c;
    };
    std::string text = line.name;
    const std::size_t place = text.find('%');
    if (place == std::string::npos)
      text += " " + std::string(name(dtype));
    else
      text.replace(place, 1, name(dtype));
    smoke::op_rows().push_back({text, made, line.factor * smoke::tolerance(dtype), line.expected,
                                line.by_library, line.may_vary});
  }
}

}  // namespace rows
