// run_program: the frame of a sample's main: failures become one line on stderr and exit status 1.
// Sees: the standard library.
// Read next: ../mnist.cpp.
#pragma once

#include <exception>
#include <iostream>
#include <stdexcept>

namespace samples {

/** Thrown for wrong usage that only the program itself can see; ends it with status 2. */
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/** Calls body() -> exit status. */
template <class F> int run_program(const char* program, F&& body) {
  try {
    return body();
  } catch (const UsageError& e) {
    std::cerr << program << ": " << e.what() << "; try " << program << " --help\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << program << ": " << e.what() << "\n";
    return 1;
  }
}

}  // namespace samples
