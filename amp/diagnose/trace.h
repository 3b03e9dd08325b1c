// trace: a record of every cast that mixed precision makes on a thread while the guard is open.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../../tensor/core/pointers.h"
#include "../autocast/casting.h"

namespace mezzo::amp {

/** Direction of a cast: forward, or backward, where a gradient returns to the dtype of the tensor
 *  that was cast. */
enum class CastDirection : std::uint8_t { forward, backward };

/** Returns "forward" or "backward". */
MZ_API std::string_view name(CastDirection direction);

/** The casts of one kind: same module, op, tag, direction and dtypes. */
struct CastEntry {
  std::string module;  // dotted path of the executing module; empty outside of one
  std::string op;      // the op that takes the input, or "model input", "model output"
  std::string tag;     // the precision tag that requires the cast, or "model", "cast_inputs"
  /** Whether a tensor was cast or, in a backward pass, its gradient. */
  CastDirection direction = CastDirection::forward;
  /** Dtype before the cast. */
  DType from = f32, to = f32;   // dtype after the cast
  std::int64_t count = 0;       // casts executed
  std::int64_t cache_hits = 0;  // casts of weights taken from a cache
  std::int64_t elements = 0;    // of the executed casts
  std::int64_t bytes = 0;       // written by the executed casts
  std::int64_t overflowed = 0;  // finite elements that became infinite
  std::int64_t flushed = 0;     // nonzero elements that became zero
};

/** Records this thread's casts until the end of the scope: op inputs, inputs and outputs of
 *  wrapped models, and, in a backward pass inside the scope, the gradients of the casts it
 *  recorded. Scopes nest; the casts of an inner one are in the outer ones too. Without an open
 *  trace a cast costs one more branch. Counting overflows and flushes costs two passes over each
 *  cast tensor, for gradients a second cast. Results stay bitwise the same. */
class MZ_API trace final : public CastLedger {
 public:
  trace();
  ~trace();
  trace(const trace&) = delete;
  trace& operator=(const trace&) = delete;

  /** Returns the entries in the order of their first cast. */
  std::vector<CastEntry> entries() const;
  /** Returns the sum of all entries; its names are empty. */
  CastEntry total() const;
  /** Returns the sum of the entries of one direction. */
  CastEntry total(CastDirection direction) const;
  /** Returns a text table with a heading and one line per entry. */
  std::string table() const;

  /** Records a cast; called by the casting code. */
  void note(const CastReason& reason, const Tensor& from, const Tensor& to, bool cached) override;

 private:
  struct Recorder;
  Shared<Recorder> recorder_;
};

}  // namespace mezzo::amp
