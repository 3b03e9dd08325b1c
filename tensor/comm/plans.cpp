#include "plans.h"

#include <algorithm>
#include <cstring>

#include "../core/error.h"
#include "../cpu/combine.h"

namespace mezzo::comm::detail {

namespace {

constexpr std::int64_t kChunkBytes = 4 << 20;   // of rank-ordered sums: bounds their scratch memory
constexpr std::int64_t kWholeBytes = 16 << 10;  // up to here one all-gather beats two exchanges
constexpr std::uint8_t kFast = 0, kF32Sum = 2;  // Frame::order

const char* at(const void* base, std::int64_t elements, DType dtype) {
  return static_cast<const char*>(base) + elements * static_cast<std::int64_t>(item_size(dtype));
}
char* at(void* base, std::int64_t elements, DType dtype) {
  return static_cast<char*>(base) + elements * static_cast<std::int64_t>(item_size(dtype));
}

/** Sets out to the combination of the parts in their order, times the factor. `out` may be one of
 *  the parts. */
void combine_parts(const Frame& how, std::vector<const void*> parts, void* out, std::int64_t n) {
  const double factor = factor_of(how);
  if (how.order == kF32Sum && is_low(how.dtype) && how.op == Op::sum)
    return cpu_kernels::sum_low_in_f32(how.dtype, parts, static_cast<float>(factor), out, n);
  constexpr std::int64_t kBlock = 4096;  // elements, so that the sum stays in the L1 cache
  alignas(64) std::byte other_place[kBlock * sizeof(double)];
  // The first two operands commute.
  if (parts.size() > 1 && parts[1] == out) std::swap(parts[0], parts[1]);
  const bool overwrites_part = std::find(parts.begin() + 1, parts.end(), out) != parts.end();
  for (std::int64_t i = 0; i < n; i += kBlock) {
    const std::int64_t count = std::min(kBlock, n - i);
    const std::size_t bytes = static_cast<std::size_t>(count) * item_size(how.dtype);
    void* const result = at(out, i, how.dtype);
    void* const sum = overwrites_part ? other_place : result;
    if (sum != at(parts[0], i, how.dtype)) std::memcpy(sum, at(parts[0], i, how.dtype), bytes);
    for (std::size_t p = 1; p < parts.size(); ++p)
      cpu_kernels::combine(how.dtype, how.op, at(parts[p], i, how.dtype), sum, count);
    if (factor != 1) cpu_kernels::multiply(how.dtype, factor, sum, count);
    if (sum != result) std::memcpy(result, sum, bytes);
  }
}

/** Returns where the blocks of all ranks are: `own` for this rank, else in `received`, one after
 * the other. */
std::vector<const void*> blocks(const Group& group, const void* own, const void* received,
                                std::int64_t length, DType dtype) {
  std::vector<const void*> parts;
  for (int r = 0; r < group.size; ++r)
    parts.push_back(r == group.rank ? own : at(received, r * length, dtype));
  return parts;
}

void* scratch_of(PlanContext& context, std::int64_t elements, DType dtype) {
  const auto bytes = static_cast<std::size_t>(elements) * item_size(dtype);
  if (context.scratch.size() < bytes) context.scratch.resize(bytes);
  return context.scratch.data();
}

/** Takes the data of small operations from the frames. */
class InFrame : public Plan {
 public:
  InFrame(const Frame& frame, const Operands& operands) : frame_(frame), data_(operands) {}

  bool next(PlanContext& context, Transfer&) override {
    const auto frames = context.frames;
    const std::size_t bytes = static_cast<std::size_t>(data_.count) * item_size(frame_.dtype);
    if (frame_.kind == FrameKind::broadcast)
      std::memcpy(data_.out, frames[static_cast<std::size_t>(frame_.number)].payload.data(), bytes);
    else if (frame_.kind == FrameKind::all_gather)
      for (std::size_t r = 0; r < frames.size(); ++r)
        std::memcpy(static_cast<char*>(data_.out) + r * bytes, frames[r].payload.data(), bytes);
    else
      combine_parts(frame_, payloads(frames), data_.out, data_.count);
    return false;
  }

 private:
  static std::vector<const void*> payloads(std::span<const Frame> frames) {
    std::vector<const void*> parts;
    for (const Frame& frame : frames) parts.push_back(frame.payload.data());
    return parts;
  }

  Frame frame_;
  Operands data_;
};

/** Leaves the operation to the library, in as many parts as its counts require. */
class Direct : public Plan {
 public:
  Direct(const Frame& frame, const Operands& operands) : frame_(frame), data_(operands) {}

  bool next(PlanContext& context, Transfer& t) override {
    if (done_ == data_.count) return apply_factor(), false;
    const bool in_place = data_.in == data_.out;
    t = {.kind = kind(),
         .group = context.group.id,
         .in = in_place ? nullptr : at(data_.in, done_, frame_.dtype),
         .out = at(data_.out, done_, frame_.dtype),
         .dtype = frame_.dtype,
         .count = std::min(data_.count - done_, context.max_count),
         .in_stride = data_.count,
         .out_stride = data_.count,
         .op = frame_.op,
         .root = static_cast<int>(frame_.number)};
    done_ += t.count;
    return true;
  }

