// The options of initialize, and how they are merged with the level's defaults.
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
 *  "unset". A session runs with the result of resolve(), which has the level's defaults. */
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

  /** The level. Errors: ValueError if opt_level names none. */
  MZ_API const Level& level() const;
  /** The dtype that parameters are converted to; empty if they are not converted. This and what
   *  follows read the fields as they are, so ask the result of resolve(). */
  std::optional<DType> model_dtype() const {
    return cast_model_type ? cast_model_type->dtype() : std::nullopt;
  }
  /** True if ops cast their inputs according to their tags. */
  bool casts_ops() const { return patch_functions.value_or(false); }
  /** True if batch norms of a converted model stay f32. */
  bool keeps_batchnorm() const {
    return keep_batchnorm_fp32 &&
           keep_batchnorm_fp32->on().value_or(keep_batchnorm_fp32->text() == "True");
  }
  /** True if 16-bit parameters get f32 masters. */
  bool masters() const { return master_weights.value_or(false); }
  /** True for dynamic loss scaling. */
  bool dynamic() const { return loss_scale && loss_scale->text() == "dynamic"; }
  /** The static scale, 1 if unset; kDynamic for dynamic loss scaling. */
  double scale() const {
    return dynamic() ? kDynamic : loss_scale ? loss_scale->number().value_or(1) : 1;
  }
};

/** Merges the level's defaults with the options. Checks each option as it is assigned and reports
 *  the first invalid one. In the result texts are bools and numbers, "dynamic" excepted, and what
 *  the level leaves open is empty: at levels that cast ops the options of a converted model. With
 *  `enabled` false nothing is checked, and the other fields have their defaults. Errors:
 * ValueError.
 */
MZ_API Options resolve(const Options& options);

/** Returns a level's defaults, without any override. */
MZ_API Options defaults_of(const Level& level);

// Functions of options resolve them first, and throw as resolve() does.

/** Returns the line that initialize prints at verbosity 1: the level, what it does on a device, and
 *  the options that are not the level's. Requires enabled options. */
MZ_API std::string headline(const Options& options, Device device);
/** Returns the level and a table of the options that it decides, after overrides. Requires enabled
 *  options. */
MZ_API std::string explanation(const Options& options);

/** Returns names and values of the options that a level decides, as explanation() prints them.
 *  Requires enabled options. */
MZ_API std::vector<std::pair<std::string, std::string>> property_texts(const Options& options);
/** Returns names and values of the other options that the numbers of a training depend on. */
MZ_API std::vector<std::pair<std::string, std::string>> further_texts(const Options& options);
/** Returns all of these by name; of disabled options only that they are. */
MZ_API std::map<std::string, std::string> texts_of(const Options& options);
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
MZ_API std::string overrides_text(const Options& options);

/** Formats a loss scale: the shortest decimal with at least one fractional digit, or "dynamic". */
MZ_API std::string scale_text(double scale);

}  // namespace mezzo::amp
