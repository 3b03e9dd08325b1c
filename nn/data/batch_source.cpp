#include "batch_source.h"

#include <cstring>
#include <exception>
#include <string>

#include "../../tensor/core/error.h"
#include "../../tensor/ops/index/index.h"
#include "../../tensor/random/draw.h"
#include "../../tensor/text/text.h"
#include "plain_work.h"

namespace mezzo::data {

namespace {

// ---- orders -------------------------------------------------------------------------------------

/** Returns for each position the number of earlier occurrences of its index; empty if no index
 *  occurs twice. Errors: IndexError for an index outside 0..size-1. */
std::vector<std::int64_t> repeats_in(const std::vector<std::int64_t>& indices, std::int64_t size) {
  std::vector<std::int64_t> seen(static_cast<std::size_t>(size)), repeats;
  bool repeated = false;
  for (const std::int64_t index : indices) {
    detail::require_sample("batches(sampler)", index, size);
    repeats.push_back(seen[static_cast<std::size_t>(index)]++);
    repeated |= repeats.back() > 0;
  }
  if (!repeated) repeats.clear();
  return repeats;
}

/** Returns the generator of the sample at a place. */
Generator generator_at(const EpochOrder& order, std::size_t place, std::int64_t size) {
  const std::int64_t repeat = order.repeats.empty() ? 0 : order.repeats[place];
  return split(order.samples.seed,
               static_cast<std::uint64_t>(order.indices[place] + size * repeat));
}

// ---- rows of tensors ----------------------------------------------------------------------------

/** Returns a copy of the rows at `indices`. */
Tensor rows_of(const Tensor& from, std::span<const std::int64_t> indices, bool pinned) {
  Shape shape = from.shape();
  shape[0] = static_cast<std::int64_t>(indices.size());
  const Tensor out = empty_tensor(shape, from.dtype(), cpu, pinned);
  const std::size_t bytes =
      static_cast<std::size_t>(from.numel() / from.size(0)) * item_size(from.dtype());
  const char* source = static_cast<const char*>(from.raw_data());
  char* target = static_cast<char*>(out.raw_data());
  for (std::size_t i = 0; i < indices.size(); ++i)
    std::memcpy(target + i * bytes, source + static_cast<std::size_t>(indices[i]) * bytes, bytes);
  return out;
}

Tensor index_tensor(std::span<const std::int64_t> indices) {
  const Tensor out = empty_tensor({static_cast<std::int64_t>(indices.size())}, DType::i64, cpu);
  std::memcpy(out.raw_data(), indices.data(), indices.size_bytes());
  return out;
}

/** Returns a copy of the rows at `indices`, on the device of the data set. */
Tensor pick(const Tensor& from, std::span<const std::int64_t> indices, bool pinned) {
  if (from.device() == cpu) return rows_of(from, indices, pinned);
  return index_select(from, 0, index_tensor(indices).to(from.device()));
}

class Rows final : public BatchSource {
 public:
  Rows(const Tensor& x, const Tensor& y) : x_(x), y_(y) {}
  std::int64_t size() const override { return x_.size(0); }
  Device device() const override { return x_.device() == cpu ? y_.device() : x_.device(); }
  Batch gather(const EpochOrder& order, std::int64_t first, std::int64_t count,
               bool pinned) const override {
    const PlainWork plain;
    const std::span indices(order.indices.data() + first, static_cast<std::size_t>(count));
    return {pick(x_, indices, pinned), pick(y_, indices, pinned)};
  }

