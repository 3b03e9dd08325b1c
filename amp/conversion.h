// What a session does to models: converts their tensors, surrounds their calls with casts, shows their state in f32; and undoes it.
// Sees: session_core.h.
// Read next: conversion.cpp.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "session_core.h"

namespace mezzo::amp {

/** Errors: DtypeError naming the first 16-bit parameter or buffer of a model that should come in f32. */
void check_incoming(const nn::Module& model);

/** The conversion of models, worked out before anything changes. */
class Conversion {
 public:
  Conversion(std::span<const nn::Module> models, const Properties& properties);

  /** Gives every tensor its converted elements; remembers those made 16-bit in core.lowered.
   *  Nothing has changed where it throws. */
  void apply(SessionCore& core) const;
  /** Gives every tensor back what it had. Needs no memory. */
  void undo() const;
  /** The f32 elements a parameter had before, undefined where it was not converted. */
  Tensor original(const Tensor& param) const;

 private:
  struct Change {
    Tensor leaf, original, converted, grad, converted_grad;
  };
  void plan_module(const nn::Module& module, DType dtype, bool keep_batchnorm);
  void plan_tensor(const Tensor& leaf, DType dtype);

  std::vector<Change> changes_;
  std::unordered_map<const TensorImpl*, std::size_t> index_;
};

/** The way back: every tensor that the session made 16-bit is f32 again, its master, where it has
 *  one. Worked out before anything changes. */
class Restoration {
 public:
  explicit Restoration(SessionCore& core);
  /** Needs no memory. */
  void apply() const;

 private:
  struct Original {
    Tensor leaf, value, grad;
  };
  SessionCore& core_;
  std::vector<Original> originals_;
};

/** Surrounds the calls of the models, and installs the rule by which their states are saved and loaded. */
void attach_models(const std::shared_ptr<SessionCore>& core);
/** Takes all of that off again. */
void detach_models(SessionCore& core) noexcept;

}  // namespace mezzo::amp
