// autocast: the guard under which ops cast their inputs by their precision tags.
// Sees: casting.h.
// Read next: policy.h (tag -> action), casting.cpp (the casts).
#pragma once

#include "casting.h"

namespace mezzo::amp {

struct AutocastOptions {
  DType dtype = f16;          // f16 or bf16: what matrix products and convolutions run in
  bool enabled = true;        // false: casts are off until the end of the scope
  bool cache_enabled = true;  // casts of weights are kept until the outermost guard closes
};

/** From here to the end of the scope, ops on this thread cast their inputs as their tags say: matrix products and convolutions to `dtype`,
 *  exponentials, sums and losses to f32. Guards nest in any mixture and close in reverse order. Backward never casts.
 *  Errors: DtypeError for an enabled guard whose dtype is not f16 or bf16. */
class MZ_API autocast {
 public:
  explicit autocast(const AutocastOptions& options = {});
  ~autocast();
  autocast(const autocast&) = delete;
  autocast& operator=(const autocast&) = delete;

  /** Whether the next op on this thread casts, be it for a guard or for a session. */
  static bool is_enabled() { return ThreadCasts::here().state().active; }
  /** The 16-bit type in force; f16 where casts are off. */
  static DType dtype() { return ThreadCasts::here().state().low; }
  /** Number of guards open on this thread. */
  static int depth() { return ThreadCasts::here().depth(); }

 private:
  GuardFrame frame_;
};

/** No op casts until the end of the scope; harmless where none would. Tensors that are 16-bit already stay so: widen them with x.to(f32). */
class MZ_API disable_casts : autocast {
 public:
  disable_casts() : autocast({.enabled = false}) {}
};

}  // namespace mezzo::amp
