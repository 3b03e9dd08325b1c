// autocast: a guard under which ops cast their inputs according to their precision tags.
#pragma once

#include "casting.h"

namespace mezzo::amp {

/** Options of autocast. */
struct AutocastOptions {
  DType dtype = f16;          // f16 or bf16: the type of matrix products and convolutions
  bool enabled = true;        // false: casts are off until the end of the scope
  bool cache_enabled = true;  // cache the casts of weights until the outermost guard closes
};

/** Makes the ops of this thread cast their inputs according to their tags until the end of the
 *  scope: matrix products and convolutions to `dtype`; exponentials, sums and losses to f32.
 *  Guards of all kinds nest and close in reverse order of opening. The backward pass never casts.
 *  Errors: DtypeError for an enabled guard whose dtype is not f16 or bf16. */
class MZ_API autocast {
 public:
  /** Opens the guard on the calling thread. Errors: those of the class; nothing is open then. */
  explicit autocast(const AutocastOptions& options = {});
  ~autocast();
  autocast(const autocast&) = delete;
  autocast& operator=(const autocast&) = delete;

  /** Returns whether casts are active on this thread, through a guard or a session. */
  static bool is_enabled() { return ThreadCasts::here().state().active; }
  /** Returns the 16-bit type in force; f16 where casts are off. */
  static DType dtype() { return ThreadCasts::here().state().low; }
  /** Returns the number of guards open on this thread. */
  static int depth() { return ThreadCasts::here().depth(); }

 private:
  GuardFrame frame_;
};

/** Switches casts off until the end of the scope; has no effect where they are off. 16-bit
 *  tensors keep their dtype: convert them with x.to(f32). */
class MZ_API disable_casts : autocast {
 public:
  disable_casts() : autocast({.enabled = false}) {}
};

}  // namespace mezzo::amp
