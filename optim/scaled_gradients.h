// Gradients that are still multiplied by a loss scale: LateGradient, which is divided by it when it
// is read, or in the update; and what clipping asks mixed precision, which depends on this folder.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "../tensor/device/capture.h"
#include "../tensor/memory/storage.h"
#include "step/tensor_list.h"

namespace mezzo::optim {

class LateGradients;

/** The write of a gradient that is not unscaled yet: a factor times x, which is another tensor (the
 *  gradient of a 16-bit parameter), or the gradient itself. Runs when the gradient is first read;
 * an update reads x instead. */
class LateGradient final : public LateWrite, public std::enable_shared_from_this<LateGradient> {
 public:
  /** Use LateGradients::add(). */
  LateGradient(std::shared_ptr<LateGradients> scope, const Tensor& x, bool in_place);
  /** Returns the write of a gradient that has not run; null if there is none. */
  static std::shared_ptr<LateGradient> of(const Tensor& grad);

  /** Returns the scope whose factor unscales it. */
  LateGradients& scope() const { return *scope_; }
  /** Makes the gradient late: the next use of its memory, or of that of x, writes it first.
   *  Allocates nothing. */
  void arm();
  /** Returns x, whose memory can be read as it is until close() is called. */
  Tensor open(const Tensor& grad);
  /** Ends open(). Allocates nothing. */
  void close();
  void run(Storage& storage) override;

 private:
  friend class LateGradients;
  friend class CapturedGradients;
  bool is_pending() const { return result_->late_write().get() == this; }

  std::shared_ptr<LateGradients> scope_;
  Tensor x_;                          // undefined in place
  std::shared_ptr<LateWrite> guard_;  // the late write of x
  Storage* result_;                   // owns this object
  DType dtype_;                       // of the result
  std::int64_t numel_, offset_;       // its elements in the storage
};

/** The late gradients of one scope, with their factor. When one is read all are written, in one
 *  pass. In a captured step they are late again after each replay. */
class LateGradients final : public std::enable_shared_from_this<LateGradients> {
 public:
  /** `factor` unscales gradients on `device`. If it refers to a `scale` (f64, one element), it may
   *  be used until `is_current` has expired, because the scale changes then; `scale` must be one
   *  that f32 holds. Errors: OutOfMemory. */
  LateGradients(Device device, const Factor& factor, const Tensor& scale,
                std::weak_ptr<void> is_current);

  /** Returns true if x can stay scaled until the gradient `like`, which may be x, is read: dense,
   *  in one layout with it, and used by nothing else. */
  bool takes(const Tensor& x, const Tensor& like) const;
  /** Adds a gradient that is x times the factor: like the master, if that is defined, in memory
   * that is allocated when it is read; else in place. Returns it with its write, on which arm() has
   * to be called. Errors: OutOfMemory. */
  std::pair<Tensor, std::shared_ptr<LateGradient>> add(const Tensor& x, const Tensor& master = {});
  /** Returns the copy of the scale that has to be made in the scope; nothing if none is needed. */
  std::optional<AxpbyTensors> copy_of_scale() const;
  /** Returns the factor for an update that reads the scaled gradients; nothing if the scale may
   * have changed, or if an update that is being captured would read gradients from before. */
  std::optional<Factor> factor() const;

 private:
  friend class LateGradient;
  friend class CapturedGradients;
  void write(const std::shared_ptr<LateGradient>& late);
  void write_all();

  Device device_;
  Factor factor_;
  Tensor scale_;  // that the factor refers to; undefined: none
  Tensor copy_;   // f32: the scale of the scope, for reads after it has changed
  std::weak_ptr<void> is_current_;
  Capture* capture_;  // in progress since the scope; null: none
  std::vector<std::weak_ptr<LateGradient>> all_;
  std::vector<std::shared_ptr<LateGradient>> writing_;  // by a write() in progress
  std::size_t next_ = 0;                                // index in all_ of the next of these
};

// ---- clipping -----------------------------------------------------------------------------------

/** Makes `factor` clip the gradients times `factor`, as one vector, to max_norm. It points to their
 *  p-norm in the returned tensor (f64, 0-dim), which must outlive it. Errors: as norms(). */
[[nodiscard]] Tensor clip_by_norm(std::span<const Tensor> grads, double max_norm, Factor& factor,
                                  double p = 2);

/** Sets the function that clipping calls with its name and each parameter or master. It throws for
 *  a gradient that an open scope will unscale, and logs one that a GradScaler has not unscaled.
 *  Called by mixed precision when it first scales a loss. */
MZ_API void set_clip_check(void (*check)(std::string_view op, const Tensor& leaf)) noexcept;

}  // namespace mezzo::optim
