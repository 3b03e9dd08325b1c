// What is said where ranks are in different operations.
#include "../../tensor/comm/job.h"

#include "../support/catch.h"

using namespace mezzo;
using comm::detail::Frame;
using comm::detail::FrameKind;

namespace {

std::string got(const Frame& a, const Frame& b) {
  const Frame frames[] = {a, a, b};
  const std::string text = comm::detail::mismatch(frames).value_or("none");
  const std::string before = "comm: ranks are not in the same operation; got ";
  const std::string after = ", expected the same calls in the same order on all ranks";
  if (text.size() < before.size() + after.size()) return text;
  CHECK(text.starts_with(before));
  CHECK(text.ends_with(after));
  return text.substr(before.size(), text.size() - before.size() - after.size());
}

}  // namespace

TEST_CASE("a mismatch of operations names what differs", "[frame]") {
  const Frame sum{.kind = FrameKind::all_reduce, .dtype = f32, .order = 1, .count = 4};
  CHECK(got(sum, sum) == "none");

  Frame other = sum;
  other.payload[0] = std::byte{1};
  CHECK(got(sum, other) == "none");

  other = sum;
  other.count = 8;
  CHECK(got(sum, other) ==
        "all_reduce(sum, ranks) of f32 x 4 on rank 0, "
        "all_reduce(sum, ranks) of f32 x 8 on rank 2");
  other = sum;
  other.dtype = f16, other.op = comm::Op::max, other.order = 0;
  CHECK(got(sum, other) ==
        "all_reduce(sum, ranks) of f32 x 4 on rank 0, "
        "all_reduce(max, fast) of f16 x 4 on rank 2");
  other = sum;
  other.sequence = 7;
  CHECK(got(sum, other) ==
        "all_reduce(sum, ranks) of f32 x 4 as operation 1 on rank 0, "
        "all_reduce(sum, ranks) of f32 x 4 as operation 8 on rank 2");
  CHECK(got({.kind = FrameKind::barrier},
            {.kind = FrameKind::broadcast, .dtype = i64, .count = 3, .number = 1}) ==
        "barrier on rank 0, broadcast(root 1) of i64 x 3 on rank 2");
}
