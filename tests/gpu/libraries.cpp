// Missing or unsuitable libraries: reported once, with no other effect.
#include <mezzo.h>

#include <filesystem>
#include <fstream>

#include "../../cuda/runtime/shared_library.h"
#include "../support/catch.h"

using namespace mezzo;
using gpu::SharedLibrary;

namespace {

/** Records the log while in scope. */
class Logged {
 public:
  Logged()
      : outer_(
            set_log_sink([this](Severity, std::string_view line) { lines.emplace_back(line); })) {}
  ~Logged() { set_log_sink(outer_); }

  std::vector<std::string> lines;

 private:
  LogSink outer_;
};

bool has_text(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a library that cannot be loaded is reported once with the reason", "[library]") {
  const Logged log;
  SharedLibrary absent("libmezzo_has_no_such.so.1");
  CHECK(!absent.usable());
  CHECK(has_text(absent.missing(), "libmezzo_has_no_such.so.1 cannot be loaded"));
  CHECK(has_text(absent.missing(), "LD_LIBRARY_PATH"));
  void (*function)() = nullptr;
  absent.load(function, "f");
  CHECK(function == nullptr);
  REQUIRE(log.lines.size() == 1);
  CHECK(log.lines[0] == absent.missing() + "; slower kernels are used instead");
}

TEST_CASE("a file that is not a library is not reported as missing", "[library]") {
  const Logged log;
  const auto path = std::filesystem::temp_directory_path() / "mezzo_no_library.so";
  std::ofstream(path) << "text";
  const SharedLibrary broken(path.string());
  std::filesystem::remove(path);
  CHECK(!broken.usable());
  CHECK(!has_text(broken.missing(), "No such file"));
}

TEST_CASE("a library that lacks a required function is not used", "[library]") {
  const Logged log;
  SharedLibrary other("libm.so.6");
  CHECK(other.usable());
  CHECK(log.lines.empty());
  double (*cosine)(double) = nullptr;
  other.load(cosine, "cos");
  CHECK(cosine != nullptr);
  int (*create)(void*) = nullptr;
  other.load(create, "cublasLtCreate");
  CHECK(other.missing() == "libm.so.6 has no cublasLtCreate");
  other.refuse("another reason");
  CHECK(other.missing() == "libm.so.6 has no cublasLtCreate");
  CHECK(log.lines.size() == 1);
}
