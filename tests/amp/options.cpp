#include <mezzo.h>

#include <limits>

#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/throws.h"

using namespace mezzo;

namespace {

/** Returns the levels that cast ops, or the others. */
std::vector<const char*> casting_ops(bool cast) {
  std::vector<const char*> out;
  for (const amp::Level& level : amp::kLevels)
    if (level.patch_functions == cast) out.push_back(level.name.data());
  return out;
}

const std::vector<const char*> kAll = levels::names();
const std::vector<const char*> kCastOps = casting_ops(true), kCastModel = casting_ops(false);

amp::Options at(const char* level) {
  amp::Options options;
  options.opt_level = level;
  return options;
}

template <class Set> amp::Options level_with(const char* level, const Set& set) {
  amp::Options options = at(level);
  set(options);
  return options;
}

}  // namespace

TEST_CASE("levels come with their defaults") {
  for (const char* level : kAll) {
    const amp::Options p = amp::resolve(at(level));
    const amp::Level& of = p.level();
    CHECK(of.name == level);
    CHECK(p.opt_level == level);
    CHECK(p.patch_functions == of.patch_functions);
    CHECK(p.casts_ops() == of.patch_functions);
    CHECK(p.model_dtype() == of.cast_model_type);
    CHECK(p.keep_batchnorm_fp32.has_value() == of.keep_batchnorm_fp32.has_value());
    CHECK(p.keeps_batchnorm() == of.keep_batchnorm_fp32.value_or(false));
    CHECK(p.master_weights == of.master_weights);
    CHECK(p.scale() == of.loss_scale);
    CHECK(p.dynamic() == (of.loss_scale == amp::kDynamic));
    // The result can be resolved again, and what takes options resolves them.
    CHECK(amp::texts_of(amp::resolve(p)) == amp::texts_of(p));
    CHECK(amp::texts_of(at(level)) == amp::texts_of(p));
    CHECK(amp::headline(at(level), cpu) == amp::headline(p, cpu));
    CHECK(amp::LossScaler(at(level)).loss_scale() == amp::LossScaler(p).loss_scale());
    CHECK(p.num_losses == 1);
    CHECK(p.max_loss_scale == 16777216);
  }
}

TEST_CASE("unknown levels are refused, with a hint about the letter O") {
  CHECK_THROWS_WITH(
      amp::resolve(at("01")),
      "amp::initialize: unknown opt_level; got \"01\", expected O0..O5; did you mean \"O1\"? the "
      "letter O, not zero");
  CHECK_THROWS_WITH_AS_TEXT(amp::resolve(at("o2")), ValueError, "did you mean \"O2\"?");
  for (const char* level : {"", "O", "O6", "O1 ", "1", "06", "fp16"})
    CHECK_THROWS_WITH_AS_TEXT(amp::resolve(at(level)), ValueError, "the letter O, not zero");
}

TEST_CASE("cast_model_type") {
  for (const char* level : kCastOps) {
    for (const DType t : {f16, bf16})
      CHECK_THROWS_WITH_AS_TEXT(
          amp::resolve(level_with(level, [&](amp::Options& o) { o.cast_model_type = t; })),
          ValueError, "cast_model_type");
    CHECK(amp::resolve(level_with(level, [](amp::Options& o) {
            o.cast_model_type = f32;
          })).model_dtype() == f32);
    CHECK_FALSE(amp::resolve(level_with(level, [](amp::Options& o) {
                  o.cast_model_type = amp::no_cast;
                })).model_dtype());
  }
  for (const char* level : kCastModel) {
    for (const DType t : {f16, bf16, f32})
      CHECK(amp::resolve(level_with(level, [&](amp::Options& o) {
              o.cast_model_type = t;
            })).model_dtype() == t);
    CHECK_FALSE(amp::resolve(level_with(level, [](amp::Options& o) {
                  o.cast_model_type = amp::no_cast;
                })).model_dtype());
  }
  for (const char* level : kAll)
    for (const DType t : {f64, i64, boolean})
      CHECK_THROWS_AS(
          amp::resolve(level_with(level, [&](amp::Options& o) { o.cast_model_type = t; })),
          ValueError);
}

