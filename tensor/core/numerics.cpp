#include "numerics.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "error.h"

namespace mezzo {

namespace {

std::atomic<bool> tf32{false}, nondeterministic{false}, searches{false}, verifies{true},
    cudnn_sdp{true};

bool initially_exact() {
  const char* text = std::getenv("MEZZO_EXACT_PRODUCTS");
  if (!text || !*text || std::strcmp(text, "0") == 0) return false;
  if (std::strcmp(text, "1") == 0) return true;
  fail<ValueError>(
      "MEZZO_EXACT_PRODUCTS",
      {.what = "invalid value", .got = "\"" + std::string(text) + "\"", .expected = "0 or 1"});
}

std::atomic<bool>& exact() {
  static std::atomic<bool> on = initially_exact();
  return on;
}

}  // namespace

bool allow_tf32() { return tf32.load(std::memory_order_relaxed); }
void set_allow_tf32(bool on) { tf32.store(on, std::memory_order_relaxed); }

bool allow_nondeterministic() { return nondeterministic.load(std::memory_order_relaxed); }
void set_allow_nondeterministic(bool on) { nondeterministic.store(on, std::memory_order_relaxed); }

bool search_products() { return searches.load(std::memory_order_relaxed); }
void set_search_products(bool on) { searches.store(on, std::memory_order_relaxed); }

bool verify_libraries() { return verifies.load(std::memory_order_relaxed); }
void set_verify_libraries(bool on) { verifies.store(on, std::memory_order_relaxed); }

bool exact_products() { return exact().load(std::memory_order_relaxed); }
void set_exact_products(bool on) { exact().store(on, std::memory_order_relaxed); }

bool cudnn_sdp_enabled() { return cudnn_sdp.load(std::memory_order_relaxed); }
void enable_cudnn_sdp(bool on) { cudnn_sdp.store(on, std::memory_order_relaxed); }

}  // namespace mezzo
