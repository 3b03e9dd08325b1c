// ProfileLog: the events of a Profiler.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../tensor/core/dispatch.h"
#include "../tensor/device/queues.h"
#include "../tensor/memory/allocator.h"
#include "profiler.h"

namespace mezzo::detail {

/** A list that never moves its elements and allocates many at once. */
template <class T> class Chunks {
 public:
  Chunks() { add_chunk(); }

  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return chunks_[i / kSize][i % kSize]; }
  const T& operator[](std::size_t i) const { return chunks_[i / kSize][i % kSize]; }
  /** Appends a value and returns a reference to it. */
  T& push(const T& value) {
    if (size_ == chunks_.size() * kSize) add_chunk();
    return (*this)[size_++] = value;
  }

 private:
  static constexpr std::size_t kSize = 4096;
  void add_chunk() { chunks_.push_back(std::make_unique_for_overwrite<T[]>(kSize)); }

  std::vector<std::unique_ptr<T[]>> chunks_;
  std::size_t size_ = 0;
};

/** Texts, each with a number. */
class TextTable {
 public:
  /** Returns the number of a text; adds the text if it is new. */
  std::uint32_t number(std::string_view text);
  const std::string& operator[](std::uint32_t number) const { return *texts_[number]; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
  std::vector<const std::string*> texts_;
};

/** One op, backward rule or range. Times are nanoseconds since the profiler was opened. */
struct ProfileEvent {
  std::int64_t begin;
  std::int64_t end;                    // kOpen while it runs
  double flops, bytes;                 // without nested events
  std::int64_t allocated;              // bytes, without nested events
  QueueMark device_begin, device_end;  // null if not timed
  std::int64_t operands;         // index of the first number of its tensors in ProfileLog::tensors
  std::int32_t parent;           // index of the event around it, or -1
  std::uint32_t name, module;    // numbers of texts
  std::uint8_t inputs, outputs;  // number of tensors
  ProfileKind kind;
  bool backward;  // in a backward pass
  DType dtype;    // of the first floating operand, f32 if there is none

  static constexpr std::int64_t kOpen = -1;
};

/** Bytes in use in one category after a change. */
struct MemoryChange {
  std::int64_t time;     // nanoseconds since the profiler was opened
  std::int64_t current;  // bytes
  std::uint8_t device;   // index in ProfileLog::devices
  MemoryCategory category;
};

/** A tensor as recorded: dtype and shape. */
struct TensorRecord {
  DType dtype = DType::f32;
  Shape shape;
  bool defined = false;
};

/** What a profiler has recorded. */
struct ProfileLog {
  /** A device with its memory in use at the start. */
  struct Memory {
    Device device;
    const Allocator* allocator;
    MemoryStats at_start;
  };

  Chunks<ProfileEvent> events;   // by begin
  Chunks<MemoryChange> memory;   // by time
  Chunks<std::int64_t> tensors;  // of each: dtype and rank, then the sizes
  TextTable names, modules;
  std::vector<Memory> devices;
  std::int64_t outside_allocated = 0;      // bytes allocated outside of all events
  std::int64_t end = ProfileEvent::kOpen;  // nanoseconds at stop()

  /** Appends the dtypes and shapes of tensors. */
  void add_tensors(Inputs list);
  /** Returns the recorded tensors of an event: inputs, then outputs. For a rule: the gradients of
   *  the results, then those of the operands. */
  std::vector<TensorRecord> tensors_of(const ProfileEvent& event) const;
};

}  // namespace mezzo::detail