 private:
  void apply_factor() const {
    const bool reduces =
        frame_.kind == FrameKind::all_reduce || frame_.kind == FrameKind::reduce_scatter;
    if (reduces && factor_of(frame_) != 1)
      cpu_kernels::multiply(frame_.dtype, factor_of(frame_), data_.out, data_.count);
  }
  TransferKind kind() const {
    switch (frame_.kind) {
      case FrameKind::all_reduce: return TransferKind::all_reduce;
      case FrameKind::reduce_scatter: return TransferKind::reduce_scatter;
      case FrameKind::all_gather: return TransferKind::all_gather;
      case FrameKind::all_to_all: return TransferKind::all_to_all;
      default: return TransferKind::broadcast;
    }
  }

  Frame frame_;
  Operands data_;
  std::int64_t done_ = 0;
};

/** An all-reduce in the order of the ranks. Each rank combines one slice of every rank's elements
 *  and sends the result to all: the same bytes as a ring, and the same bits on all ranks. What does
 *  not divide by the number of ranks, and short arrays, are gathered whole. */
class OrderedAllReduce : public Plan {
 public:
  OrderedAllReduce(const Frame& frame, const Operands& operands) : frame_(frame), data_(operands) {}

  bool next(PlanContext& context, Transfer& t) override {
    const Group& group = context.group;
    const DType dtype = frame_.dtype;
    if (stage_ == Stage::gathered) {
      combine_parts(frame_, blocks(group, here(), context.scratch.data(), length_, dtype), here(),
                    length_);
      done_ += length_;
    } else if (stage_ == Stage::exchanged) {
      char* const slice = at(here(), group.rank * length_, dtype);
      combine_parts(frame_, blocks(group, slice, context.scratch.data(), length_, dtype), slice,
                    length_);
      stage_ = Stage::spread;
      t = {.kind = TransferKind::all_gather,
           .group = group.id,
           .out = here(),
           .dtype = dtype,
           .count = length_,
           .skips_own = true};
      return true;
    } else if (stage_ == Stage::spread) {
      done_ += length_ * group.size;
    }
    if (done_ == data_.count) return false;
    choose(context);
    t = {.kind = stage_ == Stage::gathered ? TransferKind::all_gather : TransferKind::all_to_all,
         .group = group.id,
         .in = here(),
         .out = scratch_of(context, length_ * group.size, dtype),
         .dtype = dtype,
         .count = length_,
         .skips_own = true};
    return true;
  }

 private:
  enum class Stage { begin, gathered, exchanged, spread };

  char* here() const { return at(data_.out, done_, frame_.dtype); }

  /** Sets the stage after the next transfer, and its elements per block. */
  void choose(const PlanContext& context) {
    const auto item = static_cast<std::int64_t>(item_size(frame_.dtype));
    const std::int64_t left = data_.count - done_, ranks = context.group.size;
    const bool whole =
        left < ranks || (left * ranks * item <= kWholeBytes && left <= context.max_count);
    stage_ = whole ? Stage::gathered : Stage::exchanged;
    length_ = whole ? std::min(left, context.max_count)
                    : std::min({left / ranks, context.max_count,
                                std::max<std::int64_t>(1, kChunkBytes / item / ranks)});
  }

  Frame frame_;
  Operands data_;
  Stage stage_ = Stage::begin;
  std::int64_t done_ = 0;
  std::int64_t length_ = 0;
};

/** A reduce-scatter in the order of the ranks: each receives all blocks of its slice. */
class OrderedReduceScatter : public Plan {
 public:
  OrderedReduceScatter(const Frame& frame, const Operands& operands)
      : frame_(frame), data_(operands) {}

  bool next(PlanContext& context, Transfer& t) override {
    const DType dtype = frame_.dtype;
    const std::int64_t ranks = context.group.size;
    if (length_ > 0)
      combine_parts(
          frame_,
          blocks(context.group, at(data_.in, context.group.rank * data_.count + done_, dtype),
                 context.scratch.data(), length_, dtype),
          at(data_.out, done_, dtype), length_);
    done_ += length_;
    if (done_ == data_.count) return false;
    const auto item = static_cast<std::int64_t>(item_size(dtype));
    length_ = std::min({data_.count - done_, context.max_count,
                        std::max<std::int64_t>(1, kChunkBytes / item / ranks)});
    t = {.kind = TransferKind::all_to_all,
         .group = context.group.id,
         .in = at(data_.in, done_, dtype),
         .out = scratch_of(context, length_ * ranks, dtype),
         .dtype = dtype,
         .count = length_,
         .in_stride = data_.count,
         .skips_own = true};
    return true;
  }

 private:
  Frame frame_;
  Operands data_;
  std::int64_t done_ = 0;
  std::int64_t length_ = 0;
};

class GatherText : public Plan {
 public:
  GatherText(std::string text, std::vector<std::string>& texts)
      : text_(std::move(text)), texts_(texts) {}

