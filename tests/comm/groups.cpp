// World, groups of ranks, host numbers and rounds that agree. Run by ../ranks.sh.
#include <algorithm>
#include <cstdlib>

#include "../support/catch.h"
#include "expected.h"

using namespace mezzo;
using namespace mezzo::testing;

TEST_CASE("the world is what was launched", "[groups]") {
  const char* const size = std::getenv("OMPI_COMM_WORLD_SIZE");
  CHECK(world().size() == (size ? std::atoi(size) : 1));
  CHECK(world().rank() < world().size());
  CHECK(world().local_rank() == world().rank());
  CHECK(comm::init().rank() == world().rank());
  CHECK(world().shard().index == world().rank());
  CHECK(world().shard().count == world().size());
  CHECK(world().device() == cpu);
}

TEST_CASE("host numbers and texts", "[groups]") {
  const auto c = world().all();
  const int ranks = c.size(), rank = c.rank();
  double sum = 0.1;
  for (int r = 1; r < ranks; ++r) sum += 0.1 * (r + 1);
  CHECK(c.sum(0.1 * (rank + 1)) == sum);
  CHECK(c.max(rank) == ranks - 1);
  CHECK(c.max(-1.0 - rank) == -1.0);
  CHECK(std::isnan(c.max(rank == ranks - 1 ? std::nan("") : 1.0)));

  for (const std::size_t n : {0u, 1u, 4u, 5u, 100u}) {
    std::vector<double> mine(n), expected;
    for (int r = 0; r < ranks; ++r)
      for (std::size_t i = 0; i < n; ++i) expected.push_back(r + 0.5 * static_cast<double>(i));
    std::copy_n(expected.begin() + static_cast<std::ptrdiff_t>(n) * rank, n, mine.begin());
    CHECK(c.gather(mine) == expected);
  }

  const auto text_of = [](int r) {
    return std::string(static_cast<std::size_t>(r * 1000), 'a') + "b";
  };
  const auto texts = c.gather_text(text_of(rank));
  REQUIRE(texts.size() == static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) CHECK(texts[static_cast<std::size_t>(r)] == text_of(r));
  for (const std::string& text : c.gather_text("")) CHECK(text.empty());
  c.barrier();
}

TEST_CASE("a split makes groups of one color, ordered by key", "[groups]") {
  const auto c = world().all();
  const int ranks = c.size(), rank = c.rank();
  const auto part = c.split(rank % 2, -rank);
  const int members = (ranks + 1 - rank % 2) / 2;
  CHECK(part.size() == members);
  CHECK(part.rank() == members - 1 - rank / 2);
  CHECK(part.max(rank) == (rank % 2 == (ranks - 1) % 2 ? ranks - 1 : ranks - 2));

  const Tensor x = full({5000}, rank);
  part.all_reduce(x).wait();
  c.barrier();
  double expected = 0;
  for (int r = rank % 2; r < ranks; r += 2) expected += r;
  CHECK(x.to_vector<double>() == std::vector<double>(5000, expected));

  const auto alone = part.split(part.rank());
  CHECK(alone.size() == 1);
  CHECK(alone.sum(rank) == rank);
  const auto same = c.split(0);
  CHECK(same.size() == ranks);
  CHECK(same.rank() == rank);
  CHECK(same.sum(1.0) == ranks);
}

TEST_CASE("rounds that agree go on", "[groups]") {
  const auto c = world().all();
  const auto details = std::make_shared<const std::string>("fc1.weight f32[3,4]\n");
  for (int step = 0; step < 5; ++step) {
    comm::Pending checked = c.begin_round({"backward", comm::signature_of(*details), details});
    const Tensor x = full({100}, 1.0);
    c.all_reduce(x, {.checked = false, .label = "bucket 1 of 1"}).wait();
    checked.wait();
    c.end_round();
    CHECK(x.to_vector<int>() == std::vector<int>(100, c.size()));
  }
  c.begin_round({"checkpoint", 1, nullptr}).wait();
  c.end_round();
}
