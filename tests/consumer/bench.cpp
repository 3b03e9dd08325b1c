// A user's program that measures its own net at every level of mixed precision, built and run by
// the test of installation.
#include <mezzo.h>

#include <cstdio>
#include <memory>

using namespace mezzo;

namespace {

std::unique_ptr<bench::Workload> regression(const bench::Setting& setting) {
  const nn::Sequential model(nn::Linear(16, 32), nn::ReLU(), nn::Linear(32, 1));
  const Tensor x = rand({64, 16});
  return bench::supervised(setting,
                           {.model = model,
                            .optimizer = std::make_shared<optim::Adam>(model.parameters()),
                            .loss = [model](const Batch& b) { return mse_loss(model(b.x), b.y); },
                            .batches = {{x, sum(x, {1}, {.keepdim = true})}}});
}

}  // namespace

int main() {
  const bench::Results results = bench::measure({{"regression", regression}}, {.seconds = 1});
  if (results.rows.size() != 6 || !bench::errors(results).empty()) return 1;
  for (const bench::Row& row : results.rows)
    if (row.step_ms.value <= 0 || row.losses.back() >= row.losses.front()) return 2;
  if (bench::table(results).find("regression     O5") == std::string::npos) return 3;
  if (bench::json(results).find("\"compiler\"") == std::string::npos) return 4;
  if (bench::csv(results).find("cpu_model") == std::string::npos) return 5;
  std::puts("bench: works");
}
