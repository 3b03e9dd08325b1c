// Generated test of the dtypes that ops declare: declared ones run, others throw DtypeError.
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>

#include "../support/catch.h"
#include "samples.h"

using namespace mezzo;
using namespace cases;

namespace {

/** Returns a sample's operands with floating values replaced by small positive integers of another
 *  dtype. */
std::vector<Tensor> operands_in(const Case& c, DType dtype) {
  std::vector<Array> values = draw(c, 0, false);
  for (std::size_t k = 0; k < values.size(); ++k)
    if (!c.operands[k].integers && !c.operands[k].boolean)
      for (double& v : values[k].values) v = 1 + std::floor(std::abs(v));
  std::vector<Tensor> x = to_tensors(c, values, f32);
  for (Tensor& t : x)
    if (is_floating(t.dtype())) t = t.to(dtype);
  return x;
}

bool has_values(const Case& c) {
  for (const Operand& operand : c.operands)
    if (!operand.integers && !operand.boolean) return true;
  return false;
}

}  // namespace

TEST_CASE("ops accept the dtypes they declare and reject the others", "[ops][dtypes]") {
  std::set<std::string>
      seen;  // only the first case of each op: others may have number arguments that set the dtype
  for (const Case& c : all_cases()) {
    const OpInfo* info = find_op(c.op);
    if (!seen.insert(c.op).second || !info || !c.single_op || !has_values(c) ||
        !runs_here(c, Depth::values) || c.variant.find("in place") != std::string::npos)
      continue;
    for (const DType dtype : {boolean, u8, i32, i64}) {
      std::string outcome = "ran";
      try {
        c.call(operands_in(c, dtype));
      } catch (const DtypeError& e) {
        if (std::string(e.what()).rfind(c.op, 0) != 0)
          continue;  // thrown by another op of the case's call
        outcome = str("DtypeError: ", e.what());
      } catch (const ValueError&) {
        continue;  // an attribute valid only for floating operands
      } catch (const std::exception& e) {
        outcome = str("another exception: ", e.what());
      }
      INFO(c.op << " " << c.variant << " on " << name(dtype) << ": " << outcome);
      INFO("structured ops say which integers they take by traits.integers and traits.booleans");
      if (dtype == boolean && outcome == "ran")
        continue;  // number arguments may have set the dtype
      CHECK((outcome == "ran") == takes(*info, dtype));
      CHECK(outcome.find("another exception") == std::string::npos);
    }
  }
}

namespace {

bool same_bytes(const mezzo::Tensor& a, const mezzo::Tensor& b) {
  return a.dtype() == b.dtype() && a.numel() == b.numel() &&
         std::memcmp(a.raw_data(), b.raw_data(),
                     static_cast<std::size_t>(a.numel()) * mezzo::item_size(a.dtype())) == 0;
}

using Unary = mezzo::Tensor (*)(const mezzo::Tensor&);
constexpr Unary kFunctions[] = {[](const mezzo::Tensor& x) { return mezzo::exp(x); },
                                [](const mezzo::Tensor& x) { return mezzo::log(x); },
                                [](const mezzo::Tensor& x) { return mezzo::sqrt(x); },
                                [](const mezzo::Tensor& x) { return mezzo::tanh(x); },
                                [](const mezzo::Tensor& x) { return mezzo::sigmoid(x); },
                                [](const mezzo::Tensor& x) { return mezzo::silu(x); },
                                [](const mezzo::Tensor& x) { return mezzo::gelu(x); },
                                [](const mezzo::Tensor& x) { return mezzo::relu(x); }};

}  // namespace

// Kernels read bf16 operands in loops of their own.
TEST_CASE("every bf16 value gives the rounded result of its f32 value") {
  mezzo::Tensor all = mezzo::zeros({65536}).to(mezzo::DType::bf16);
  for (std::uint32_t i = 0; i < 65536; ++i)
    all.data<mezzo::BFloat16>()[i].bits = static_cast<std::uint16_t>(i);
  const mezzo::Tensor wide = all.to(mezzo::DType::f32);
  for (std::size_t f = 0; f < std::size(kFunctions); ++f) {
    CAPTURE(f);
    CHECK(same_bytes(kFunctions[f](all), kFunctions[f](wide).to(mezzo::DType::bf16)));
  }
  const mezzo::Tensor x = mezzo::randn({64, 300}).to(mezzo::DType::bf16);
  CHECK(same_bytes(mezzo::sum(x, {0}),
                   mezzo::sum(x.to(mezzo::DType::f32), {0}).to(mezzo::DType::bf16)));
}

// Blocks whose values are all moderate take shorter formulas.
TEST_CASE("an infinite neighbour does not change the bits of a function") {
  const mezzo::Tensor x = mezzo::randn({1024}) * 30.0;
  mezzo::Tensor other = x.clone();
  other.data<float>()[0] = std::numeric_limits<float>::infinity();
  for (std::size_t f = 0; f < std::size(kFunctions); ++f) {
    CAPTURE(f);
    const mezzo::Tensor a = kFunctions[f](x), b = kFunctions[f](other);
    CHECK(std::memcmp(a.data<float>() + 1, b.data<float>() + 1, 1023 * sizeof(float)) == 0);
  }
}
