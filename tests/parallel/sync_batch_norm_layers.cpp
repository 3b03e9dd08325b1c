// Conversion of nets to synchronised batch norm, and such nets in groups, in evaluation, under
// mixed precision and under recomputation. Run by ../ranks.sh.
#include "../support/levels.h"
#include "../support/throws.h"
#include "sync_batch_norm.h"

using namespace mezzo;
using namespace mezzo::testing;

namespace {

struct Block : nn::Model<Block> {
  nn::Conv2d conv = add("conv", nn::Conv2d{3, 4, 3, {.padding = 1}});
  nn::BatchNorm2d norm = add("norm", nn::BatchNorm2d{4});
  nn::Conv2d again = add("again", nn::Conv2d{4, 4, 1});
  nn::BatchNorm2d last = add("last", nn::BatchNorm2d{4});
  Tensor forward(const Tensor& x) const {
    const Tensor h = nn::batch_norm_relu(norm, conv(x));
    return nn::batch_norm_relu(last, again(h), h);
  }
};

/** Typed members, a container, a layer with two names, and norms that are not converted. */
struct NormNet : nn::Model<NormNet> {
  Block block = add("block", Block{});
  nn::BatchNorm2d shared = add("shared", nn::BatchNorm2d{4});
  nn::Sequential rest =
      add("rest", nn::Sequential{shared, nn::ReLU{}, nn::InstanceNorm2d{4}, nn::BatchNorm2d{4},
                                 nn::ReLU{}, nn::GroupNorm{2, 4}});
  nn::BatchNorm1d head = add("head", nn::BatchNorm1d{4, {.momentum = {}}});
  nn::BatchNorm3d unused = add("unused", nn::BatchNorm3d{4});
  Tensor forward(const Tensor& x) const { return head(mean(rest(shared(block(x))), {2, 3})); }
};

constexpr int kNorms = 6;

NormNet seeded_net() {
  manual_seed(7);
  NormNet net;
  const NoGrad no_grad;
  for (const nn::NamedTensor& p : net.named_parameters())
    if (p.tensor.dim() == 1) p.tensor += randn(p.tensor.shape()) * 0.1;
  return net;
}

const Parts& two_each() {
  static const Parts parts{"2 each", [](int) { return 2; }};
  return parts;
}

Tensor shared_images(std::uint64_t seed = 1, int samples_per_rank = 2) {
  return shared_randn({samples_per_rank * world().size(), 3, 6, 5}, seed).to(f32);
}

std::vector<nn::NamedTensor> tensors_of(const nn::Module& net) {
  std::vector<nn::NamedTensor> all = net.named_parameters();
  for (const nn::NamedTensor& buffer : net.named_buffers()) all.push_back(buffer);
  return all;
}

std::vector<std::vector<double>> values_of(const std::vector<nn::NamedTensor>& tensors) {
  std::vector<std::vector<double>> out;
  for (const nn::NamedTensor& entry : tensors) out.push_back(entry.tensor.to_vector<double>());
  return out;
}

/** Returns the output and all gradients of one step. */
template <class F>
std::vector<std::vector<double>> step(const nn::Module& net, const Tensor& batch,
                                      const F& forward) {
  net.zero_grad();
  const Tensor x = batch.clone().requires_grad_(), y = forward(x);
  sum(y.to(f32) * y.to(f32)).backward();
  std::vector<std::vector<double>> out{y.to_vector<double>(), x.grad().to_vector<double>()};
  for (const Tensor& p : net.parameters())
    if (p.grad().defined()) out.push_back(p.grad().to_vector<double>());
  return out;
}

}  // namespace

TEST_CASE("a converted net has the same tensors, names, flags and handles", "[sync_batch_norm]") {
  const auto c = world().all();
  const NormNet net = seeded_net();
  net.block.eval();
  const auto parameters = net.named_parameters(), buffers = net.named_buffers();
  const nn::BatchNorm2d handle = net.block.norm;
  const std::string before = str(net);
  CHECK(nn::convert_sync_batch_norm(net, {.comm = c}) == kNorms);

  const auto check_same = [](const auto& now, const auto& old) {
    REQUIRE(now.size() == old.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
      CHECK(now[i].name == old[i].name);
      CHECK(now[i].tensor.is_same(old[i].tensor));
      CHECK(now[i].keep_f32 == old[i].keep_f32);
    }
  };
  check_same(net.named_parameters(), parameters);
  check_same(net.named_buffers(), buffers);
  CHECK(handle.is_same(net.child("block.norm")));
  CHECK(net.block.norm.keeps_f32_under_amp());
  CHECK(net.training());
  CHECK_FALSE(net.block.norm.training());
  CHECK(net.child("rest.2").kind() == "InstanceNorm2d");
  CHECK(net.child("rest.2").state().statistics_group == nullptr);
  for (const char* name : {"block.norm", "block.last", "shared", "rest.3", "head", "unused"})
    CHECK((net.child(name).state().statistics_group != nullptr) == (c.size() > 1));
  if (c.size() == 1) {
    CHECK(str(net) == before);
  } else {
    CHECK(str(net).find(str("norm: BatchNorm2d(4, synchronised over ", c.size(), " ranks)")) !=
          std::string::npos);
    CHECK(nn::convert_sync_batch_norm(net, {.comm = comm::Communicator()}) == kNorms);  // back
    CHECK(str(net) == before);
  }
}

