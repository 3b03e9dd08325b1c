// LibraryProof: the first results of a library for a kind of call are compared with those of
// Mezzo's own kernels. See verify_libraries() in ../tensor/core/numerics.h.
#pragma once

#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "../tensor/core/numerics.h"
#include "../tensor/core/tensor.h"
#include "blas/key.h"
#include "own_kernels.h"

namespace mezzo::gpu {

/** A result of a library, and the same computed by Mezzo's own kernels. */
struct ResultPair {
  Tensor library, own;
  // The size that an element would have with random operands, or 0: roundings of sums that cancel
  // each other are in proportion to it, not to the result. Nan: an operand has nan or infinity, so
  // that the comparison tells nothing.
  double typical = 0;
};

/** The results of a call of a library beside Mezzo's own. The function runs in a scope of
 *  OwnKernels. */
using ResultPairs = std::function<std::vector<ResultPair>()>;

/** What a comparison depends on, beside the results. */
struct ProofTerms {
  const char* library;
  // Largest difference, relative to a result's largest element: proof_tolerance(), or more where a
  // call rounds several times.
  double tolerance;
};

/** Returns the difference that the roundings of one call may make: of 16-bit numbers 4 half units,
 *  of others what sums in another order differ by, with TF32 where that is allowed. */
double proof_tolerance(DType dtype);

/** Returns the typical size of a sum of `terms` products of the elements of a and b; nan where
 *  these have nan or infinity. Synchronises with the device. */
double typical_sum(std::int64_t terms, const Tensor& a, const Tensor& b);

/** Returns 0, or nan if a tensor has nan or infinity. Undefined tensors do not count. Synchronises
 *  with the device. */
double nan_unless_finite(std::span<const Tensor> operands);

/** Whether a library's results for one kind of call agree with those of Mezzo's own kernels. */
class LibraryProof {
 public:
  /** Returns false if the library must not be called: its results have differed, or this is a
   *  capture and nothing is known about them. */
  bool allows_call() const;

  /** Returns whether the results of a call that the library has enqueued may be used. Compares them
   *  until a comparison has told something. One of zeros does not. One of operands with nan or
   *  infinity, or with other such results, neither: it returns false. text() names the call in the
   *  log. Errors: CudaError. */
  template <class Text>
  bool accepts(const ProofTerms& terms, const ResultPairs& pairs, const Text& text) {
    if (known_ || !compares()) return true;
    return judge(terms, pairs, [&] { return std::string(text()); });
  }

  /** Forgets what is known, because the library has another algorithm now. */
  void begin_again() { known_ = refused_; }

 private:
  bool compares() const;
  bool judge(const ProofTerms& terms, const ResultPairs& pairs,
             const std::function<std::string()>& text);

  bool known_ = false, refused_ = false;
  int zeros_ = 0;  // comparisons of zeros
};

/** Proofs by kind of call, for any thread. */
class LibraryProofs {
 public:
  using Kind = std::vector<std::int64_t>;

  bool allows_call(const Kind& kind) {
    const std::lock_guard lock(mutex_);
    return proofs_[kind].allows_call();
  }
  template <class Text>
  bool accepts(const Kind& kind, const ProofTerms& terms, const ResultPairs& pairs,
               const Text& text) {
    const std::lock_guard lock(mutex_);
    return proofs_[kind].accepts(terms, pairs, text);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<Kind, LibraryProof, KeyHash> proofs_;
};

}  // namespace mezzo::gpu
