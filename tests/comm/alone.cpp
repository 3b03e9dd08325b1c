// A process that was started alone: everything works, and nothing is loaded or allocated.
#include <mezzo.h>

#include <cmath>
#include <fstream>

#include "../support/catch.h"
#include "../support/count_new.h"
#include "../support/throws.h"

using namespace mezzo;

namespace {

int threads() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "Threads:") return status >> word, std::stoi(word);
  return -1;
}

std::string mapped_libraries() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

}  // namespace

TEST_CASE("a world of one loads, starts and allocates nothing", "[alone]") {
  const Tensor x = full({4}, 3.0), out = full({4}, 0.0);
  const int threads_before = threads();
  const long before = count_new();
  const comm::World world = comm::init();
  const comm::Communicator c = world.all();
  c.all_reduce(x).wait();
  c.all_reduce(x, {.op = comm::Op::max, .order = comm::Order::fast, .label = "a label"}).wait();
  c.reduce_scatter(x, out).wait();
  c.all_gather(x, out).wait();
  c.all_to_all(x, out).wait();
  c.broadcast(x).wait();
  c.barrier();
  const double sum = c.sum(3.0), max = c.max(2.0);
  c.begin_round({.kind = "backward", .signature = 7}).wait();
  c.end_round();
  c.leave_round(nullptr);
  const comm::Communicator part = c.split(3);
  const long after = count_new();

  CHECK(after == before);
  CHECK(threads() == threads_before);
  CHECK(mapped_libraries().find("libmpi") == std::string::npos);
  CHECK(mapped_libraries().find("mezzo-mpi") == std::string::npos);
  CHECK(sum == 3.0);
  CHECK(max == 2.0);
  CHECK(x.to_vector<float>() == std::vector<float>{3, 3, 3, 3});
  CHECK(out.to_vector<float>() == x.to_vector<float>());
  CHECK(world.rank() == 0);
  CHECK(world.size() == 1);
  CHECK(world.local_rank() == 0);
  CHECK(world.shard().index == 0);
  CHECK(world.shard().count == 1);
  CHECK(world.is_main());
  CHECK(log_rank() == 0);
  CHECK(part.size() == 1);
  CHECK(part.rank() == 0);
  CHECK(world.device() == Device::best());
  CHECK(c.gather_text("line") == std::vector<std::string>{"line"});
  CHECK(c.gather(std::vector{1.0, 2.0}) == std::vector{1.0, 2.0});
  CHECK(comm::Pending().done());
}

TEST_CASE("wrong arguments of collectives are refused before anything is sent", "[alone]") {
  const comm::Communicator c = comm::init().all();
  const Tensor x = full({2, 3}, 1.0);
  CHECK_THROWS_WITH_AS_TEXT(c.all_reduce(x.t()), ShapeError,
                            "all_reduce: the tensor has gaps between its elements");
  CHECK_THROWS_WITH_AS_TEXT(c.all_reduce(x.to(boolean)), DtypeError,
                            "all_reduce: bool is not combined; got bool[2,3]@cpu; use x.to(u8)");
  CHECK_THROWS_WITH_AS_TEXT(c.all_reduce(x, {.order = comm::Order::fast, .f32_sum = true}),
                            ValueError,
                            "all_reduce: f32_sum does not work with Order::fast; expected "
                            "Order::ranks");
  CHECK_THROWS_WITH_AS_TEXT(c.all_reduce(Tensor()), ValueError, "undefined");
  CHECK_THROWS_WITH_AS_TEXT(c.all_gather(x, full({7}, 0.0)), ShapeError,
                            "all_gather: the numbers of elements do not fit; got f32[2,3]@cpu and "
                            "f32[7]@cpu, expected 1 to 1");
  CHECK_THROWS_WITH_AS_TEXT(c.all_gather(x, full({6}, 0.0).to(f16)), DtypeError,
                            "all_gather: the dtypes differ; got f32[2,3]@cpu and f16[6]@cpu");
  CHECK_THROWS_WITH_AS_TEXT(c.reduce_scatter(x, x), ValueError,
                            "reduce_scatter: the result overlaps the input; expected separate "
                            "memory");
  CHECK_THROWS_WITH_AS_TEXT(c.all_to_all(x.t(), full({6}, 0.0)), ShapeError,
                            "all_to_all: the tensors are not both row-major");
  CHECK_THROWS_WITH_AS_TEXT(c.broadcast(x, 1), IndexError,
                            "broadcast: there is no such rank; got root 1, expected 0 to 0");
  CHECK_THROWS_WITH_AS_TEXT(c.split(-1), ValueError, "split: the color is negative; got -1");
}

TEST_CASE("a mean of a process alone", "[alone]") {
  comm::Mean mean(comm::init().all());
  mean.add(3, 4);
  mean.add(std::nan(""), 0);
  CHECK(mean.value() == 0.75);
  mean.reset();
  CHECK(std::isnan(mean.value()));
}

TEST_CASE("the hash of signatures is FNV-1a", "[alone]") {
  CHECK(comm::signature_of("") == 0xcbf29ce484222325u);
  CHECK(comm::signature_of("a") == 0xaf63dc4c8601ec8cu);
  CHECK(comm::signature_of("foobar") == 0x85944171f73967e8u);
}