TEST_CASE("a net gives what it gives for the joined batch", "[sync_batch_norm]") {
  const auto c = world().all();
  const NormNet ours = seeded_net(), whole = seeded_net();
  nn::convert_sync_batch_norm(ours, {.comm = c});
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const Tensor batch = shared_images(seed), x = part_of(batch, two_each()).requires_grad_(),
                 all = batch.clone().requires_grad_();
    ours.zero_grad();
    whole.zero_grad();
    const Tensor y = ours(x), expected = whole(all), g = shared_randn(expected.shape(), 9).to(f32);
    CHECK(distance(y, part_of(expected, two_each())) < 2e-5);
    y.backward(part_of(g, two_each()));
    expected.backward(g);
    CHECK(distance(x.grad(), part_of(all.grad(), two_each())) < 2e-4);
    const auto own = ours.named_parameters(), theirs = whole.named_parameters();
    for (std::size_t i = 0; i < own.size(); ++i) {
      INFO(own[i].name);
      REQUIRE(own[i].tensor.grad().defined() == theirs[i].tensor.grad().defined());
      if (own[i].tensor.grad().defined())
        CHECK(distance(sum_over_ranks(own[i].tensor.grad()), theirs[i].tensor.grad()) < 2e-4);
    }
    const auto buffers = ours.named_buffers(), others = whole.named_buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      INFO(buffers[i].name);
      CHECK(distance(buffers[i].tensor, others[i].tensor) < 1e-5);
      CHECK(same_on_all_ranks(buffers[i].tensor));
    }
  }
}

TEST_CASE("in a world of one a converted net has the bits of an unconverted one",
          "[sync_batch_norm]") {
  const NormNet converted = seeded_net(), plain = seeded_net();
  nn::convert_sync_batch_norm(converted,
                              {.comm = comm::Communicator()});  // alone, whatever the world
  const Tensor x = shared_images();
  CHECK(step(converted, x, converted) == step(plain, x, plain));
  CHECK(values_of(converted.named_buffers()) == values_of(plain.named_buffers()));
}

TEST_CASE("groups of consecutive ranks share statistics", "[sync_batch_norm]") {
  const auto c = world().all();
  for (int size = 1; size <= c.size(); ++size) {
    const nn::BatchNorm2d ours(3), whole(3);
    INFO("groups of " << size);
    if (c.size() % size != 0) {
      CHECK(error_of<ValueError>([&] {
              nn::convert_sync_batch_norm(ours, {.comm = c, .group_size = size});
            }) == str("convert_sync_batch_norm: group_size does not divide the number of ranks; "
                      "got group_size ",
                      size, " of ", c.size(), " ranks, expected 0 for all ranks, or a divisor"));
      continue;
    }
    CHECK(nn::convert_sync_batch_norm(ours, {.comm = c, .group_size = size}) == 1);
    const Tensor batch = shared_images(), y = ours(part_of(batch, two_each()));
    const std::int64_t first = c.rank() / size * size;
    const Tensor expected = whole(batch.narrow(0, 2 * first, 2 * size));
    CHECK(distance(y, expected.narrow(0, 2 * (c.rank() - first), 2)) < 1e-6);
    CHECK(distance(ours.running_var(), whole.running_var()) < 1e-6);
  }
  for (const int size : {-1, c.size() + 1})
    CHECK_THROWS_AS(
        nn::convert_sync_batch_norm(nn::BatchNorm1d{2}, {.comm = c, .group_size = size}),
        ValueError);
}

TEST_CASE("evaluation exchanges nothing", "[sync_batch_norm]") {
  const auto c = world().all();
  const NormNet net = seeded_net(), plain = seeded_net();
  const nn::BatchNorm2d untracked(3, {.track_running_stats = false});
  nn::convert_sync_batch_norm(net, {.comm = c});
  nn::convert_sync_batch_norm(untracked, {.comm = c});
  net.eval();
  plain.eval();
  untracked.eval();
  if (c.rank() == 0) {  // the others would not answer
    const Tensor x = shared_images();
    CHECK(step(net, x, net) == step(plain, x, plain));
    CHECK(untracked(x).to_vector<double>() ==
          nn::BatchNorm2d(3, {.track_running_stats = false})(x).to_vector<double>());
  }
  c.barrier();
  net.train();
  net(part_of(shared_images(), two_each()));
  CHECK(same_on_all_ranks(net.head.running_mean()));
}

