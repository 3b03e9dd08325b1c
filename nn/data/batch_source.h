// BatchSource: gathers the samples of a batch, from tensors or from a data set of any type. Private
// to nn/data/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "batches.h"

namespace mezzo::data {

/** The order of an epoch, and the random numbers of its samples. */
struct EpochOrder {
  std::vector<std::int64_t> indices;  // of the samples
  /** For each position: the number of earlier occurrences of its index; empty if no index occurs
   *  twice. */
  std::vector<std::int64_t> repeats = {};
  Generator samples = {};  // of the epoch
};

/** Returns the order of an epoch over `size` samples. Errors: those of the sampler; IndexError if
 *  it returns samples that do not exist. */
EpochOrder order_of_epoch(std::int64_t size, const BatchOptions& options, std::uint64_t epoch);

/** Returns the generator from which the samples of an epoch split theirs. */
Generator generator_of_samples(std::uint64_t seed, std::uint64_t epoch);

/** Returns what `read` returns, which has `own` as the thread's default generator. Errors: those of
 *  `read`, with a text that begins with the name of the sample. */
std::optional<Sample> read_sample(const std::function<std::optional<Sample>()>& read,
                                  const Generator& own, const std::string& name);

/** Joins samples by `collate`, or stacks them if that is empty. Errors: those of collate(), with
 *  the name "op(sample numbers[i])"; ValueError if `collate` returns no batch. */
Batch join_samples(const std::vector<Sample>& samples, std::string_view op,
                   std::span<const std::int64_t> numbers, const Collate& collate, bool pinned);

/** Where the samples of batches come from. Used by several threads at a time. */
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /** Returns the number of samples. */
  virtual std::int64_t size() const = 0;
  /** Returns the device of the batches. */
  virtual Device device() const = 0;
  /** Returns a batch of the samples at places first..first+count-1 of the order. */
  virtual Batch gather(const EpochOrder& order, std::int64_t first, std::int64_t count,
                       bool pinned) const = 0;
};

/** Gathers rows of row-major tensors, on any device. */
std::unique_ptr<BatchSource> source_of(const Tensor& x, const Tensor& y);
/** Gathers samples one by one. An empty `collate` stacks them. */
std::unique_ptr<BatchSource> source_of(const AnyDataset& set, const Collate& collate);

}  // namespace mezzo::data
