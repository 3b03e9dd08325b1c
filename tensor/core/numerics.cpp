#include "numerics.h"

#include <atomic>

namespace mezzo {

namespace {

std::atomic<bool> tf32{false}, nondeterministic{false}, searches{false}, cudnn_sdp{true};

}  // namespace

bool allow_tf32() { return tf32.load(std::memory_order_relaxed); }
void set_allow_tf32(bool on) { tf32.store(on, std::memory_order_relaxed); }

bool allow_nondeterministic() { return nondeterministic.load(std::memory_order_relaxed); }
void set_allow_nondeterministic(bool on) { nondeterministic.store(on, std::memory_order_relaxed); }

bool search_products() { return searches.load(std::memory_order_relaxed); }
void set_search_products(bool on) { searches.store(on, std::memory_order_relaxed); }

bool cudnn_sdp_enabled() { return cudnn_sdp.load(std::memory_order_relaxed); }
void enable_cudnn_sdp(bool on) { cudnn_sdp.store(on, std::memory_order_relaxed); }

}  // namespace mezzo