TEST_CASE("batch_norm_relu of a converted layer has the bits of its parts", "[sync_batch_norm]") {
  const auto c = world().all();
  for (const DType dtype : {f32, f16}) {
    const nn::BatchNorm2d fused(3), parts(3);
    for (const nn::BatchNorm2d& layer : {fused, parts})
      nn::convert_sync_batch_norm(layer, {.comm = c});
    const Tensor x = part_of(shared_images(1), two_each()).to(dtype),
                 carried = part_of(shared_images(2), two_each()).to(dtype);
    for (const bool residual : {false, true})
      CHECK(step(fused, x, [&](const Tensor& t) {
              return nn::batch_norm_relu(fused, t, residual ? carried : Tensor{});
            }) == step(parts, x, [&](const Tensor& t) {
              const Tensor y = parts(t);
              return relu(residual ? y + carried : y);
            }));
    CHECK(values_of(fused.named_buffers()) == values_of(parts.named_buffers()));
    CHECK(fused.num_batches_tracked().item<int>() == 2);
  }
}

TEST_CASE("checkpoint computes the exchange again, with the same bits", "[sync_batch_norm]") {
  const auto c = world().all();
  const NormNet plain = seeded_net(), again = seeded_net();
  nn::convert_sync_batch_norm(plain, {.comm = c});
  nn::convert_sync_batch_norm(again, {.comm = c});
  for (const Parts& parts : {two_each(), all_parts()[2]}) {
    INFO(parts.name);
    const Tensor x = part_of(shared_randn({parts.before(c.size()), 3, 6, 5}, 1).to(f32), parts);
    const auto expected = step(plain, x, plain);
    CHECK(step(again, x, [&](const Tensor& t) { return nn::checkpoint(again, t); }) == expected);
  }
  // the running statistics were updated twice, as documented
  CHECK(again.shared.num_batches_tracked().item<int>() ==
        2 * plain.shared.num_batches_tracked().item<int>());
  CHECK(same_on_all_ranks(again.shared.running_mean()));

  const Tensor x = part_of(shared_images(), two_each());
  const auto nested = [&](const Tensor& t) { return nn::checkpoint(again.block, t); };
  CHECK(step(again.block, x, [&](const Tensor& t) { return nn::checkpoint(nested, t); }) ==
        step(plain.block, x, plain.block));
}

TEST_CASE("checkpoint keeps no activations of a converted layer", "[sync_batch_norm]") {
  const auto c = world().all();
  const nn::Sequential net{nn::BatchNorm1d{64}, nn::BatchNorm1d{64}, nn::BatchNorm1d{64}};
  nn::convert_sync_batch_norm(net, {.comm = c});
  const Tensor x = randn({4096, 64}, {.requires_grad = true});
  const auto kept = [&](const auto& forward) {
    const std::int64_t before = memory_stats().total.current;
    const Tensor y = forward(x);
    return memory_stats().total.current - before;
  };
  const std::int64_t bytes = 4096 * 64 * 4;
  CHECK(kept(net) >= 3 * bytes);
  CHECK(kept([&](const Tensor& t) { return nn::checkpoint(net, t); }) < 2 * bytes);
}

TEST_CASE("every level of mixed precision runs a converted net", "[sync_batch_norm]") {
  const auto c = world().all();
  for (const char* level : levels::names()) {
    INFO(level);
    const NormNet ours = seeded_net(), whole = seeded_net();
    optim::SGD optimizer(ours.parameters(), {.lr = 0.1});
    nn::convert_sync_batch_norm(ours, {.comm = c});
    const amp::Options options{.opt_level = level, .verbosity = 0};
    auto session = amp::initialize(ours, optimizer, options);
    auto other = amp::initialize(whole, options);
    const bool is_low = std::string(level) == "O3";
    CHECK(ours.block.norm.weight().dtype() == (is_low ? f16 : f32));
    CHECK(ours.block.norm.running_var().dtype() == (is_low ? f16 : f32));

    const Tensor batch = shared_images();
    const Tensor y = [&] {
      const auto on = session.activate();
      return ours(part_of(batch, two_each()));
    }();
    const Tensor expected = [&] {
      const auto on = other.activate();
      return whole(batch);
    }();
    CHECK(y.dtype() == expected.dtype());
    const bool exact = std::string(level) == "O0";
    CHECK(distance(y.detach(), part_of(expected.detach(), two_each())) < (exact ? 2e-5 : 0.1));
    const auto buffers = ours.named_buffers(), others = whole.named_buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      INFO(buffers[i].name);
      CHECK(same_on_all_ranks(buffers[i].tensor));
      CHECK(distance(buffers[i].tensor, others[i].tensor) < (exact ? 1e-5 : 2e-2));
    }
    amp::scale_loss(sum(y.to(f32) * y.to(f32)), optimizer,
                    [](const Tensor& scaled) { scaled.backward(); });
    optimizer.step();
    for (const Tensor& p : ours.parameters()) CHECK(all(isfinite(p)).item<bool>());

    const std::string text =
        error_of<StateError>([&] { nn::convert_sync_batch_norm(ours, {.comm = c}); });
    CHECK(text.starts_with(
        "convert_sync_batch_norm: mixed precision is attached to the model; got \"\" NormNet"));
    session.close();
    CHECK(nn::convert_sync_batch_norm(ours, {.comm = c}) == kNorms);
  }
}

