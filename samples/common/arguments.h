// Command lines of the samples: named options with defaults, --help, exit 2 on wrong usage.
// Sees: the standard library; CLI11 stays in arguments.cpp.
// Read next: program.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace samples {

class Arguments {
 public:
  Arguments(const std::string& program, const std::string& description);
  ~Arguments();

  /** Adds "--name"; the variable holds the default and receives the value. */
  void option(const std::string& name, std::string& value, const std::string& help);
  /** A finite number above 0. */
  void option(const std::string& name, double& value, const std::string& help);
  /** A number in [low, high]. */
  void option(const std::string& name, double& value, double low, double high, const std::string& help);
  void option(const std::string& name, std::vector<std::string>& value, const std::string& help);
  /** A whole number in [low, high]. */
  void option(const std::string& name, std::int64_t& value, std::int64_t low, std::int64_t high,
              const std::string& help);
  /** One of several words. */
  void choice(const std::string& name, std::string& value, const std::vector<std::string>& words,
              const std::string& help);
  void flag(const std::string& name, bool& value, const std::string& help);

  /** Reads the command line. A value is the status to exit with: 0 after --help, 2 after wrong
   *  usage, which is explained in one line on stderr. */
  std::optional<int> parse(int argc, char** argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace samples
