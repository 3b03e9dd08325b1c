// Compares values, gradients and dtypes with stored results of PyTorch, in f64 and f32.
#include "golden.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "../support/catch.h"
#include "folder.h"

using namespace mezzo;

namespace golden {

namespace {

// Differentiable ops without a case: their results depend on the random generator, which differs
// from PyTorch's.
const std::set<std::string_view> kWithoutCase{"bernoulli", "normal", "randint", "uniform"};

/** The tensors that a file holds of one case: "x0", "y0", "y0:f32", ... */
using Stored = std::map<std::string, Tensor>;

const std::map<std::string, Stored>& stored_cases() {
  static const std::map<std::string, Stored> cases = [] {
    std::map<std::string, Stored> all;
    for (const char* family : {"index", "linalg", "linear", "loss", "pointwise", "reduce",
                               "sequence", "space", "window"})
      for (const auto& [name, x] :
           load_tensors(str(folder(), "/", family, ".safetensors")).tensors) {
        const std::size_t colon = name.find(':');
        all[name.substr(0, colon)][name.substr(colon + 1)] = x;
      }
    return all;
  }();
  return cases;
}

const Tensor* find(const Stored& stored, const std::string& key) {
  const auto at = stored.find(key);
  return at == stored.end() ? nullptr : &at->second;
}

/** Returns the stored result for `dtype`. Results that depend on the dtype have a name of their
 *  own. */
const Tensor* expected(const Stored& stored, const std::string& key, DType dtype) {
  const Tensor* own = dtype == f32 ? find(stored, key + ":f32") : nullptr;
  return own ? own : find(stored, key);
}

Tensor incoming(const Tensor& y) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < y.numel(); ++i)
    values.push_back(static_cast<double>(i % 7) * 0.25 - 0.5);
  return tensor(values, y.shape(), {.dtype = y.dtype()});
}

/** Describes the first difference; empty where the tensors agree. */
std::string difference(const Tensor& got, const Tensor& wanted, double factor) {
  if (got.dtype() != wanted.dtype() || !(got.shape() == wanted.shape()))
    return str("is ", got, ", PyTorch has ", wanted);
  const double rtol = wanted.dtype() == f64 ? 1e-10 : wanted.dtype() == f32 ? 2e-6 : 1e-3;
  const double atol = wanted.dtype() == f64 ? 1e-11 : 1e-6;
  const std::vector<double> a = got.detach().to_vector<double>(), b = wanted.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                      std::abs(a[i] - b[i]) <= factor * (atol + rtol * std::abs(b[i]));
    if (!same) return str("[", i, "] is ", a[i], ", PyTorch has ", b[i]);
  }
  return "";
}

void compare_gradients(const Case& c, const Stored& stored, const Tensors& x, const Tensors& y,
                       DType dtype) {
  Tensors recorded, seeds, leaves;
  for (const Tensor& t : y)
    if (t.requires_grad()) {
      recorded.push_back(t);
      seeds.push_back(incoming(t));
    }
  std::vector<std::size_t> numbers;
  for (std::size_t k = 0; k < x.size(); ++k)
    if (x[k].requires_grad()) {
      leaves.push_back(x[k]);
      numbers.push_back(k);
    }
  if (leaves.empty() || recorded.empty()) return;
  const Tensors gradients = grad(recorded, leaves, {.allow_unused = true}, seeds);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    INFO("gradient of operand " << numbers[i]);
    const Tensor* wanted = expected(stored, str("g", numbers[i]), dtype);
    const Tensor got = gradients[i].defined() ? gradients[i] : zeros_like(leaves[i]);
    CHECK(difference(got, *wanted, c.factor) == "");
  }
}

void compare_op(const Case& c, const Stored& stored, DType dtype) {
  INFO(c.name << " in " << name(dtype));
  Tensors x;
  while (const Tensor* operand = find(stored, str("x", x.size()))) {
    x.push_back(is_floating(operand->dtype()) ? operand->to(dtype) : *operand);
    if (find(stored, str("g", x.size() - 1))) x.back().requires_grad_();
  }
  Tensors y;
  try {
    y = c.call(x);
  } catch (const std::exception& e) {
    FAIL_CHECK("threw " << e.what());
    return;
  }
  for (std::size_t k = 0; k < y.size(); ++k) {
    INFO("result " << k);
    const Tensor* wanted = expected(stored, str("y", k), dtype);
    CHECK(wanted);
    if (wanted) CHECK(difference(y[k], *wanted, c.factor) == "");
  }
  CHECK_FALSE(find(stored, str("y", y.size())));
  compare_gradients(c, stored, x, y, dtype);
}

}  // namespace

TEST_CASE("values and gradients match PyTorch", "[golden]") {
  for (const Case& c : all_cases())
    for (const DType dtype : {f64, f32})
      if (const auto stored = stored_cases().find(c.name); stored != stored_cases().end())
        compare_op(c, stored->second, dtype);
}

TEST_CASE("each golden case is stored, and each stored one is called", "[golden]") {
  std::set<std::string> called;
  for (const Case& c : all_cases()) {
    INFO(c.name);
    CHECK(called.insert(c.name).second);
    CHECK(stored_cases().count(c.name) == 1);
  }
  for (const auto& stored : stored_cases()) {
    INFO(stored.first);
    CHECK(called.count(stored.first) == 1);
  }
}

TEST_CASE("every differentiable op has a golden case", "[golden]") {
  std::set<std::string> covered;
  for (const Case& c : all_cases()) covered.insert(c.name.substr(0, c.name.find('/')));
  for (const OpInfo* info : all_ops()) {
    if (!info->traits.differentiable || info->traits.internal ||
        kWithoutCase.count(info->traits.name))
      continue;
    INFO(info->traits.name);
    CHECK(covered.count(std::string(info->traits.name)) == 1);
  }
}

// make.py reads the lines of this case, which runs only if it is named.
TEST_CASE("list what make.py evaluates", "[.list]") {
  for (const Case& c : all_cases())
    std::printf("%s\t%s\t%s\t%s\n", c.file.c_str(), c.name.c_str(), c.operands.c_str(),
                c.torch.c_str());
}

}  // namespace golden
