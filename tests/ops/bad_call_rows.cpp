// check_refused(): runs a table of bad calls.
#include "bad_calls.h"

#include <functional>

#include "../support/catch.h"
#include "samples.h"

using namespace mezzo;

namespace cases {

namespace {

/** Returns the type and the text of what a call throws. */
std::pair<std::string, std::string> thrown(const std::function<void()>& call) {
  const auto known = [](const Error& e) -> std::string {
    if (dynamic_cast<const ShapeError*>(&e)) return "ShapeError";
    if (dynamic_cast<const DtypeError*>(&e)) return "DtypeError";
    if (dynamic_cast<const IndexError*>(&e)) return "IndexError";
    if (dynamic_cast<const ValueError*>(&e)) return "ValueError";
    if (dynamic_cast<const StateError*>(&e)) return "StateError";
    if (dynamic_cast<const SizeError*>(&e)) return "SizeError";
    if (dynamic_cast<const OutOfMemory*>(&e)) return "OutOfMemory";
    return "Error";
  };
  try {
    call();
  } catch (const Error& e) {
    return {known(e), e.what()};
  } catch (const std::exception& e) {
    return {"std::exception", e.what()};
  }
  return {"nothing", ""};
}

}  // namespace

void check_refused(const std::vector<BadCallRow>& rows) {
  for (const BadCallRow& row : rows) {
    const BadCallOperands o;
    const std::vector<Tensor> before = BadCallOperands{}.all(), after = o.all();
    const auto [type, text] = thrown([&] { row.call(o); });
    INFO(row.text << " threw " << type << ": " << text);
    CHECK((type == row.type ||
           (row.type == std::string("Error") && type != "nothing" && type != "std::exception")));
    CHECK((type == "OutOfMemory" || text.find(": ") != std::string::npos));
    for (std::size_t k = 0; k < after.size(); ++k) {
      CHECK(same_bits(after[k], before[k]));
      CHECK(after[k].impl()->storage->version() == before[k].impl()->storage->version());
    }
  }
}

}  // namespace cases
