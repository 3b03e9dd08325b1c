// StreamDataset: a data set that is read from its beginning to its end, without a size.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "any_dataset.h"

namespace mezzo::data {

/** The part of a data set that one stream reads. */
struct StreamPart {
  std::uint64_t seed = 0;   // BatchOptions::seed
  std::uint64_t epoch = 0;  // number of completed epochs
  std::int64_t index = 0;  // of the part: of the workers of process 0 first, then of process 1, ...
  std::int64_t count = 1;  // number of parts: processes times workers
};

/** A type that StreamDataset reads: `std::optional<Sample> next()` returns the next sample, or
 *  nothing at the end. */
template <class T>
concept SampleStream = requires(T& stream) {
  { stream.next() } -> std::convertible_to<std::optional<Sample>>;
};

/** A function that opens a stream, of any type that is a SampleStream. */
template <class F>
concept OpensStream = requires(const F& open, const StreamPart& part) {
  { open(part) } -> SampleStream;
};

/** A data set of samples that are read one after the other, such as the lines of files or messages
 *  of a network. Each epoch opens a stream for each worker of each process. They share the samples:
 *  of the streams of one epoch, each sample is to be returned by one, for example by that whose
 *  index is the number of the file modulo `count`. Copies share the function. */
class MZ_API StreamDataset {
 public:
  /** Reads one stream. Returns nothing at its end. */
  using Next = std::function<std::optional<Sample>()>;

  /** Constructs from a function that opens the stream of a part. It is called when an epoch begins;
   *  the stream is read by one thread at a time. */
  template <OpensStream F>
  explicit StreamDataset(F open)
      : open_([open = std::move(open)](const StreamPart& part) -> Next {
          using Stream = decltype(open(part));
          return [stream = std::make_shared<Stream>(open(part))] { return stream->next(); };
        }) {}

  /** Opens the stream of a part. Errors: those of the function. */
  Next open(const StreamPart& part) const { return open_(part); }

 private:
  std::function<Next(const StreamPart&)> open_;
};

}  // namespace mezzo::data
