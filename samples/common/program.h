// run_program(): runs the body of a sample's main and reports errors in one line on stderr.
#pragma once

#include <mezzo.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

namespace samples {

/** Wrong usage that the option parser cannot detect. Ends the program with status 2. */
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/** Throws IoError if not all output could be written, for example on a full disk. */
inline void require_printed() {
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    mezzo::fail<mezzo::IoError>("the results", {.what = "could not be written to standard output"});
}

/** Calls body() and returns its exit status, 2 for a UsageError, or 1 for another exception. */
template <class F> int run_program(const std::string& program, F&& body) {
  try {
    const int status = body();
    require_printed();
    return status;
  } catch (const UsageError& e) {
    const std::string hint = "try " + program + " --help";
    std::cerr << mezzo::error_text(program, {.what = e.what(), .hint = hint}) << "\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << mezzo::error_text(program, {.what = e.what()}) << "\n";
    return 1;
  }
}

}  // namespace samples
