// Checkpoints of a training in several processes: rank 0 writes, any number of ranks loads.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "trainees.h"

using namespace trainees;

namespace {

struct DropoutNet : nn::Model<DropoutNet> {
  nn::Linear fc1 = add("fc1", nn::Linear{784, 16});
  nn::Dropout drop = add("drop", nn::Dropout{0.5});
  nn::Linear fc2 = add("fc2", nn::Linear{16, 10});
  Tensor forward(const Tensor& x) const { return fc2(drop(relu(fc1(x.flatten(1))))); }
};

/** A training of a group of ranks. */
struct ResumableTraining {
  DropoutNet model;
  optim::AdamW optimizer{model.parameters(), {.lr = 0.01}};
  Generator own{5};
  amp::Session session = amp::initialize(model, optimizer, quiet("O2"));
  nn::DistributedDataParallel<DropoutNet> net;
  int rank, done = 0;

  explicit ResumableTraining(const comm::Communicator& group)
      : net((manual_seed(3), model), {.comm = group}), rank(group.rank()) {}

  void step() {
    optimizer.zero_grad();
    const auto number = static_cast<std::uint64_t>(100 * ++done + rank);
    amp::scale_loss(cross_entropy(net(images(number, 4)), labels(number, {4}, 10)), optimizer,
                    [](const Tensor& loss) { loss.backward(); });
    (void)optimizer.step();
  }
  amp::Training parts() {
    return {
        .model = model, .optimizer = optimizer, .session = session, .generator = own, .step = done};
  }
  states::State state() {
    states::State all;
    add_state(all, model, optimizer, session);
    return all;
  }
};

/** A directory that all ranks use, removed by rank 0. */
class SharedDirectory {
 public:
  SharedDirectory() {
    const auto own =
        std::filesystem::temp_directory_path() /
        ("mezzo_ranks_" +
         std::to_string(comm::signature_of(std::to_string(
             reinterpret_cast<std::uintptr_t>(this) ^ static_cast<std::uintptr_t>(::getpid())))));
    path = ranks().gather_text(own.string())[0];
  }
  ~SharedDirectory() {
    ranks().barrier();
    if (ranks().rank() == 0) std::filesystem::remove_all(path);
  }
  std::string path;
};

/** Returns the ranks below `count` as a group, and the others as another one. */
comm::Communicator first_ranks(int count) { return ranks().split(ranks().rank() < count ? 0 : 1); }

}  // namespace

TEST_CASE("a training in several processes resumes bit for bit") {
  const SharedDirectory directory;
  ResumableTraining first(ranks());
  for (int i = 0; i < 3; ++i) first.step();
  (void)amp::save_checkpoint(directory.path, first.parts());
  for (int i = 0; i < 3; ++i) first.step();
  const states::State expected = first.state();
  const Generator random = default_generator();
  first.net.close();

  ResumableTraining second(ranks());
  second.step();
  second.own.draw = 77;
  CHECK(amp::load_checkpoint(directory.path, second.parts()).step == 3);
  CHECK(second.own == Generator{5});
  second.done = 3;
  for (int i = 0; i < 3; ++i) second.step();
  CHECK(states::difference(expected, second.state()) == "");
  CHECK(default_generator() == random);
}

TEST_CASE("a checkpoint of a ranks is loaded by b ranks") {
  const int n = ranks().size();
  for (int from = 1; from <= n; ++from)
    for (int to = 1; to <= n; ++to) {
      const SharedDirectory directory;
      const comm::Communicator writers = first_ranks(from), readers = first_ranks(to);
      INFO(from << " ranks to " << to);
      std::string saved;
      if (ranks().rank() < from) {
        ResumableTraining training(writers);
        for (int i = 0; i < 2; ++i) training.step();
        (void)amp::save_checkpoint(directory.path, training.parts());
        for (const auto& [name, bytes] : training.state()) saved += name + bytes;
      }
      saved = std::to_string(comm::signature_of(saved));
      const std::string expected = ranks().gather_text(saved)[0];
      if (ranks().rank() < to) {
        ResumableTraining training(readers);
        training.step();
        (void)amp::load_checkpoint(directory.path, training.parts());
        std::string loaded;
        for (const auto& [name, bytes] : training.state()) loaded += name + bytes;
        CHECK(std::to_string(comm::signature_of(loaded)) == expected);
        training.step();
        CHECK_NOTHROW(training.step());
      }
      ranks().barrier();
    }
}

TEST_CASE("an error of a checkpoint on one rank is an error on all") {
  const int n = ranks().size(), rank = ranks().rank();
  if (n == 1) return;
  const SharedDirectory directory;
  ResumableTraining training(ranks());
  training.step();
  const std::string blocked = directory.path + "/file";
  std::filesystem::create_directories(directory.path);
  ranks().barrier();
  if (rank == 0) std::ofstream(blocked) << "in the way";
  CHECK_THROWS_WITH_AS_TEXT(amp::save_checkpoint(blocked, training.parts()), IoError,
                            rank == 0 ? "save_checkpoint" : "rank 0 failed: save_checkpoint");
  amp::Training parts = training.parts();
  parts.step = rank == n - 1 ? -1 : 1;
  if (rank == n - 1)
    CHECK_THROWS_AS(amp::save_checkpoint(directory.path, parts), ValueError);
  else
    CHECK_THROWS_WITH_AS_TEXT(amp::save_checkpoint(directory.path, parts), IoError,
                              "rank " + std::to_string(n - 1) + " failed: save_checkpoint");
  (void)amp::save_checkpoint(directory.path, training.parts());
  const std::string path = rank == 1 ? directory.path + "/missing" : directory.path;
  CHECK_THROWS_WITH_AS_TEXT(amp::load_checkpoint(path, training.parts()), IoError,
                            rank == 1 ? "load_checkpoint" : "rank 1 failed: load_checkpoint");
  CHECK_NOTHROW(training.step());
  CHECK(difference_between_ranks(training.state()) == "");
}
