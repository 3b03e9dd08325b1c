// bench --micro: the cost of single operations, and the matrix product against plain Eigen.
// Sees: mezzo.h.
// Read next: micro.cpp.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace samples {

struct MicroResult {
  std::string what;
  double value;
  std::string unit;
  std::string target;      // what the project wants it to be; empty where it wants nothing
  std::string error = {};  // why it failed; then there is no value
};

/** The results, each handed on as soon as it is there. */
class MicroResults {
 public:
  explicit MicroResults(std::function<void(const MicroResult&)> row) : row_(std::move(row)) {}

  void push_back(const MicroResult& result) {
    rows_.push_back(result);
    row_(result);
  }
  /** Calls f(). What it throws becomes a result with an error. */
  template <class F> void attempt(const std::string& what, F&& f) {
    try {
      f();
    } catch (const std::exception& e) {
      push_back({what, 0, "", "", e.what()});
    }
  }

  const std::vector<MicroResult>& rows() const { return rows_; }

 private:
  std::function<void(const MicroResult&)> row_;
  std::vector<MicroResult> rows_;
};

/** Measures everything; takes a few seconds. */
void run_micro(MicroResults& results);

}  // namespace samples
