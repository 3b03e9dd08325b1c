// The options of initialize, and Properties: the level's defaults merged with the checked options.
#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy.h"

namespace mezzo::amp {

/** Type of no_cast, which leaves the model's parameters as they are at every level. */
struct NoCast {};
/** The value of cast_model_type that leaves the parameters as they are. */
inline constexpr NoCast no_cast{};

/** Option value: a dtype to convert the model to, or no_cast. */
class ModelCast {
 public:
  /** Converts the model to `dtype`. */
  ModelCast(DType dtype) : dtype_(dtype) {}  // NOLINT: conversion is the point
  /** Leaves the model as it is. */
  ModelCast(NoCast) {}  // NOLINT
  /** The dtype; empty for no_cast. */
  std::optional<DType> dtype() const { return dtype_; }
  friend bool operator==(const ModelCast&, const ModelCast&) = default;

 private:
  std::optional<DType> dtype_;
};

/** Option value: a bool, or one of the strings "True" and "False". */
class KeepBatchNorm {
 public:
  /** Takes a bool. */
  template <std::same_as<bool> B>
  KeepBatchNorm(B on) : on_(on) {}  // NOLINT: only bool; a string literal would convert to bool
  /** Takes a text, which resolve() checks. */
  KeepBatchNorm(std::string text) : text_(std::move(text)) {}  // NOLINT
  /** As above. */
  KeepBatchNorm(const char* text) : text_(text) {}  // NOLINT
  /** The bool; empty if the value was given as text. */
  std::optional<bool> on() const { return on_; }
  /** The text; empty if the value was given as a bool. */
  const std::string& text() const { return text_; }

 private:
  std::optional<bool> on_;
  std::string text_;
};

/** Option value: a number, "dynamic", or a number as text. */
class LossScale {
 public:
  /** Takes a static scale, which resolve() checks. */
  LossScale(double number) : number_(number) {}  // NOLINT
  /** Takes a text, which resolve() checks. */
  LossScale(std::string text) : text_(std::move(text)) {}  // NOLINT
  /** As above. */
  LossScale(const char* text) : text_(text) {}  // NOLINT
  /** A bool is not a scale. */
  template <std::same_as<bool> B> LossScale(B) = delete;
  /** The number; empty if the value was given as text. */
  std::optional<double> number() const { return number_; }
  /** The text; empty if the value was given as a number. */
  const std::string& text() const { return text_; }

 private:
  std::optional<double> number_;
  std::string text_;
};

/** Options of initialize. An empty optional takes the level's default; no option can be set to
 *  "unset". */
struct Options {
  bool enabled = true;  // false: calls into amp do nothing
  /** The level, "O0" to "O5"; see kLevels. */
  std::string opt_level = "O1";
  std::optional<ModelCast> cast_model_type = {};  // dtype of the model's parameters and buffers
  std::optional<bool> patch_functions = {};       // whether ops cast their inputs
  std::optional<KeepBatchNorm> keep_batchnorm_fp32 = {};  // whether batch norms stay f32
  std::optional<bool> master_weights = {};       // whether 16-bit parameters get f32 masters
  std::optional<LossScale> loss_scale = {};      // a static scale or "dynamic"
  std::optional<DType> cast_model_outputs = {};  // empty: f32 where the model's inputs are cast
  int num_losses = 1;                            // number of loss scalers, up to 65536
  int verbosity = 1;                             // 0 silent, 1 normal, 2 options and every cast
  std::optional<double> min_loss_scale = {};     // dynamic scaling only
  double max_loss_scale = 0x1p24;                // dynamic scaling only
  int max_consecutive_skips = 50;                // then DivergenceError; 0: never one
  bool check_static_overflow = false;            // a static scale skips overflowing steps too
  bool allow_incoming_model_not_fp32 = false;    // accept models with 16-bit parameters
};

/** What a session runs with: the result of resolve(). The fields mean what those of Options do. */
struct Properties {
  bool enabled = true;                       // false: the other fields have these defaults
  const Level* level = nullptr;              // an element of kLevels; null if disabled
  std::optional<ModelCast> cast_model_type;  // empty at levels that cast ops, unless set
  bool patch_functions = false;              // ops cast their inputs according to their tags
  std::optional<bool> keep_batchnorm_fp32;   // batch norms stay f32; empty at levels that cast ops
  std::optional<bool> master_weights;        // f32 masters; empty at levels that cast ops
  double loss_scale = 1;                     // a static scale, or kDynamic
  std::optional<DType> cast_model_outputs;   // empty: f32 where the model's inputs are cast
  int num_losses = 1;                        // number of loss scalers, 1 to 65536
  int verbosity = 1;                         // 0 silent, 1 normal, 2 every cast
  std::optional<double> min_loss_scale;      // lower bound of a dynamic scale
  double max_loss_scale = 0x1p24;            // upper bound of a dynamic scale
  int max_consecutive_skips = 50;            // then DivergenceError; 0: never
  bool check_static_overflow = false;        // a static scale skips overflowing steps too
  bool allow_incoming_model_not_fp32 = false;  // accept models with 16-bit parameters

  /** The dtype that parameters are converted to; empty if they are not converted. */
  std::optional<DType> model_dtype() const {
    return cast_model_type ? cast_model_type->dtype() : std::nullopt;
  }
  /** True for dynamic loss scaling. */
  bool dynamic() const { return loss_scale == kDynamic; }
  /** True if 16-bit parameters get f32 masters. */
  bool masters() const { return master_weights.value_or(false); }
};

/** Merges the level's defaults with the options. Checks each option as it is assigned and reports
 *  the first invalid one. With `enabled` false nothing is checked. Errors: ValueError. */
MZ_API Properties resolve(const Options& options);

/** Returns a level's defaults, without any override. */
MZ_API Properties defaults_of(const Level& level);

/** Returns the line that initialize prints at verbosity 1: the level, what it does on a device, and
 *  the options that are not the level's. Requires enabled properties. */
MZ_API std::string headline(const Properties& resolved, Device device);
/** Returns the level and a table of the options that it decides, after overrides. Requires enabled
 *  properties. */
MZ_API std::string explanation(const Properties& resolved);

/** Returns names and values of the properties that a level decides, as explanation() prints them.
 *  Requires enabled properties. */
MZ_API std::vector<std::pair<std::string, std::string>> property_texts(const Properties& resolved);
/** Returns names and values of the other options that the numbers of a training depend on. */
MZ_API std::vector<std::pair<std::string, std::string>> further_texts(const Properties& resolved);
/** Returns all of these by name; of disabled properties only that they are. */
MZ_API std::map<std::string, std::string> texts_of(const Properties& resolved);
/** The differences between two texts_of(), and what they do to a state that was saved before. */
struct OptionChanges {
  std::string text;           // `loss_scale was "dynamic" and is "1.0" now`; empty if equal
  bool drops_masters = true;  // of the saved state
  bool drops_scales = true;   // of the saved state
};
/** Compares two texts_of(). */
MZ_API OptionChanges option_changes(std::map<std::string, std::string> was,
                                    std::map<std::string, std::string> is);
/** Returns what differs from the level's defaults: "Overrides: loss_scale = 128.0, level says
 *  dynamic", or "Overrides: none". */
MZ_API std::string overrides_text(const Properties& resolved);

/** Formats a loss scale: the shortest decimal with at least one fractional digit, or "dynamic". */
MZ_API std::string scale_text(double scale);

}  // namespace mezzo::amp
