// run_program: the frame of a sample's main: failures become one line on stderr and exit status 1.
// Sees: mezzo.h.
// Read next: ../mnist.cpp.
#pragma once

#include <mezzo.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

namespace samples {

/** Thrown for wrong usage that only the program itself can see; ends it with status 2. */
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/** Errors: IoError where not all of what was printed could be written, as on a full disk. */
inline void require_printed() {
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    mezzo::fail<mezzo::IoError>("the results", {.what = "could not be written to standard output"});
}

/** Calls body() -> exit status. */
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