TEST_CASE("patch_functions") {
  for (const char* level : kCastModel) {
    CHECK_THROWS_AS(
        amp::resolve(level_with(level, [](amp::Options& o) { o.patch_functions = true; })),
        ValueError);
    CHECK_FALSE(amp::resolve(level_with(level, [](amp::Options& o) {
                  o.patch_functions = false;
                })).casts_ops());
  }
  for (const char* level : kCastOps)
    CHECK_FALSE(amp::resolve(level_with(level, [](amp::Options& o) {
                  o.patch_functions = false;
                })).casts_ops());
}

TEST_CASE("keep_batchnorm_fp32") {
  for (const char* level : kCastOps) {
    for (const bool on : {false, true})
      CHECK_THROWS_AS(
          amp::resolve(level_with(level, [&](amp::Options& o) { o.keep_batchnorm_fp32 = on; })),
          ValueError);
    CHECK_THROWS_AS(
        amp::resolve(level_with(level, [](amp::Options& o) { o.keep_batchnorm_fp32 = "False"; })),
        ValueError);
  }
  for (const char* level : kCastModel) {
    CHECK(amp::resolve(level_with(level, [](amp::Options& o) {
            o.keep_batchnorm_fp32 = "True";
          })).keeps_batchnorm());
    CHECK_FALSE(amp::resolve(level_with(level, [](amp::Options& o) {
                  o.keep_batchnorm_fp32 = "False";
                })).keeps_batchnorm());
    CHECK(amp::resolve(level_with(level, [](amp::Options& o) {
            o.keep_batchnorm_fp32 = true;
          })).keeps_batchnorm());
    for (const char* text : {"true", "", "1", "TRUE"})
      CHECK_THROWS_AS(
          amp::resolve(level_with(level, [&](amp::Options& o) { o.keep_batchnorm_fp32 = text; })),
          ValueError);
  }
}

TEST_CASE("master_weights") {
  for (const bool on : {false, true}) {
    for (const char* level : kCastOps)
      CHECK_THROWS_AS(
          amp::resolve(level_with(level, [&](amp::Options& o) { o.master_weights = on; })),
          ValueError);
    for (const char* level : kCastModel)
      CHECK(amp::resolve(level_with(level, [&](amp::Options& o) {
              o.master_weights = on;
            })).masters() == on);
  }
}

TEST_CASE("loss_scale") {
  const auto scale = [](amp::LossScale value) {
    return amp::resolve(level_with("O0", [&](amp::Options& o) { o.loss_scale = value; })).scale();
  };
  CHECK(scale("dynamic") == amp::kDynamic);
  CHECK(scale(128) == 128);
  CHECK(scale("128.0") == 128);
  CHECK(scale("1e3") == 1000);
  for (const char* text : {"Dynamic", "", "128x", " 128", "nan", "inf", "-1", "0"})
    CHECK_THROWS_AS(scale(text), ValueError);
  for (const double value : {0.0, -1.0, std::nan(""), HUGE_VAL})
    CHECK_THROWS_AS(scale(value), ValueError);
}

TEST_CASE("static scales that f32 cannot use are refused, as GradScaler refuses them") {
  for (const double scale : {1e-300, 1e-40, 0x1p-127, 1e39, 1e300}) {
    INFO(scale);
    CHECK_THROWS_WITH_AS_TEXT(
        amp::resolve(level_with("O2", [&](amp::Options& o) { o.loss_scale = scale; })), ValueError,
        "out of the range of f32");
    CHECK_THROWS_AS(amp::GradScaler({.init_scale = scale}), ValueError);
  }
  for (const double scale : {0x1p-126, 3e38}) {
    CHECK(amp::resolve(level_with("O2", [&](amp::Options& o) { o.loss_scale = scale; })).scale() ==
          scale);
    CHECK_NOTHROW(amp::GradScaler({.init_scale = scale}));
  }
}

