// Memory use for a hostile header: reading one of 76 MB takes less than twice its size.
#include <mezzo.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>

#include "../../tensor/memory/address_sanitizer.h"
#include "../support/catch.h"
#include "files.h"

using namespace mezzo;

namespace {

constexpr std::size_t kSize = 76'000'000;
const std::string kEntry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";

/** Returns an object with as many members as fit. */
std::string members(const std::function<std::string(std::size_t)>& member) {
  std::string text = "{";
  for (std::size_t i = 0; text.size() < kSize; ++i) text += (i == 0 ? "" : ",") + member(i);
  return text + "}";
}

std::string tensors_named(const std::string& name) {
  return members([&](std::size_t i) { return "\"" + name + std::to_string(i) + "\":" + kEntry; });
}

/** Returns kSize times the character between two texts. */
std::string filled(const char* before, char c, const char* after) {
  std::string text = before;
  text.append(kSize, c);
  text += after;
  return text;
}

/** Returns the number of bytes that a process grows by while it reads the file, valid or not. */
std::int64_t growth(const std::string& path) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    const auto peak = [] {
      rusage use{};
      ::getrusage(RUSAGE_SELF, &use);
      return std::int64_t{use.ru_maxrss} * 1024;
    };
    const std::int64_t before = peak();
    try {
      (void)load_tensors(path);
    } catch (const FormatError&) {}
    const std::int64_t grown = peak() - before;
    const bool told = ::write(ends[1], &grown, sizeof grown) == sizeof grown;
    ::_exit(told ? 0 : 1);
  }
  std::int64_t grown = -1;
  ::close(ends[1]);
  const bool read = ::read(ends[0], &grown, sizeof grown) == sizeof grown;
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return read ? grown : -1;
}

}  // namespace

TEST_CASE("a hostile header of 76 MB costs less than twice its size", "[safetensors]") {
#ifdef MZ_ADDRESS_SANITIZER
  SKIP_TEST("AddressSanitizer's own memory is counted too");
#endif
  const auto header = GENERATE_COPY(
      as<std::function<std::string()>>{}, [&] { return tensors_named(""); },
      [&] { return tensors_named(std::string(500, 'n')); },
      [&] { return tensors_named(std::string(200, 'n')); },
      [&] { return filled("{\"", 'a', "\":") + kEntry + "}"; },
      [&] { return filled(R"({"a":{"dtype":"U8","shape":[1)", '1', "]}}"); },
      [&] { return filled(R"({"a":{"dtype":"U8","shape":[0.)", '1', "]}}"); },
      [&] { return filled(R"({"a":{"dtype":")", 'a', "\"}}"); },
      [&] { return filled(R"({"__metadata__":{"a":")", 'a', "\"}}"); },
      [&] { return filled("", ' ', "{}"); });
  const files::Directory folder = files::Directory::fast();
  std::int64_t size = 0;
  {
    const std::string file = files::safetensors(header());
    size = static_cast<std::int64_t>(file.size());
    files::write(folder / "hostile", file);
  }
  const std::int64_t grown = growth(folder / "hostile");
  CHECK(grown >= 0);
  CHECK(grown < 2 * size);
}
