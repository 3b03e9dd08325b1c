// What happens where a library fails: the next of its algorithms takes over, then the caller's own
// kernel.
// Sees: ../tensor/error.h.
// Read next: library_fallback.cpp, blas.cpp and dnn.cpp (users).
#pragma once

#include <optional>
#include <string>

#include "../tensor/error.h"

namespace mezzo::gpu {

/** Logs that a library failed on a problem, once where `logged` is kept. Errors: CudaError where
 *  the failure broke the device; CapturePostponed within a capture, which may not survive it. */
void report_failure(const char* library, const std::string& problem, const CudaError& error, bool& logged);
/** Logs that it has nothing for a problem, unless `logged`. */
void report_refusal(const char* library, const std::string& problem, bool& logged);

/** The algorithms of a library for one problem: the first that runs serves all later calls. */
template <class Algorithm> class LibraryAlgorithms {
 public:
  /** Runs one. False where the library has none that works: nothing was done then that counts.
   *  find(first) gives an optional Algorithm: the next one at index `first` or behind, with its
   *  index. start(algorithm) puts the work into the stream. What either throws as CudaError is
   *  a failure of the library, and text() names the problem. Errors: as report_failure. */
  template <class Find, class Start, class Text>
  bool run(const char* library, const Find& find, const Start& start, const Text& text) {
    while (next_ < kMost) {
      try {
        if (!chosen_) chosen_ = find(next_);
        if (!chosen_) break;
        start(*chosen_);
        return true;
      } catch (const CudaError& error) {
        next_ = (chosen_ ? chosen_->index : next_) + 1;
        chosen_.reset();
        report_failure(library, text(), error, logged_);
      }
    }
    if (next_ < kMost) report_refusal(library, text(), logged_);
    next_ = kMost;
    return false;
  }

  /** The algorithm in use. */
  const std::optional<Algorithm>& chosen() const { return chosen_; }
  /** Looks for one again, where one is in use. */
  void choose_again() { chosen_.reset(); }

 private:
  static constexpr int kMost = 16;  // that are looked at

  std::optional<Algorithm> chosen_;
  int next_ = 0;
  bool logged_ = false;
};

}  // namespace mezzo::gpu