TEST_CASE("scales are printed in full unless they have too many digits") {
  CHECK(amp::scale_text(amp::kDynamic) == "dynamic");
  CHECK(amp::scale_text(1) == "1.0");
  CHECK(amp::scale_text(32768) == "32768.0");
  CHECK(amp::scale_text(100000) == "100000.0");
  CHECK(amp::scale_text(0.3) == "0.3");
  CHECK(amp::scale_text(49999.5) == "49999.5");
  CHECK(amp::scale_text(0x1p-126) == "1.1754943508222875e-38");
}

TEST_CASE("the other options") {
  const auto refused = [](auto set) {
    CHECK_THROWS_AS(amp::resolve(level_with("O1", set)), ValueError);
  };
  refused([](amp::Options& o) { o.cast_model_outputs = f64; });
  refused([](amp::Options& o) { o.cast_model_outputs = i64; });
  refused([](amp::Options& o) { o.num_losses = 0; });
  refused([](amp::Options& o) { o.num_losses = std::numeric_limits<int>::max(); });
  refused([](amp::Options& o) { o.min_loss_scale = 0; });
  refused([](amp::Options& o) { o.min_loss_scale = std::nan(""); });
  refused([](amp::Options& o) { o.max_loss_scale = HUGE_VAL; });
  refused([](amp::Options& o) { o.max_loss_scale = -1; });
  refused([](amp::Options& o) {
    o.min_loss_scale = 4;
    o.max_loss_scale = 2;
  });
  refused([](amp::Options& o) { o.max_consecutive_skips = -1; });
  CHECK(amp::resolve(level_with("O1", [](amp::Options& o) {
          o.cast_model_outputs = bf16;
        })).cast_model_outputs == bf16);
}

TEST_CASE("the first property that fails is the one reported") {
  amp::Options options = at("O1");
  options.loss_scale = -1;
  options.master_weights = true;
  options.keep_batchnorm_fp32 = true;
  CHECK_THROWS_WITH_AS_TEXT(amp::resolve(options), ValueError, "keep_batchnorm_fp32");
  options.opt_level = "02";
  CHECK_THROWS_WITH_AS_TEXT(amp::resolve(options), ValueError, "unknown opt_level");
}

TEST_CASE("the line that initialize prints") {
  const auto line = [](const amp::Options& options) {
    return amp::headline(amp::resolve(options), cpu);
  };
  CHECK(line(at("O0")) == "amp O0 on cpu: Pure FP32 training.");
  const auto gain = [](DType low) {
    return emulates_products(low, cpu)
               ? str(" ", low, " products are computed in f32 here: no faster than O0.")
               : str(" ", low, " products are faster than f32 here.");
  };
  CHECK(line(at("O1")) == "amp O1 on cpu: Insert automatic casts around operations." + gain(f16));
  CHECK(line(at("O5")) == "amp O5 on cpu: As O2 with BF16 and no loss scaling." + gain(bf16));
  amp::Options options = at("O2");
  options.loss_scale = 128;
  options.num_losses = 2;
  CHECK(line(options) ==
        "amp O2 on cpu: FP16 training with FP32 batchnorm and FP32 master weights." + gain(f16) +
            " Overridden: loss_scale = 128.0, num_losses = 2");
}

TEST_CASE("the explanation of a level") {
  amp::Options options = at("O2");
  options.loss_scale = 128;
  CHECK(amp::explanation(amp::resolve(options)) ==
        "Selected optimization level O2:  FP16 training with FP32 batchnorm and FP32 master "
        "weights.\n"
        "enabled                : true\n"
        "opt_level              : O2\n"
        "cast_model_type        : f16\n"
        "patch_functions        : false\n"
        "keep_batchnorm_fp32    : true\n"
        "master_weights         : true\n"
        "loss_scale             : 128.0");
}