TEST_CASE("a converted layer casts its input by the tag of batch_norm", "[sync_batch_norm]") {
  const auto c = world().all();
  const Tensor x = part_of(shared_images(), two_each());
  const amp::autocast casts({.dtype = bf16});
  const auto dtype_of = [&](const Tensor& input) {
    const nn::BatchNorm2d layer(3);
    nn::convert_sync_batch_norm(layer, {.comm = c});
    const Tensor leaf = input.clone().requires_grad_(), y = layer(leaf);
    sum(y.to(f32)).backward();
    CHECK(leaf.grad().dtype() == input.dtype());
    CHECK(layer.weight().grad().dtype() == f32);
    CHECK(layer.running_mean().dtype() == f32);
    return y.dtype();
  };
  CHECK(dtype_of(x) == f32);
  CHECK(dtype_of(x.to(bf16)) == bf16);
  {
    const amp::policy_override low{{"batch_norm", Precision::low}};
    CHECK(dtype_of(x) == bf16);
  }
  const amp::policy_override full{{"batch_norm", Precision::f32}};
  CHECK(dtype_of(x.to(bf16)) == f32);
}

TEST_CASE("DistributedDataParallel trains a converted net like one process with the joined batch",
          "[sync_batch_norm]") {
  const auto c = world().all();
  for (const bool recomputes : {false, true}) {
    const NormNet ours = seeded_net(), whole = seeded_net();
    nn::convert_sync_batch_norm(ours, {.comm = c});
    optim::SGD optimizer(ours.parameters(), {.lr = 0.1}), other(whole.parameters(), {.lr = 0.1});
    const nn::DistributedDataParallel net(ours, {.comm = c, .own_random_streams = false});
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      const Tensor batch = shared_images(seed),
                   target = shared_randn({batch.size(0), 4}, 50).to(f32);
      const Tensor x = part_of(batch, two_each());
      const auto forward = [&](const Tensor& t) { return net(t); };
      optimizer.zero_grad();
      other.zero_grad();
      mse_loss(recomputes ? nn::checkpoint(forward, x) : net(x), part_of(target, two_each()))
          .backward();
      mse_loss(recomputes ? nn::checkpoint(whole, batch) : whole(batch), target).backward();
      optimizer.step();
      other.step();
    }
    const auto own = tensors_of(ours), theirs = tensors_of(whole);
    for (std::size_t i = 0; i < own.size(); ++i) {
      INFO(own[i].name << (recomputes ? ", recomputed" : ""));
      CHECK(distance(own[i].tensor, theirs[i].tensor) < 1e-4);
      CHECK(same_on_all_ranks(own[i].tensor));
    }
  }
}

TEST_CASE("ranks that train a converted net agree bit for bit at every level",
          "[sync_batch_norm]") {
  const auto c = world().all();
  for (const char* level : levels::names()) {
    const NormNet ours = seeded_net();
    nn::convert_sync_batch_norm(ours, {.comm = c});
    optim::SGD optimizer(ours.parameters(), {.lr = 0.05, .momentum = 0.9});
    auto session = amp::initialize(ours, optimizer, {.opt_level = level, .verbosity = 0});
    const nn::DistributedDataParallel net(ours, {.comm = c, .own_random_streams = false});
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const Parts& parts = all_parts()[1];  // unequal
      const Tensor batch = shared_randn({parts.before(c.size()), 3, 6, 5}, seed).to(f32);
      const Tensor y = net(part_of(batch, parts)).to(f32);
      optimizer.zero_grad();
      amp::scale_loss(mean(y * y), optimizer, [](const Tensor& loss) { loss.backward(); });
      optimizer.step();
    }
    for (const nn::NamedTensor& entry : tensors_of(ours)) {
      INFO(level << " " << entry.name);
      CHECK(same_on_all_ranks(entry.tensor));
    }
  }
}
