// Cases of the reductions.
#include <algorithm>

#include "reduce_oracle.h"

using namespace cases;
using namespace mezzo;

namespace {

/** Adds the op for several choices of dimensions. */
template <class Call>
void add_reduction(const std::string& op, Call call, double (*f)(const Line&),
                   const Case& rest = {}) {
  const std::vector<std::vector<int>> choices{{2}, {1}, {0}, {0, 2}, {0, 1}, {-1, -2}};
  for (const std::vector<int>& dims : choices)
    for (const bool keepdim : {false, true}) {
      const std::vector<std::int64_t> wide(dims.begin(), dims.end());
      Case c = rest;
      c.op = op;
      c.variant = keepdim ? "keepdim" : "";
      for (const int d : dims) c.variant += " " + std::to_string(d);
      c.call = [=](const std::vector<Tensor>& x) {
        return std::vector<Tensor>{call(x[0], Dims(wide), keepdim)};
      };
      c.oracle = reduced_by(dims, keepdim, f);
      if (c.shapes.empty()) c.shapes = reduce_shapes();
      add_case(c);
    }
  Case all = rest;
  all.op = op;
  all.variant = "all";
  all.call = [=](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{call(x[0], Dims{}, false)};
  };
  all.oracle = reduced_by({}, false, f);
  all.shapes = {{Shape{}}, {{1}}, {{7}}, {{3, 4}}, {{2, 3, 5}}};
  add_case(all);
}

double total(const Line& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum;
}
double greatest(const Line& x) { return *std::max_element(x.begin(), x.end()); }
double least(const Line& x) { return *std::min_element(x.begin(), x.end()); }
double nonzeros(const Line& x) {
  return static_cast<double>(std::count_if(x.begin(), x.end(), [](double v) { return v != 0; }));
}
double place_of_greatest(const Line& x) {
  return static_cast<double>(std::max_element(x.begin(), x.end()) - x.begin());
}
double place_of_least(const Line& x) {
  return static_cast<double>(std::min_element(x.begin(), x.end()) - x.begin());
}

std::vector<std::vector<Shape>> without_empty(std::vector<std::vector<Shape>> shapes) {
  std::erase_if(shapes, [](const std::vector<Shape>& s) { return s[0][0] == 0; });
  return shapes;
}

/** Results [values, indices] along dimension 1. */
Oracle extreme_and_place(double (*extreme)(const Line&), double (*place)(const Line&)) {
  return [=](const std::vector<Array>& x) {
    return std::vector<Array>{reduced_by({1}, false, extreme)(x)[0],
                              reduced_by({1}, false, place)(x)[0]};
  };
}

std::vector<Tensor> pair_of(const ValuesAndIndices& r) { return {r.values, r.indices}; }

const Registrar additions([] {
#define REDUCTION(function) \
  [](const Tensor& x, const Dims& d, bool keepdim) { return function(x, d, {.keepdim = keepdim}); }
  add_reduction("sum", REDUCTION(sum), total);
  add_reduction("mean", REDUCTION(mean),
                [](const Line& x) { return total(x) / static_cast<double>(x.size()); });

  Case distinct;
  distinct.operands = {{.positive_definite_gap = true}};
  distinct.shapes = without_empty(reduce_shapes());
  add_reduction("amax", REDUCTION(amax), greatest, distinct);
  add_reduction("amin", REDUCTION(amin), least, distinct);

  for (const Operand& operand :
       {Operand{.low = 0, .high = 1, .integers = true}, Operand{.boolean = true}, Operand{}}) {
    Case rest;
    rest.operands = {operand};
    rest.gradients = false;
    add_reduction(
        "all", REDUCTION(all),
        [](const Line& x) { return nonzeros(x) == static_cast<double>(x.size()) ? 1.0 : 0.0; },
        rest);
    add_reduction(
        "any", REDUCTION(any), [](const Line& x) { return nonzeros(x) > 0 ? 1.0 : 0.0; }, rest);
    add_reduction("count_nonzero", REDUCTION(count_nonzero), nonzeros, rest);
  }
#undef REDUCTION

  for (const std::int64_t dim : {0, 1, -1})
    for (const bool keepdim : {false, true}) {
      const auto add = [&](const char* op, auto function, double (*f)(const Line&)) {
        add_case({.op = op,
                  .variant = std::to_string(dim) + (keepdim ? " keepdim" : ""),
                  .call =
                      [=](const std::vector<Tensor>& x) {
                        return std::vector<Tensor>{
                            function(x[0], ArgReduceOptions{.dim = dim, .keepdim = keepdim})};
                      },
                  .oracle = reduced_by({static_cast<int>(dim)}, keepdim, f),
                  .operands = {{.low = 0, .high = 3, .integers = true}},
                  .shapes = without_empty(reduce_shapes()),
                  .gradients = false});
      };
      add(
          "argmax", [](const Tensor& x, const ArgReduceOptions& o) { return argmax(x, o); },
          place_of_greatest);
      add(
          "argmin", [](const Tensor& x, const ArgReduceOptions& o) { return argmin(x, o); },
          place_of_least);
    }
  add_case({.op = "argmax",
            .variant = "all",
            .call = CALL(argmax(x[0])),
            .oracle = reduced_by({}, false, place_of_greatest),
            .shapes = {{Shape{}}, {{5}}, {{4, 7}}},
            .gradients = false});
  add_case({.op = "argmin",
            .variant = "all",
            .call = CALL(argmin(x[0])),
            .oracle = reduced_by({}, false, place_of_least),
            .shapes = {{Shape{}}, {{5}}, {{4, 7}}},
            .gradients = false});
  add_case({.op = "max",
            .call = [](const std::vector<Tensor>& x) { return pair_of(max(x[0], 1)); },
            .oracle = extreme_and_place(greatest, place_of_greatest),
            .operands = {{.positive_definite_gap = true}},
            .shapes = without_empty(reduce_shapes())});
  add_case({.op = "min",
            .call = [](const std::vector<Tensor>& x) { return pair_of(min(x[0], 1)); },
            .oracle = extreme_and_place(least, place_of_least),
            .operands = {{.positive_definite_gap = true}},
            .shapes = without_empty(reduce_shapes())});
});

}  // namespace
