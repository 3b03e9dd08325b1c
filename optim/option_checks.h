// OptionChecks: range checks of optimizer options.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "../tensor/core/error.h"
#include "../tensor/text/text.h"

namespace mezzo::optim {

/** Checks the options of one type of optimizer. All functions throw ValueError naming type and
 *  option. */
class OptionChecks {
 public:
  explicit OptionChecks(std::string_view type_name) : type_name_(type_name) {}

  void finite(std::string_view option, double got) const {
    require(std::isfinite(got), option, got, "a finite number");
  }
  void not_negative(std::string_view option, double got) const {
    require(got >= 0 && std::isfinite(got), option, got, "a finite number >= 0");
  }
  void fraction(std::string_view option, double got) const {
    require(got >= 0 && got < 1, option, got, "a number in [0, 1)");
  }
  void betas(const std::pair<double, double>& got) const {
    fraction("betas.first", got.first);
    fraction("betas.second", got.second);
  }
  /** Checks lr, betas, eps and weight_decay of an optimizer with two running means. */
  template <class Options> void adaptive(const Options& o) const {
    not_negative("lr", o.lr);
    betas(o.betas);
    not_negative("eps", o.eps);
    not_negative("weight_decay", o.weight_decay);
  }
  void require(bool holds, std::string_view option, double got, std::string_view expected) const {
    if (!holds)
      fail<ValueError>(type_name_, {.what = std::string(option) + " is out of range",
                                    .got = str(got),
                                    .expected = std::string(expected)});
  }

 private:
  std::string_view type_name_;
};

}  // namespace mezzo::optim
