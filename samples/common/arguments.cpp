#include "arguments.h"

#include <CLI/CLI.hpp>
#include <iostream>

namespace samples {

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
  impl_->app.add_option("--" + name, value, help)->capture_default_str()->check(CLI::PositiveNumber);
}

void Arguments::option(const std::string& name, double& value, double low, double high,
                       const std::string& help) {
  impl_->app.add_option("--" + name, value, help)->capture_default_str()->check(CLI::Range(low, high));
}

void Arguments::option(const std::string& name, std::vector<std::string>& value, const std::string& help) {
  impl_->app.add_option("--" + name, value, help)->capture_default_str()->delimiter(',');
}

void Arguments::option(const std::string& name, std::int64_t& value, std::int64_t low, std::int64_t high,
                       const std::string& help) {
  impl_->app.add_option("--" + name, value, help)->capture_default_str()->check(CLI::Range(low, high));
}

void Arguments::choice(const std::string& name, std::string& value, const std::vector<std::string>& words,
                       const std::string& help) {
  impl_->app.add_option("--" + name, value, help)->capture_default_str()->check(CLI::IsMember(words));
}

void Arguments::flag(const std::string& name, bool& value, const std::string& help) {
  impl_->app.add_flag("--" + name, value, help);
}

std::optional<int> Arguments::parse(int argc, char** argv) {
  try {
    impl_->app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    std::cout << impl_->app.help();
    return 0;
  } catch (const CLI::ParseError& e) {
    std::cerr << impl_->program << ": " << e.what() << "; try " << impl_->program << " --help\n";
    return 2;
  }
}

}  // namespace samples
