// Different ways to reduce the same gradients, and to use different parameters on different ranks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weighted.h"

namespace trainees {

inline constexpr double kTinyMib = 1e-9;  // every gradient completes a bucket

inline Tensor normal(std::uint64_t seed, const Shape& shape) {
  return seeded(seed, [&] { return randn(shape); });
}

/** Options that divide the same gradients in different ways. */
inline std::vector<std::pair<std::string, Options>> bucketings() {
  return {{"default", {.comm = ranks()}},
          {"one bucket", {.comm = ranks(), .bucket_mib = 1000, .first_bucket_mib = 1000}},
          {"a bucket for each",
           {.comm = ranks(), .bucket_mib = kTinyMib, .first_bucket_mib = kTinyMib}},
          {"no overlap", {.comm = ranks(), .first_bucket_mib = kTinyMib, .overlap = false}},
          {"copied", {.comm = ranks(), .first_bucket_mib = 1e-5, .gradients_are_views = false}},
          {"fast", {.comm = ranks(), .first_bucket_mib = 1e-5, .order = comm::Order::fast}},
          {"predivided", {.comm = ranks(), .first_bucket_mib = kTinyMib, .predivide_factor = 4}},
          {"static", {.comm = ranks(), .first_bucket_mib = 1e-5, .static_graph = true}}};
}

/** Returns whether a rank's loss depends on a parameter in a step. */
using Use = bool (*)(int rank, int step, std::size_t i);

inline const std::vector<std::pair<std::string, Use>> kUses{
    {"the same on all ranks", [](int, int, std::size_t i) { return i % 3 != 1; }},
    {"different", [](int r, int, std::size_t i) { return (static_cast<int>(i) + r) % 3 != 1; }},
    {"all but on one rank", [](int r, int, std::size_t i) { return r != 0 || i == 2; }},
    {"none but on one rank", [](int r, int, std::size_t i) { return r == 0 || i == 2; }},
    {"other ones in each step",
     [](int r, int step, std::size_t i) {
       return (static_cast<int>(i) + r * step) % 4 != step % 4;
     }},
    {"different halves",
     [](int r, int, std::size_t i) { return i == 0 || (i < 4) == (r % 2 == 0); }},
};

}  // namespace trainees
