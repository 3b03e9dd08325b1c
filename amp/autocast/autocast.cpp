#include "autocast.h"

#include "../../tensor/text/text.h"

namespace mezzo::amp {

autocast::autocast(const AutocastOptions& options) {
  if (options.enabled && !is_low(options.dtype))
    fail<DtypeError>("autocast", {.what = "unsupported dtype",
                                  .got = str(options.dtype, ""),
                                  .expected = "f16 or bf16",
                                  .hint = "use disable_casts to switch casting off"});
  frame_ = {.enabled = options.enabled,
            .low = options.enabled ? options.dtype : f16,
            .cache_enabled = options.cache_enabled,
            .outer = nullptr};
  ThreadCasts::here().open(frame_);
}

autocast::~autocast() { ThreadCasts::here().close(frame_); }

}  // namespace mezzo::amp
