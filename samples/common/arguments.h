// Parses the command lines of the samples: named options with defaults, --help, exit status 2 on
// wrong usage.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace samples {

/** The options of a program. */
class Arguments {
 public:
  Arguments(const std::string& program, const std::string& description);
  ~Arguments();

  /** Adds the option "--name". The variable holds the default and receives the value. */
  void option(const std::string& name, std::string& value, const std::string& help);
  /** Adds an option for a finite number above 0. */
  void option(const std::string& name, double& value, const std::string& help);
  /** Adds an option for a number in [low, high]. */
  void option(const std::string& name, double& value, double low, double high,
              const std::string& help);
  /** Adds an option for words separated by commas. */
  void option(const std::string& name, std::vector<std::string>& value, const std::string& help);
  /** Adds an option for an integer in [low, high]. */
  void option(const std::string& name, std::int64_t& value, std::int64_t low, std::int64_t high,
              const std::string& help);
  /** Adds an option for one of several words. */
  void choice(const std::string& name, std::string& value, const std::vector<std::string>& words,
              const std::string& help);
  /** Adds an option without a value. */
  void flag(const std::string& name, bool& value, const std::string& help);

  /** Parses the command line. A returned value is the exit status of the program: 0 after --help,
   *  2 after wrong usage, which is reported in one line on stderr. */
  std::optional<int> parse(int argc, char** argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace samples
