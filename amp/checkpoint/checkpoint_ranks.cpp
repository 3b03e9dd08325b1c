#include "checkpoint_ranks.h"

#include <vector>

#include "../../autograd/gradient_receiver.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"

namespace mezzo::amp {

comm::Communicator ranks_of(const Training& training) {
  comm::Communicator ranks;
  for (const auto& model : training.model)
    for (const Tensor& parameter : model.object->parameters())
      if (const GradientReceiver* const receiver = gradient_receiver(parameter)) {
        if (ranks.size() > 1 && receiver->ranks().size() != ranks.size())
          fail<ValueError>("checkpoint",
                           {.what = "the models are trained by different ranks",
                            .got = str(ranks.size(), " and ", receiver->ranks().size(), " ranks"),
                            .hint = "save each model in a checkpoint of its own"});
        ranks = receiver->ranks();
      }
  return ranks;
}

void on_all_ranks(const comm::Communicator& ranks, std::string_view op,
                  const std::function<void()>& work) {
  if (ranks.size() == 1) return work();
  std::exception_ptr failure;
  std::string text;
  try {
    work();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    text = str("failed: ", error.what());
  }
  const std::vector<std::string> texts = ranks.gather_text(text);
  if (failure) std::rethrow_exception(failure);
  for (std::size_t r = 0; r < texts.size(); ++r)
    if (!texts[r].empty()) fail<IoError>(op, {.what = str("rank ", r, " ", texts[r])});
}

namespace {

/** Returns the two halves of a number, which doubles hold exactly. */
void append(std::vector<double>& numbers, std::uint64_t value) {
  numbers.push_back(static_cast<double>(value >> 32));
  numbers.push_back(static_cast<double>(value & 0xffffffff));
}

std::uint64_t take(const double*& numbers) {
  const auto high = static_cast<std::uint64_t>(*numbers++);
  return high << 32 | static_cast<std::uint64_t>(*numbers++);
}

Generator take_generator(const double*& numbers) {
  const std::uint64_t seed = take(numbers);
  return {seed, take(numbers)};
}

}  // namespace

void gather_generators(const comm::Communicator& ranks, const Training& training,
                       CheckpointState& state) {
  if (ranks.size() == 1) return;
  std::vector<double> mine;
  const auto add = [&](const Generator& generator) {
    append(mine, generator.seed);
    append(mine, generator.draw);
  };
  add(default_generator());
  for (const auto& generator : training.generator) add(*generator.object);
  const std::vector<double> all = ranks.gather(mine);
  for (std::size_t r = 1; r < static_cast<std::size_t>(ranks.size()); ++r) {
    const double* numbers = all.data() + r * mine.size();
    RankGenerators& of_rank = state.ranks[std::to_string(r)];
    of_rank.default_generator = take_generator(numbers);
    for (const auto& generator : training.generator)
      of_rank.generators[generator.name] = take_generator(numbers);
  }
}

RankGenerators generators_for(int rank, const CheckpointState& saved) {
  if (rank == 0) return {saved.default_generator, saved.generators};
  if (const auto found = saved.ranks.find(std::to_string(rank)); found != saved.ranks.end())
    return found->second;
  log_text(Severity::warning,
           "load_checkpoint: this rank was not saved and starts new streams of random numbers");
  const auto own = [&](Generator generator) {
    use_own_random_stream(generator, rank);
    return generator;
  };
  RankGenerators out{own(saved.default_generator), {}};
  for (const auto& [name, generator] : saved.generators) out.generators[name] = own(generator);
  return out;
}

}  // namespace mezzo::amp
