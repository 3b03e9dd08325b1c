// Out of memory at every allocation of every mutating call: the call changes nothing and can be
// repeated.
#include "../support/catch.h"
#include "rows.h"

using namespace faults;

namespace {

void check(const std::vector<Row>& rows, Source source) {
  int cases = 0;
  for (const Row& row : rows) {
    const Result result = sweep(row, source);
    INFO(row.name << ": " << result.first);
    CHECK(result.changed == 0);
    CHECK(result.aborts == 0);
    cases += result.cases;
  }
  CHECK(cases > 80);
}

}  // namespace

TEST_CASE("tensors: any failing allocation changes nothing", "[tensors]") {
  check(tensor_rows(), Source::tensors);
}
TEST_CASE("models: any failing allocation changes nothing", "[tensors]") {
  check(model_rows(), Source::tensors);
}
TEST_CASE("optimizers: any failing allocation changes nothing", "[tensors]") {
  check(optimizer_rows(), Source::tensors);
}
TEST_CASE("sessions: any failing allocation changes nothing", "[tensors]") {
  check(session_rows(), Source::tensors);
}
TEST_CASE("scalers: any failing allocation changes nothing", "[tensors]") {
  check(scaler_rows(), Source::tensors);
}
TEST_CASE("checkpoints: any failing allocation changes nothing", "[tensors]") {
  check(checkpoint_rows(), Source::tensors);
}

TEST_CASE("tensors: any failing operator new changes nothing", "[new]") {
  check(tensor_rows(), Source::new_calls);
}
TEST_CASE("models: any failing operator new changes nothing", "[new]") {
  check(model_rows(), Source::new_calls);
}
TEST_CASE("optimizers: any failing operator new changes nothing", "[new]") {
  check(optimizer_rows(), Source::new_calls);
}
TEST_CASE("sessions: any failing operator new changes nothing", "[new]") {
  check(session_rows(), Source::new_calls);
}
TEST_CASE("scalers: any failing operator new changes nothing", "[new]") {
  check(scaler_rows(), Source::new_calls);
}
TEST_CASE("checkpoints: any failing operator new changes nothing", "[new]") {
  check(checkpoint_rows(), Source::new_calls);
}
