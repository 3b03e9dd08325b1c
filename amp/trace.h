// trace: a ledger of every cast that mixed precision makes on this thread while the guard is open.
// Sees: casting.h.
// Read next: trace.cpp, detect_nonfinite.h (the other microscope).
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "casting.h"

namespace mezzo::amp {

/** Casts of one kind. */
struct CastEntry {
  std::string module;  // dotted path of the module executing; empty outside of one
  std::string op;      // whose input it was; "model input" and "model output" at a wrapped model's door
  std::string rule;    // the tag that asked for it, or "model", "cast_inputs"
  DType from = f32, to = f32;
  std::int64_t count = 0;       // casts executed
  std::int64_t cache_hits = 0;  // weights whose cast was at hand
  std::int64_t elements = 0;    // of the executed casts
  std::int64_t bytes = 0;       // written by them
  std::int64_t overflowed = 0;  // finite elements that became infinite
  std::int64_t flushed = 0;     // nonzero elements that became zero
};

/** Writes down this thread's casts until the end of the scope: op inputs and what passes a wrapped model's door, not the backward pass. Scopes nest; an inner one's
 *  casts are in the outer ones too. While no trace is open casts cost one branch more. Counting what overflows and flushes costs two passes over each cast tensor. */
class MZ_API trace final : public CastLedger {
 public:
  trace();
  ~trace();
  trace(const trace&) = delete;
  trace& operator=(const trace&) = delete;

  /** In the order of first occurrence. */
  std::vector<CastEntry> entries() const;
  /** All of them added up; its names are empty. */
  CastEntry total() const;
  /** One line per entry, with a heading. */
  std::string table() const;

  void note(const CastReason& reason, const Tensor& from, const Tensor& to, bool cached) override;

 private:
  using Key = std::tuple<std::string, std::string_view, std::string_view, DType, DType>;
  std::map<Key, std::size_t> places_;
  std::vector<CastEntry> entries_;
  CastLedger* outer_;
};

}  // namespace mezzo::amp
