// Fallback after a library failure: its next algorithm, then Mezzo's own kernel.
#pragma once

#include <optional>
#include <string>

#include "../tensor/core/error.h"
#include "library_proof.h"

namespace mezzo::gpu {

/** Logs that a library failed on a problem, unless `logged` is already set. Errors: CudaError where
 *  the failure broke the device; CapturePostponed within a capture, which may have been
 *  invalidated. */
void report_failure(const char* library, const std::string& problem, const CudaError& error,
                    bool& logged);
/** Logs that the library does not support a problem, unless `logged` is already set. */
void report_refusal(const char* library, const std::string& problem, bool& logged);

/** The algorithms of a library for one problem. The first one that runs is used for all later
 *  calls. */
template <class Algorithm> class LibraryAlgorithms {
 public:
  /** Runs an algorithm. Returns false if none works, or if its results differ from Mezzo's own; the
   *  results are then still to be computed. find(first) returns an optional Algorithm with its
   *  index: the first one at index `first` or later. start(algorithm) enqueues the work. A
   *  CudaError from either counts as a failure of the library, and text() describes the problem for
   *  the log. An empty `pairs` compares nothing. Errors: those of report_failure. */
  template <class Find, class Start, class Text>
  bool run(const ProofTerms& terms, const Find& find, const Start& start, const Text& text,
           const ResultPairs& pairs) {
    const char* library = terms.library;
    if (pairs && !proof_.allows_call()) return false;
    while (next_ < kMost) {
      try {
        if (!chosen_) {
          chosen_ = find(next_);
          proof_.begin_again();
        }
        if (!chosen_) break;
        start(*chosen_);
        return !pairs || proof_.accepts(terms, pairs, text);
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

  /** Returns the algorithm in use, if one has been chosen. */
  const std::optional<Algorithm>& chosen() const { return chosen_; }
  /** Discards the algorithm in use, so that run() chooses again. */
  void choose_again() { chosen_.reset(); }

 private:
  static constexpr int kMost = 16;  // algorithms that are tried

  std::optional<Algorithm> chosen_;
  LibraryProof proof_;  // of the chosen one
  int next_ = 0;
  bool logged_ = false;
};

}  // namespace mezzo::gpu
