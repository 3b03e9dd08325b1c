#include "numerics.h"

#include <atomic>

namespace mezzo {

namespace {

std::atomic<bool> tf32{false}, nondeterministic{false}, searches{false};

}  // namespace

bool allow_tf32() { return tf32.load(std::memory_order_relaxed); }
void set_allow_tf32(bool on) { tf32.store(on, std::memory_order_relaxed); }

bool allow_nondeterministic() { return nondeterministic.load(std::memory_order_relaxed); }
void set_allow_nondeterministic(bool on) { nondeterministic.store(on, std::memory_order_relaxed); }

bool search_products() { return searches.load(std::memory_order_relaxed); }
void set_search_products(bool on) { searches.store(on, std::memory_order_relaxed); }

}  // namespace mezzo
