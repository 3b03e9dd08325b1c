#include "sectors.h"

#include <bit>
#include <map>
#include <tuple>

#include "executor.h"
#include "memory.h"

namespace mezzo::emulator {

namespace {

constexpr std::uintptr_t kSector = 32;  // bytes

struct Request {
  bool writes = false;
  std::map<std::uintptr_t, std::uint32_t> bytes;  // by sector; bit i: byte i
};

struct Open {
  Traffic loads, stores;
  // Of the running block.
  std::map<std::tuple<const void*, unsigned>, std::int64_t> executed;  // by instruction and thread
  std::map<std::tuple<const void*, unsigned, std::int64_t>, Request>
      requests;  // by warp, execution

  void end_block() {
    for (const auto& [key, request] : requests) {
      Traffic& traffic = request.writes ? stores : loads;
      std::int64_t bytes = 0;
      for (const auto& [sector, mask] : request.bytes) bytes += std::popcount(mask);
      ++traffic.requests;
      traffic.sectors += static_cast<std::int64_t>(request.bytes.size());
      traffic.fewest +=
          (bytes + static_cast<std::int64_t>(kSector) - 1) / static_cast<std::int64_t>(kSector);
    }
    executed.clear();
    requests.clear();
  }
};

Open* open_sector_log = nullptr;

}  // namespace

SectorLog::SectorLog() { open_sector_log = new Open; }
SectorLog::~SectorLog() {
  delete open_sector_log;
  open_sector_log = nullptr;
}
Traffic SectorLog::loads() const {
  open_sector_log->end_block();
  return open_sector_log->loads;
}
Traffic SectorLog::stores() const {
  open_sector_log->end_block();
  return open_sector_log->stores;
}

void sectors::begin_block() {
  if (open_sector_log) open_sector_log->end_block();
}

void sectors::touch(const void* code, const void* address, std::size_t bytes, bool writes) {
  if (!open_sector_log || !is_device_memory(address)) return;
  const unsigned thread = here.thread.x;
  const std::int64_t execution = open_sector_log->executed[{code, thread}]++;
  Request& request = open_sector_log->requests[{code, thread / kWarp, execution}];
  request.writes = writes;
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  for (std::uintptr_t at = begin; at < begin + bytes; ++at)
    request.bytes[at / kSector] |= 1u << at % kSector;
}

}  // namespace mezzo::emulator