 private:
  Tensor x_, y_;
};

// ---- single samples -----------------------------------------------------------------------------

/** Throws the error again, as the first of the types that it is, with another text. */
template <class First, class... Rest>
[[noreturn]] void throw_as(const std::exception& error, const std::string& text) {
  if (dynamic_cast<const First*>(&error) != nullptr) throw First(text);
  if constexpr (sizeof...(Rest) > 0)
    throw_as<Rest...>(error, text);
  else
    throw Error(text);
}

/** Throws an error of a sample again with a text that names the sample. */
[[noreturn]] void throw_named(const std::exception& error, const std::string& name) {
  throw_as<ShapeError, DtypeError, DeviceError, IndexError, ValueError, StateError, SizeError,
           OutOfMemory, Unsupported, IoError, FormatError>(
      error, error_text(name, {.what = error.what()}));
}

/** Returns a copy in pinned memory. */
Tensor pinned_copy(const Tensor& from) {
  if (!from.defined() || !(from.device() == cpu)) return from;
  const Tensor row_major = from.contiguous(),
               out = empty_tensor(from.shape(), from.dtype(), cpu, true);
  const std::size_t bytes = static_cast<std::size_t>(out.numel()) * item_size(out.dtype());
  if (bytes > 0) std::memcpy(out.raw_data(), row_major.raw_data(), bytes);
  return out;
}

Tensor none_of(const Tensor& t) { return t.defined() ? t.narrow(0, 0, 0).contiguous() : t; }

class Singles final : public BatchSource {
 public:
  Singles(const AnyDataset& set, const Collate& collate)
      : set_(set), collate_(collate), size_(set.size()) {}
  std::int64_t size() const override { return size_; }
  Device device() const override { return cpu; }
  Batch gather(const EpochOrder& order, std::int64_t first, std::int64_t count,
               bool pinned) const override {
    const PlainWork plain;
    if (count == 0) return none_like(joined(order, 0, 1, false));
    return joined(order, first, count, pinned);
  }

 private:
  /** Returns a batch of no sample, in the shape that others have. */
  static Batch none_like(const Batch& one) { return {none_of(one.x), none_of(one.y)}; }

  Batch joined(const EpochOrder& order, std::int64_t first, std::int64_t count, bool pinned) const {
    std::vector<Sample> samples;
    for (std::int64_t i = first; i < first + count; ++i) {
      const auto place = static_cast<std::size_t>(i);
      const std::int64_t index = order.indices[place];
      samples.push_back(*read_sample([&] { return std::optional(set_.get(index)); },
                                     generator_at(order, place, size_),
                                     str("batches(sample ", index, ")")));
    }
    return join_samples(samples, "batches",
                        std::span(order.indices.data() + first, static_cast<std::size_t>(count)),
                        collate_, pinned);
  }

  AnyDataset set_;
  Collate collate_;
  std::int64_t size_;
};

}  // namespace

Generator generator_of_samples(std::uint64_t seed, std::uint64_t epoch) {
  // Streams below 2^32 are those of orders, the next 2^32 those of ranks (use_own_random_stream).
  constexpr std::uint64_t kSampleStreams = std::uint64_t{1} << 33;
  return split(seed, kSampleStreams + epoch);
}

std::optional<Sample> read_sample(const std::function<std::optional<Sample>()>& read,
                                  const Generator& own, const std::string& name) {
  const GeneratorScope scope(own);
  try {
    return or_out_of_memory("get", read);
  } catch (const std::exception& error) {
    throw_named(error, name);
  }
}

Batch join_samples(const std::vector<Sample>& samples, std::string_view op,
                   std::span<const std::int64_t> numbers, const Collate& collate, bool pinned) {
  if (!collate) return detail::stacked(samples, op, numbers, pinned);
  const Batch batch = collate(samples);
  if (!batch.x.defined())
    fail<ValueError>("batches(collate)", {.what = "x of the batch is an undefined tensor"});
  return pinned ? Batch{pinned_copy(batch.x), pinned_copy(batch.y)} : batch;
}

EpochOrder order_of_epoch(std::int64_t size, const BatchOptions& options, std::uint64_t epoch) {
  const Generator generator = split(options.seed, epoch),
                  samples = generator_of_samples(options.seed, epoch);
  if (options.sampler) {
    std::vector<std::int64_t> indices = options.sampler(size, generator);
    std::vector<std::int64_t> repeats = repeats_in(indices, size);
    return {std::move(indices), std::move(repeats), samples};
  }
  const auto indices =
      options.shuffle ? RandomSampler{}(size, generator) : SequentialSampler{}(size, generator);
  return {indices, {}, samples};
}

std::unique_ptr<BatchSource> source_of(const Tensor& x, const Tensor& y) {
  return std::make_unique<Rows>(x, y);
}

std::unique_ptr<BatchSource> source_of(const AnyDataset& set, const Collate& collate) {
  return std::make_unique<Singles>(set, collate);
}

}  // namespace mezzo::data