  bool next(PlanContext& context, Transfer& t) override {
    if (all_.empty()) {
      for (const Frame& frame : context.frames) {
        std::uint64_t length = 0;
        std::memcpy(&length, frame.payload.data(), sizeof length);
        lengths_.push_back(static_cast<std::size_t>(length));
      }
      longest_ = *std::max_element(lengths_.begin(), lengths_.end());
      text_.resize(longest_);
      all_.resize(std::max<std::size_t>(1, longest_ * lengths_.size()));
    } else {
      done_ += transferred_;
    }
    const auto left = static_cast<std::int64_t>(longest_) - done_;
    if (left == 0) return keep();
    transferred_ = std::min(left, context.max_count);
    t = {.kind = TransferKind::all_gather,
         .group = context.group.id,
         .in = text_.data() + done_,
         .out = all_.data() + done_,
         .count = transferred_,
         .in_stride = static_cast<std::int64_t>(longest_),
         .out_stride = static_cast<std::int64_t>(longest_)};
    return true;
  }

 private:
  bool keep() {
    for (std::size_t r = 0; r < lengths_.size(); ++r)
      texts_.push_back(all_.substr(r * longest_, lengths_[r]));
    return false;
  }

  std::string text_, all_;
  std::vector<std::string>& texts_;
  std::vector<std::size_t> lengths_;
  std::size_t longest_ = 0;
  std::int64_t done_ = 0, transferred_ = 0;
};

struct ColorAndKey {
  int color, key;
};

class Split : public Plan {
 public:
  explicit Split(std::shared_ptr<Group>& made) : made_(made) {}

  bool next(PlanContext& context, Transfer&) override {
    const Group& from = context.group;
    const ColorAndKey mine = of(context.frames[static_cast<std::size_t>(from.rank)]);
    std::vector<int> members;
    for (int r = 0; r < from.size; ++r)
      if (of(context.frames[static_cast<std::size_t>(r)]).color == mine.color) members.push_back(r);
    std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
      return of(context.frames[static_cast<std::size_t>(a)]).key <
             of(context.frames[static_cast<std::size_t>(b)]).key;
    });
    auto group = std::make_shared<Group>();
    const std::string failure = context.transport.split(from.id, mine.color, mine.key, group->id);
    if (!failure.empty()) fail<CommError>("split", {.what = failure});
    const auto self = std::find(members.begin(), members.end(), from.rank);
    group->rank = static_cast<int>(self - members.begin());
    group->size = static_cast<int>(members.size());
    for (const int r : members)
      group->world_ranks.push_back(from.world_ranks[static_cast<std::size_t>(r)]);
    made_ = std::move(group);
    return false;
  }

 private:
  static ColorAndKey of(const Frame& frame) {
    ColorAndKey value{};
    std::memcpy(&value, frame.payload.data(), sizeof value);
    return value;
  }

  std::shared_ptr<Group>& made_;
};

}  // namespace

std::size_t bytes_in_frame(const Frame& frame, const Operands& operands) {
  const bool possible = frame.kind == FrameKind::all_reduce ||
                        frame.kind == FrameKind::all_gather || frame.kind == FrameKind::broadcast;
  const std::size_t bytes = static_cast<std::size_t>(operands.count) * item_size(frame.dtype);
  return possible && bytes <= frame.payload.size() ? bytes : 0;
}

std::unique_ptr<Plan> plan_for(const Frame& frame, const Operands& operands, bool in_frame,
                               std::int64_t max_count) {
  if (in_frame) return std::make_unique<InFrame>(frame, operands);
  // Libraries cannot reduce and scatter a part of each block.
  const bool in_parts = frame.kind == FrameKind::reduce_scatter && operands.count > max_count;
  const bool ordered = frame.order != kFast || in_parts;
  if (frame.kind == FrameKind::all_reduce && ordered)
    return std::make_unique<OrderedAllReduce>(frame, operands);
  if (frame.kind == FrameKind::reduce_scatter && ordered)
    return std::make_unique<OrderedReduceScatter>(frame, operands);
  return std::make_unique<Direct>(frame, operands);
}

std::unique_ptr<Plan> gather_text_plan(std::string text, std::vector<std::string>& texts) {
  return std::make_unique<GatherText>(std::move(text), texts);
}

void put_length(Frame& frame, std::size_t length) {
  const std::uint64_t value = length;
  std::memcpy(frame.payload.data(), &value, sizeof value);
}

std::unique_ptr<Plan> split_plan(std::shared_ptr<Group>& made) {
  return std::make_unique<Split>(made);
}

void put_split(Frame& frame, int color, int key) {
  const ColorAndKey value{color, key};
  std::memcpy(frame.payload.data(), &value, sizeof value);
}

void put_name(Frame& frame, std::string_view name) {
  std::memcpy(frame.payload.data(), name.data(), std::min(name.size(), frame.payload.size()));
}

}  // namespace mezzo::comm::detail
