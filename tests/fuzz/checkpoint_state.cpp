// Fuzzes state files with a valid checksum: what is read and written again reads back the same.
#include "../../amp/checkpoint/checkpoint_state.h"

#include "../../tensor/io/crc32c.h"
#include "fuzz.h"

static mezzo::amp::CheckpointState state_of(const std::string& text) {
  return mezzo::amp::read_state({"load_checkpoint", "state.json", fuzz::bytes(text)});
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(fuzz::text(data, size));
  char end[40];
  const std::uint32_t crc = mezzo::io::crc32c(fuzz::bytes(text));
  std::snprintf(end, sizeof end, ",\n  \"self\": \"%08X\"\n}\n", crc);
  try {
    const std::string written = state_text(state_of(text + end));
    fuzz::require(state_text(state_of(written)) == written);
  } catch (const mezzo::FormatError&) {}
  return 0;
}
