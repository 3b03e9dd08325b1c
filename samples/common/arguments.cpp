#include "arguments.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <limits>

#include "program.h"

namespace samples {

namespace {

using Check = std::function<std::string(const std::string&)>;

/** Returns a check for numbers in [low, high]. It rejects NaN, which CLI::Range and
 *  CLI::PositiveNumber accept. */
Check number_in(double low, double high, const std::string& range) {
  return [=](const std::string& text) -> std::string {
    double value = 0;
    const bool fits = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
    return fits ? "" : "Value " + text + " is not " + range;
  };
}

/** Throws ValueError if MEZZO_CPU_ISA does not name an instruction set that can be used. */
void require_usable_isa() {
  try {
    mezzo::cpu_isa();
  } catch (const mezzo::Unsupported&) {
    // Programs that call no kernel run on every CPU. The first kernel throws this again.
  }
}

}  // namespace

struct Arguments::Impl {
  CLI::App app;
  std::string program;
};

Arguments::Arguments(const std::string& program, const std::string& description)
    : impl_(new Impl{CLI::App(description, program), program}) {}

Arguments::~Arguments() = default;

void Arguments::option(const std::string& name, std::string& value, const std::string& help) {
  impl_->app.add_option("--" + name, value, help)->capture_default_str();
}

void Arguments::option(const std::string& name, double& value, const std::string& help) {
  using Limits = std::numeric_limits<double>;
  const std::string range = "a finite number above 0";
  impl_->app.add_option("--" + name, value, help)
      ->capture_default_str()
      ->check(number_in(Limits::denorm_min(), Limits::max(), range), "POSITIVE");
}

void Arguments::option(const std::string& name, double& value, double low, double high,
                       const std::string& help) {
  const std::string range = CLI::Range(low, high).get_description();
  impl_->app.add_option("--" + name, value, help)
      ->capture_default_str()
      ->check(number_in(low, high, range), range);
}

void Arguments::option(const std::string& name, std::vector<std::string>& value,
                       const std::string& help) {
  impl_->app.add_option("--" + name, value, help)->capture_default_str()->delimiter(',');
}

void Arguments::option(const std::string& name, std::int64_t& value, std::int64_t low,
                       std::int64_t high, const std::string& help) {
  impl_->app.add_option("--" + name, value, help)
      ->capture_default_str()
      ->check(CLI::Range(low, high));
}

void Arguments::choice(const std::string& name, std::string& value,
                       const std::vector<std::string>& words, const std::string& help) {
  impl_->app.add_option("--" + name, value, help)
      ->capture_default_str()
      ->check(CLI::IsMember(words));
}

void Arguments::flag(const std::string& name, bool& value, const std::string& help) {
  impl_->app.add_flag("--" + name, value, help);
}

std::optional<int> Arguments::parse(int argc, char** argv) {
  try {
    impl_->app.parse(argc, argv);
    require_usable_isa();
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    return run_program(impl_->program, [&] {
      std::cout << impl_->app.help();
      return 0;
    });
  } catch (const mezzo::ValueError& e) {  // of MEZZO_CPU_ISA
    std::cerr << mezzo::error_text(impl_->program, {.what = e.what()}) << "\n";
    return 2;
  } catch (const CLI::ParseError& e) {
    return run_program(impl_->program, [&]() -> int { throw UsageError(e.what()); });
  }
}

}  // namespace samples
