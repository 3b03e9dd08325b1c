#include "options.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "../tensor/device/cpu_isa.h"
#include "../tensor/io/utf8.h"
#include "../tensor/text/text.h"
#include "session_core.h"

namespace mezzo::amp {

namespace {

[[noreturn]] void refuse(std::string_view property, const std::string& what, const std::string& got,
                         const std::string& expected, const std::string& hint = {}) {
  fail<ValueError>(
      kInitialize,
      {.what = str(property, ": ", what), .got = got, .expected = expected, .hint = hint});
}

std::string in_quotes(std::string_view text) { return str("\"", text, "\""); }

/** Returns the names of the levels of which `f` returns true, as "O1, O2 or O3". */
template <class F> std::string levels_where(const F& f) {
  std::vector<std::string_view> names;
  for (const Level& level : kLevels)
    if (f(level)) names.push_back(level.name);
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += str(i == 0 ? "" : i + 1 < names.size() ? ", " : " or ", names[i]);
  return out;
}

/** Returns true if a level converts the model to 16 bits. */
bool converts_model(const Level& level) { return is_low(level.cast_model_type.value_or(f32)); }

/** Returns why a property cannot be set at a level that casts ops instead of the model. */
std::string at_level(const Level& level) {
  return str(level.name, " casts ops and leaves the model in f32");
}

ModelCast checked_model_cast(const Level& level, const ModelCast& value) {
  const std::optional<DType> dtype = value.dtype();
  if (!dtype) return value;
  if (!eligible(*dtype))
    refuse("cast_model_type", "unsupported model dtype", str(*dtype, ""),
           "f16, bf16, f32 or no_cast");
  if (level.patch_functions && *dtype != f32)
    refuse("cast_model_type", at_level(level), str(*dtype, ""), "f32 or no_cast",
           str("use ", levels_where(converts_model), " to convert the model"));
  return value;
}

bool checked_patch(const Level& level, bool value) {
  if (value && !level.patch_functions)
    refuse("patch_functions", str(level.name, " converts the model and leaves ops alone"), "true",
           "false",
           str("use ", levels_where([](const Level& one) { return one.patch_functions; })));
  return value;
}

bool checked_keep(const Level& level, const KeepBatchNorm& value) {
  if (!value.on() && value.text() != "True" && value.text() != "False")
    refuse("keep_batchnorm_fp32", "not a boolean", in_quotes(value.text()),
           "true, false, \"True\" or \"False\"");
  const bool on = value.on().value_or(value.text() == "True");
  if (level.patch_functions)
    refuse("keep_batchnorm_fp32", at_level(level), str(on, ""), "no value",
           "the model, including batch norm, stays f32");
  return on;
}

bool checked_masters(const Level& level, bool value) {
  if (level.patch_functions)
    refuse("master_weights", at_level(level), str(value, ""), "no value",
           "the parameters stay f32");
  return value;
}

LossScale checked_scale(const Level&, const LossScale& value) {
  double number = value.number().value_or(0);
  if (!value.number()) {
    const std::string& text = value.text();
    if (text == "dynamic") return value;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || stop != end)
      refuse("loss_scale", "neither \"dynamic\" nor a number", in_quotes(text),
             "\"dynamic\" or a positive number");
  }
  if (!std::isfinite(number) || number <= 0)
    refuse("loss_scale", "must be finite and positive", str(number),
           "\"dynamic\" or a positive number");
  if (!is_usable_scale(number))
    refuse("loss_scale", "is out of the range of f32", str(number),
           "\"dynamic\" or a number from 2^-126 to 3.4e38");
  return number;
}

void check_outputs(DType value) {
  if (!eligible(value))
    refuse("cast_model_outputs", "unsupported output dtype", str(value, ""), "f16, bf16 or f32");
}

void check_bound(std::string_view property, double value) {
  if (!std::isfinite(value) || value <= 0)
    refuse(property, "must be finite and positive", str(value), "a positive number");
}

void check_bounds(const Options& options) {
  const std::optional<double>& least = options.min_loss_scale;
  if (least) check_bound("min_loss_scale", *least);
  check_bound("max_loss_scale", options.max_loss_scale);
  if (least && *least > options.max_loss_scale)
    refuse("min_loss_scale", "above max_loss_scale", str(*least, " > ", options.max_loss_scale),
           "min <= max");
}

void check_counts(const Options& options) {
  if (options.num_losses < 1)
    refuse("num_losses", "too few losses", str(options.num_losses), "at least 1");
  constexpr int kMostLosses = 1 << 16;  // each has a scaler in memory and in checkpoints
  if (options.num_losses > kMostLosses)
    refuse("num_losses", "too many losses", str(options.num_losses), str("at most ", kMostLosses));
  check_bounds(options);
  if (options.max_consecutive_skips < 0)
    refuse("max_consecutive_skips", "must not be negative", str(options.max_consecutive_skips),
           "0 (never) or a count");
}

template <class T> std::string text_of(const std::optional<T>& value) {
  return value ? str(*value, "") : "unset";
}

std::string text_of(const std::optional<ModelCast>& value) {
  if (!value) return "unset";
  return value->dtype() ? str(*value->dtype(), "") : "no_cast";
}

std::string table(const Options& p) {
  std::string out;
  for (auto [name, value] : property_texts(p)) {
    name.resize(22, ' ');
    out += str("\n", name, " : ", value);
  }
  return out;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> property_texts(const Options& options) {
  const Options p = resolve(options);
  return {{"enabled", str(p.enabled, "")},
          {"opt_level", p.opt_level},
          {"cast_model_type", text_of(p.cast_model_type)},
          {"patch_functions", str(p.casts_ops(), "")},
          {"keep_batchnorm_fp32", p.keep_batchnorm_fp32 ? str(p.keeps_batchnorm(), "") : "unset"},
          {"master_weights", text_of(p.master_weights)},
          {"loss_scale", scale_text(p.scale())}};
}

std::vector<std::pair<std::string, std::string>> further_texts(const Options& options) {
  const Options p = resolve(options);
  return {{"cast_model_outputs", text_of(p.cast_model_outputs)},
          {"num_losses", str(p.num_losses)},
          {"min_loss_scale", text_of(p.min_loss_scale)},
          {"max_loss_scale", str(p.max_loss_scale)},
          {"check_static_overflow", str(p.check_static_overflow, "")}};
}

std::map<std::string, std::string> texts_of(const Options& p) {
  if (!p.enabled) return {{"enabled", "false"}};
  std::map<std::string, std::string> out;
  for (const auto& texts : {property_texts(p), further_texts(p)})
    out.insert(texts.begin(), texts.end());
  return out;
}

OptionChanges option_changes(std::map<std::string, std::string> was,
                             std::map<std::string, std::string> is) {
  std::map<std::string, std::pair<std::string, std::string>> both;
  for (const auto& [name, value] : was) both[name].first = value;
  for (const auto& [name, value] : is) both[name].second = value;
  const auto text = [](const std::string& value) {
    return value.empty() ? "not there" : io::quote(value);
  };
  OptionChanges out;
  for (const auto& [name, values] : both)
    if (values.first != values.second)
      out.text += str(out.text.empty() ? "" : ", ", name, " was ", text(values.first), " and is ",
                      text(values.second), " now");
  const std::string dynamic = scale_text(kDynamic);
  out.drops_masters = was["master_weights"] == "true" && is["master_weights"] != "true";
  out.drops_scales =
      !out.text.empty() && !(was["loss_scale"] == dynamic && is["loss_scale"] == dynamic);
  return out;
}

std::string scale_text(double scale) {
  if (scale == kDynamic) return "dynamic";
  // Large and small scales use exponents to avoid many digits: 100000.0, but 1e-40.
  if (scale < 1e-4 || scale >= 1e16) return str(scale);
  char digits[64];
  std::string text(
      digits, std::to_chars(digits, digits + sizeof digits, scale, std::chars_format::fixed).ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

const Level& Options::level() const {
  if (const Level* level = find_level(opt_level)) return *level;
  std::string hint = "levels are written with the letter O, not zero";
  if (opt_level.size() == 2 && (opt_level[0] == '0' || opt_level[0] == 'o'))
    if (const Level* meant = find_level(str('O', opt_level[1])))
      hint = str("did you mean ", in_quotes(meant->name), "? the letter O, not zero");
  fail<ValueError>(kInitialize, {.what = "unknown opt_level",
                                 .got = in_quotes(opt_level),
                                 .expected = str(kLevels.front().name, "..", kLevels.back().name),
                                 .hint = hint});
}

Options defaults_of(const Level& level) {
  Options p{.opt_level = std::string(level.name), .patch_functions = level.patch_functions};
  if (level.cast_model_type) p.cast_model_type = *level.cast_model_type;
  if (level.keep_batchnorm_fp32) p.keep_batchnorm_fp32 = *level.keep_batchnorm_fp32;
  p.master_weights = level.master_weights;
  p.loss_scale = level.loss_scale == kDynamic ? LossScale("dynamic") : LossScale(level.loss_scale);
  return p;
}

Options resolve(const Options& options) {
  if (!options.enabled) return {.enabled = false};
  const Level& level = options.level();
  const Options of_level = defaults_of(level);
  Options p = options;
  const auto choose = [&](auto Options::* field, const auto& check) {
    if (options.*field)
      p.*field = check(level, *(options.*field));
    else
      p.*field = of_level.*field;
  };
  choose(&Options::cast_model_type, checked_model_cast);
  choose(&Options::patch_functions, checked_patch);
  choose(&Options::keep_batchnorm_fp32, checked_keep);
  choose(&Options::master_weights, checked_masters);
  choose(&Options::loss_scale, checked_scale);
  if (options.cast_model_outputs) check_outputs(*options.cast_model_outputs);
  check_counts(options);
  return p;
}

std::string explanation(const Options& resolved) {
  return str("Selected optimization level ", resolved.level().name, ":  ", resolved.level().text,
             table(resolved));
}

namespace {

/** Returns what products in 16 bits gain on a device; nothing for a level without them. */
std::string gain_text(const Options& p, Device device) {
  const std::optional<DType> low = p.casts_ops() ? p.level().low : p.model_dtype();
  if (!low || !is_low(*low)) return {};
  return emulates_products(*low, device)
             ? str(" ", *low, " products are computed in f32 here: no faster than O0.")
             : str(" ", *low, " products are faster than f32 here.");
}

}  // namespace

std::string headline(const Options& options, Device device) {
  const Options resolved = resolve(options);
  std::string out = str("amp ", resolved.level().name, " on ", device, ": ", resolved.level().text,
                        gain_text(resolved, device));
  const Options of_level = defaults_of(resolved.level());
  const char* separator = " Overridden: ";
  for (const auto texts : {&property_texts, &further_texts}) {
    const auto defaults = texts(of_level), now = texts(resolved);
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (now[i].second == defaults[i].second) continue;
      out += str(std::exchange(separator, ", "), now[i].first, " = ", now[i].second);
    }
  }
  return out;
}

std::string overrides_text(const Options& resolved) {
  const auto of_level = property_texts(defaults_of(resolved.level())),
             now = property_texts(resolved);
  std::string out;
  for (std::size_t i = 0; i < now.size(); ++i)
    if (now[i].second != of_level[i].second)
      out += str(out.empty() ? "Overrides: " : "; ", now[i].first, " = ", now[i].second,
                 ", level says ", of_level[i].second);
  return out.empty() ? "Overrides: none" : out;
}

}  // namespace mezzo::amp
