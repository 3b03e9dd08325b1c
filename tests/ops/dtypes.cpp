// Generated test of the dtypes that ops declare: declared ones run, others throw DtypeError.
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
