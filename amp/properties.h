// What a session runs with: the options of initialize, checked and merged with the level's properties.
// Sees: policy.h.
// Read next: properties.cpp (the checks), session.h (who uses them).
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy.h"

namespace mezzo::amp {

/** Leaves the model's parameters as they are, at every level. */
struct NoCast {};
inline constexpr NoCast no_cast{};

/** A dtype to convert a model to, or no_cast. */
class ModelCast {
 public:
  ModelCast(DType dtype) : dtype_(dtype) {}  // NOLINT: conversion is the point
  ModelCast(NoCast) {}                       // NOLINT
  /** Absent for no_cast. */
  std::optional<DType> dtype() const { return dtype_; }
  friend bool operator==(const ModelCast&, const ModelCast&) = default;

 private:
  std::optional<DType> dtype_;
};

/** A bool, or one of the strings "True" and "False". */
class KeepBatchNorm {
 public:
  template <std::same_as<bool> B>
  KeepBatchNorm(B on) : on_(on) {}  // NOLINT: bool alone, or a string literal would be one
  KeepBatchNorm(std::string text) : text_(std::move(text)) {}  // NOLINT
  KeepBatchNorm(const char* text) : text_(text) {}             // NOLINT
  /** Absent when it was given as text. */
  std::optional<bool> on() const { return on_; }
  const std::string& text() const { return text_; }

 private:
  std::optional<bool> on_;
  std::string text_;
};

/** A number, "dynamic", or a number as text. */
class LossScale {
 public:
  LossScale(double number) : number_(number) {}            // NOLINT
  LossScale(std::string text) : text_(std::move(text)) {}  // NOLINT
  LossScale(const char* text) : text_(text) {}             // NOLINT
  template <std::same_as<bool> B> LossScale(B) = delete;
  /** Absent when it was given as text. */
  std::optional<double> number() const { return number_; }
  const std::string& text() const { return text_; }

 private:
  std::optional<double> number_;
  std::string text_;
};

/** What initialize can be told. An empty optional means: as the level says. Nothing can be overridden to "unset". */
struct Options {
  bool enabled = true;  // false: every call of this room does nothing
  std::string opt_level = "O1";
  std::optional<ModelCast> cast_model_type = {};
  std::optional<bool> patch_functions = {};
  std::optional<KeepBatchNorm> keep_batchnorm_fp32 = {};
  std::optional<bool> master_weights = {};
  std::optional<LossScale> loss_scale = {};
  std::optional<DType> cast_model_outputs = {};  // empty: f32 where the model's inputs are cast
  int num_losses = 1;                            // number of loss scalers, up to 65536
  int verbosity = 1;                             // 0 silent, 1 normal, 2 every cast
  std::optional<double> min_loss_scale = {};     // dynamic scaling only
  double max_loss_scale = 0x1p24;                // dynamic scaling only
  int max_consecutive_skips = 50;                // then DivergenceError; 0: never
  bool check_static_overflow = false;            // a static scale skips overflowing steps too
  bool allow_incoming_model_not_fp32 = false;
};

/** The outcome: what a session runs with. */
struct Properties {
  bool enabled = true;
  const Level* level = nullptr;
  std::optional<ModelCast> cast_model_type;
  bool patch_functions = false;
  std::optional<bool> keep_batchnorm_fp32;
  std::optional<bool> master_weights;
  double loss_scale = 1;  // or kDynamic
  std::optional<DType> cast_model_outputs;
  int num_losses = 1;
  int verbosity = 1;
  std::optional<double> min_loss_scale;
  double max_loss_scale = 0x1p24;
  int max_consecutive_skips = 50;
  bool check_static_overflow = false;
  bool allow_incoming_model_not_fp32 = false;

  /** The dtype parameters are converted to, if any. */
  std::optional<DType> model_dtype() const {
    return cast_model_type ? cast_model_type->dtype() : std::nullopt;
  }
  bool dynamic() const { return loss_scale == kDynamic; }
  bool masters() const { return master_weights.value_or(false); }
};

/** Level defaults, then overrides, each checked as it is assigned; the first one that fails is reported. With `enabled` off nothing is looked at.
 *  Errors: ValueError. */
MZ_API Properties resolve(const Options& options);

/** What a level decides before any override. */
MZ_API Properties defaults_of(const Level& level);

/** The lines that initialize prints: level, defaults, overrides applied. */
MZ_API std::string explanation(const Properties& resolved);

/** The properties a level decides, by name, as explanation() prints them. Only for enabled ones. */
MZ_API std::vector<std::pair<std::string, std::string>> property_texts(const Properties& resolved);
/** The options beside them that the numbers of a training depend on. */
MZ_API std::vector<std::pair<std::string, std::string>> further_texts(const Properties& resolved);
/** "Overrides: loss_scale = 128.0, level says dynamic", or "Overrides: none": what differs from the level's own. */
MZ_API std::string overrides_text(const Properties& resolved);

/** A loss scale as printed: shortest decimal with at least one fractional digit, or "dynamic". */
MZ_API std::string scale_text(double scale);

}  // namespace mezzo::amp
