// Small trainings that several processes, or one that accumulates, run on the same data.
#pragma once

#include <mezzo.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../../samples/nets/char_gpt.h"
#include "../../samples/nets/char_lstm.h"
#include "../../samples/nets/mlp.h"
#include "../support/catch.h"
#include "../support/state.h"
#include "../support/throws.h"

namespace trainees {

using namespace mezzo;

/** Returns all ranks, which the first call connects. */
inline const comm::Communicator& ranks() {
  static const comm::World world = comm::init();
  static const comm::Communicator all = world.all();
  return all;
}

/** LeNet without batch norm, whose statistics depend on the size of a batch. */
struct PlainLeNet : nn::Model<PlainLeNet> {
  nn::Conv2d conv1 = add("conv1", nn::Conv2d{1, 4, 5, {.padding = 2}});
  nn::Conv2d conv2 = add("conv2", nn::Conv2d{4, 8, 5, {.padding = 2}});
  nn::Linear fc1 = add("fc1", nn::Linear{8 * 7 * 7, 16});
  nn::Linear fc2 = add("fc2", nn::Linear{16, 10});
  Tensor forward(const Tensor& x) const {
    const Tensor a = max_pool2d(relu(conv1(x)), 2), b = max_pool2d(relu(conv2(a)), 2);
    return fc2(relu(fc1(b.flatten(1))));
  }
};

/** A model and the loss of its micro-batches, which are numbered. */
struct Trainee {
  nn::Module module;
  std::function<Tensor(std::uint64_t micro_batch)> loss;
};

/** Returns draw() with the default generator at a seed, and restores the generator. */
template <class F> Tensor seeded(std::uint64_t seed, const F& draw) {
  const Generator former = std::exchange(default_generator(), Generator{seed});
  const Tensor drawn = draw();
  default_generator() = former;
  return drawn;
}

inline Tensor images(std::uint64_t number, std::int64_t count) {
  return seeded(number + 7, [&] { return randn({count, 1, 28, 28}); });
}

inline Tensor labels(std::uint64_t number, const Shape& shape, std::int64_t classes) {
  return seeded(number + 1'000'003, [&] { return randint(0, classes, shape); });
}

template <class M> Trainee image_trainee(M model) {
  return {model, [model](std::uint64_t number) {
            return cross_entropy(model(images(number, 4)), labels(number, {4}, 10));
          }};
}

template <class M> Trainee text_trainee(M model, bool time_first) {
  return {model, [model, time_first](std::uint64_t number) {
            const Shape shape = time_first ? Shape{6, 2} : Shape{2, 6};
            const Tensor text = labels(number, shape, 11), next = labels(number + 31, {12}, 11);
            if constexpr (requires { model(text).logits; })
              return cross_entropy(model(text).logits.flatten(0, 1), next);
            else
              return cross_entropy(model(text).flatten(0, 1), next);
          }};
}

/** "mlp", "lenet", "char_gpt" or "char_lstm", with the weights of a seed. */
inline Trainee make(const std::string& net, std::uint64_t seed = 1) {
  manual_seed(seed);
  if (net == "mlp") return image_trainee(samples::Mlp(24));
  if (net == "lenet") return image_trainee(PlainLeNet());
  if (net == "char_gpt")
    return text_trainee(
        samples::CharGpt({.vocabulary = 11, .block = 6, .layers = 2, .heads = 2, .width = 8}),
        false);
  return text_trainee(samples::CharLstm({.vocabulary = 11, .width = 8, .layers = 2}), true);
}

using MadeOptimizer = std::unique_ptr<optim::Optimizer>;

/** "SGD", "AdamW" or "LAMB". */
inline MadeOptimizer make_optimizer(const std::string& name, const nn::Module& model) {
  if (name == "SGD")
    return std::make_unique<optim::SGD>(model.parameters(),
                                        optim::SgdOptions{.lr = 0.05, .momentum = 0.9});
  if (name == "AdamW")
    return std::make_unique<optim::AdamW>(model.parameters(), optim::AdamWOptions{.lr = 0.01});
  return std::make_unique<optim::FusedLAMB>(model.parameters(),
                                            optim::FusedLambOptions{.lr = 0.01});
}

inline amp::Options quiet(const std::string& level) {
  amp::Options options;
  options.opt_level = level;
  options.verbosity = 0;
  return options;
}

/** Returns whether scopes of scale_loss do anything at a level. */
inline bool scales(const std::string& level) {
  return level != "O0" && level != "O3" && level != "O4";
}

/** Adds the tensors and numbers that a step changes. */
inline void add_state(states::State& state, const nn::Module& module, optim::Optimizer& optimizer,
                      const amp::Session& session) {
  for (const nn::NamedTensor& p : module.named_parameters())
    state[p.name] = states::bytes_of(p.tensor);
  for (const nn::NamedTensor& b : module.named_buffers())
    state[b.name] = states::bytes_of(b.tensor);
  const std::vector<Tensor> masters = amp::master_params(optimizer);
  for (std::size_t i = 0; i < masters.size(); ++i)
    state["master " + std::to_string(i)] = states::bytes_of(masters[i]);
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (std::size_t i = 0; i < optimizer.slots(group).size(); ++i)
      for (std::size_t k = 0; k < optim::kMaxStates; ++k)
        if (const Tensor x = optimizer.slots(group)[i].state[k]; x.defined())
          state["state " + std::to_string(i) + "." + std::to_string(k)] = states::bytes_of(x);
  for (const auto& [name, values] : session.state_dict())
    for (const auto& [key, value] : values) state[name + "." + key] = states::bytes_of(value);
}

/** Returns the names of the entries that differ from those of rank 0; empty where all are equal. */
inline std::string difference_between_ranks(const states::State& state) {
  std::string text;
  for (const auto& [name, bytes] : state)
    text += name + " " + std::to_string(comm::signature_of(bytes)) + "\n";
  const std::vector<std::string> texts = ranks().gather_text(text);
  for (std::size_t r = 1; r < texts.size(); ++r)
    if (texts[r] != texts[0]) return "rank " + std::to_string(r) + ": " + texts[r] + texts[0];
  return {};
}

}  // namespace trainees
