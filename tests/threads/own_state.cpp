// Thread-local state, and process-wide state behind locks.
#include <mezzo.h>

#include <atomic>
#include <string>

#include "../support/catch.h"
#include "on_threads.h"

using namespace mezzo;
using threads::on_threads;

TEST_CASE("grad mode, autocast and random numbers are per thread", "[threads]") {
  const Tensor w = ones({4, 4}, {.requires_grad = true});
  std::atomic<int> wrong{0};
  const auto expect = [&](bool holds) { wrong += holds ? 0 : 1; };
  on_threads(4, [&](int t) {
    manual_seed(3);
    const std::vector<double> first = randn({4}).to_vector<double>();
    for (int i = 0; i < 100; ++i) {
      const GradMode recording(t % 2 == 0);
      const amp::autocast casts({.dtype = t < 2 ? f16 : bf16, .enabled = t != 3});
      const Tensor y = matmul(w, w);
      expect(y.requires_grad() == (t % 2 == 0));
      expect(y.dtype() == (t < 2 ? f16 : t == 2 ? bf16 : f32));
      manual_seed(3);
      expect(randn({4}).to_vector<double>() == first);
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("the log, registrations and statistics may be used by any thread", "[threads]") {
  int lines = 0;  // the log serialises calls of its sink
  const LogSink before = set_log_sink([&](Severity, std::string_view) { ++lines; });
  on_threads(4, [&](int) {
    for (int i = 0; i < 100; ++i) {
      log_text(Severity::warning, "one line");
      amp::register_half_function("relu");
      (void)relu(ones({2}));
      (void)memory_stats();
    }
  });
  set_log_sink(before);
  amp::clear_registration("relu");
  CHECK(lines == 400);
}
