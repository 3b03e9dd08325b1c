// Fuzzes the JSON of state files: what is read and written again reads back the same.
#include "../../tensor/core/error.h"
#include "../../tensor/io/json_value.h"
#include "fuzz.h"

static std::string rewritten(std::string_view text) {
  const mezzo::io::ByteReader file("load_checkpoint", "state.json", fuzz::bytes(text));
  return json_text(mezzo::io::read_json(file, text, 5));
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string written = rewritten(fuzz::text(data, size));
    fuzz::require(rewritten(written) == written);
  } catch (const mezzo::FormatError&) {}
  return 0;
}
