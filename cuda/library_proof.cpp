#include "library_proof.h"

#include <algorithm>
#include <cmath>

#include "../tensor/device/capture.h"
#include "../tensor/text/log.h"
#include "../tensor/text/text.h"
#include "kernels/result_difference.h"

namespace mezzo::gpu {

namespace {

/** Comparisons of zeros with zeros after which a kind counts as known, so that a layer whose
 *  gradients are always zero is not computed twice for ever. */
constexpr int kMostZeros = 3;

/** What the comparison of a call has told. */
struct Verdict {
  double error = 0;   // largest, relative; nan where the library has nan
  bool tells = true;  // false: nothing can be said about these results
  bool zero = true;   // all results are zero
};

Verdict verdict_on(const std::vector<ResultPair>& pairs) {
  Verdict v;
  for (const ResultPair& pair : pairs) {
    const Difference d = compare_results(pair.library, pair.own);
    const bool like_own = d.finite || (d.alike && !std::isnan(d.apart));
    v.tells = v.tells && like_own && !std::isnan(pair.typical);
    const double size = std::max(d.largest, std::isfinite(pair.typical) ? pair.typical : 0.0);
    v.zero = v.zero && d.largest == 0 && d.apart == 0;
    if (d.apart == 0) continue;
    const double error = size > 0 ? d.apart / size : INFINITY;
    if (!(error <= v.error)) v.error = error;
  }
  return v;
}

}  // namespace

double proof_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x1p-9;
    case DType::bf16: return 0x1p-6;
    case DType::f32: return allow_tf32() ? 0x1p-8 : 0x1p-13;
    case DType::f64:
    case DType::boolean:
    case DType::u8:
    case DType::i32:
    case DType::i64: break;
  }
  return 0x1p-36;
}

double typical_sum(std::int64_t terms, const Tensor& a, const Tensor& b) {
  return std::sqrt(static_cast<double>(terms)) * root_mean_square(a) * root_mean_square(b);
}

double nan_unless_finite(std::span<const Tensor> operands) {
  double zero = 0;
  for (const Tensor& x : operands)
    if (x.defined()) zero += 0 * root_mean_square(x);
  return zero;
}

bool LibraryProof::allows_call() const {
  if (refused_) return false;
  return known_ || zeros_ > 0 || !verify_libraries() || !Capture::current();
}

bool LibraryProof::compares() const { return verify_libraries() && !Capture::current(); }

bool LibraryProof::judge(const ProofTerms& terms, const ResultPairs& pairs,
                         const std::function<std::string()>& text) {
  Verdict v;
  try {
    const OwnKernels scope;
    v = verdict_on(pairs());
  } catch (const OutOfMemory&) {
    return false;  // the op itself needs less memory
  }
  if (!v.tells) return false;
  if (v.zero) {
    known_ = ++zeros_ == kMostZeros;
    return true;
  }
  known_ = true;
  refused_ = !(v.error <= terms.tolerance);
  if (refused_)
    log_text(Severity::warning,
             str(terms.library, ": ", text(), " differs from Mezzo's own kernel; got an error of ",
                 v.error, " of the largest result, expected at most ", terms.tolerance,
                 "; Mezzo's own kernel serves such calls"));
  return !refused_;
}

}  // namespace mezzo::gpu
