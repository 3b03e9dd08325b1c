// trace: a ledger of every cast that mixed precision makes on this thread while the guard is open.
// Sees: casting.h.
// Read next: trace.cpp, detect_nonfinite.h (the other microscope).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "casting.h"

namespace mezzo::amp {

/** Which way a cast went: on the way to the loss, or back, where a gradient returns to the dtype its tensor came from. */
enum class CastDirection : std::uint8_t { forward, backward };

MZ_API std::string_view name(CastDirection direction);

/** Casts of one kind. */
struct CastEntry {
  std::string module;  // dotted path of the module executing; empty outside of one
  std::string op;      // whose input it was; "model input" and "model output" at a wrapped model's door
  std::string rule;    // the tag that asked for it, or "model", "cast_inputs"
  CastDirection direction = CastDirection::forward;
  DType from = f32, to = f32;
  std::int64_t count = 0;       // casts executed
  std::int64_t cache_hits = 0;  // weights whose cast was at hand
  std::int64_t elements = 0;    // of the executed casts
  std::int64_t bytes = 0;       // written by them
  std::int64_t overflowed = 0;  // finite elements that became infinite
  std::int64_t flushed = 0;     // nonzero elements that became zero
};

/** Writes down this thread's casts until the end of the scope: op inputs, what passes a wrapped model's door, and, in a backward pass inside the scope, the
 *  gradients on their way back through the casts it saw. Scopes nest; an inner one's casts are in the outer ones too. While no trace is open casts cost one branch
 *  more. Counting what overflows and flushes costs two passes over each cast tensor, for gradients a second cast. Results stay the same to the bit. */
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
  /** Those of one direction added up. */
  CastEntry total(CastDirection direction) const;
  /** One line per entry, with a heading. */
  std::string table() const;

  void note(const CastReason& reason, const Tensor& from, const Tensor& to, bool cached) override;

 private:
  struct Book;
  std::shared_ptr<Book> book_;
};

}  // namespace mezzo::amp
