// Progress: what is printed where stderr is no terminal, and on one.
#include <mezzo.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <functional>
#include <iostream>
#include <sstream>

#include "../support/catch.h"

using namespace mezzo;

namespace {

/** Returns what f writes to std::cerr. */
std::string printed(const std::function<void()>& f) {
  std::ostringstream text;
  std::streambuf* const before = std::cerr.rdbuf(text.rdbuf());
  f();
  std::cerr.rdbuf(before);
  return text.str();
}

/** Makes standard error another file until the end of the scope. */
class StandardError {
 public:
  explicit StandardError(int file) : before_(::dup(STDERR_FILENO)) {
    ::dup2(file, STDERR_FILENO);
    ::close(file);
  }
  ~StandardError() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
  }

 private:
  int before_;
};

void ten_steps(bool quiet) {
  Progress progress("net", 10, quiet);
  progress.start_at(2);
  for (int step = 3; step <= 10; ++step) progress.step(step, "loss 0.5");
  progress.line("epoch 1");
}

}  // namespace

TEST_CASE("a progress line in a log is printed every 30 seconds only, results at once") {
  const StandardError file(::open("/dev/null", O_WRONLY));
  CHECK(printed([] { ten_steps(false); }) == "net epoch 1\n");
  CHECK(printed([] { ten_steps(true); }).empty());
}

TEST_CASE("a progress bar on a terminal shows the place and is erased") {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0)
    SKIP_TEST("there are no terminals here");
  const int end = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
  REQUIRE(end >= 0);
  std::string text;
  {
    const StandardError screen(end);
    text = printed([] { ten_steps(false); });
    CHECK(printed([] { ten_steps(true); }).empty());
    CHECK(printed([] { Progress("net", 4).time(30, 90, 1); }) ==
          "\r\033[Knet [#####...............] 1/4  1:30 left\r\033[K");
  }
  ::close(terminal);
  CHECK(text.find("\r\033[Knet [######..............] 3/10  ") == 0);
  CHECK(text.find("[####################] 10/10  ") != std::string::npos);
  CHECK(text.find("  loss 0.5\r\033[Knet epoch 1\n") != std::string::npos);
}
