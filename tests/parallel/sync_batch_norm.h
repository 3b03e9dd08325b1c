// A batch that is divided among ranks, and batch norm of the whole batch to compare with.
#pragma once

#include <mezzo.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "../comm/expected.h"
#include "../support/catch.h"

namespace mezzo::testing {

/** How many samples each rank has. */
struct Parts {
  std::string name;
  std::function<std::int64_t(int rank)> samples;

  std::int64_t before(int rank) const {
    std::int64_t sum = 0;
    for (int r = 0; r < rank; ++r) sum += samples(r);
    return sum;
  }
};

inline const std::vector<Parts>& all_parts() {
  static const std::vector<Parts> parts{
      {"equal parts", [](int) { return 3; }},
      {"unequal parts", [](int rank) { return 3 * rank + 4; }},
      {"rank 0 empty", [](int rank) { return rank == 0 && world().size() > 1 ? 0 : 4; }},
      {"only the last has samples", [](int rank) { return rank == world().size() - 1 ? 5 : 0; }}};
  return parts;
}

/** The same numbers on all ranks. */
inline Tensor shared_randn(const Shape& shape, std::uint64_t seed) {
  manual_seed(seed);
  return randn(shape, {.dtype = f64});
}

/** This rank's part of a batch. */
inline Tensor part_of(const Tensor& batch, const Parts& parts) {
  const int rank = world().rank();
  return batch.narrow(0, parts.before(rank), parts.samples(rank)).clone();
}

/** Returns the largest |a - b| divided by the largest |b|, or by 1 if that is less; infinity for
 *  other shapes and for NaN. */
inline double distance(const Tensor& a, const Tensor& b) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  if (!(a.shape() == b.shape())) return kFar;
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double most = 0, size = 1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i] - y[i])) return kFar;
    most = std::max(most, std::fabs(x[i] - y[i]));
    size = std::max(size, std::fabs(y[i]));
  }
  return most / size;
}

/** Returns true if all ranks of the world have the same bits. */
inline bool same_on_all_ranks(const Tensor& x) {
  const auto c = world().all();
  const Tensor mine = x.detach().contiguous().view({-1});
  const Tensor all = empty_tensor({c.size() * mine.numel()}, mine.dtype(), cpu);
  c.all_gather(mine, all).wait();
  const std::size_t bytes = static_cast<std::size_t>(mine.numel()) * item_size(mine.dtype());
  for (int r = 0; r < c.size(); ++r)
    if (std::memcmp(static_cast<const char*>(all.raw_data()) + static_cast<std::size_t>(r) * bytes,
                    mine.raw_data(), bytes) != 0)
      return false;
  return true;
}

/** Returns the sum of all ranks' x, in f64. */
inline Tensor sum_over_ranks(const Tensor& x) {
  const Tensor sum = x.detach().to(f64).contiguous().clone();
  world().all().all_reduce(sum).wait();
  return sum;
}

}  // namespace mezzo::testing
