// Casts of weights whose values the optimizer has written with the weight: bits, and all ways in
// which such values may be out of date.
#include "../../tensor/memory/dlpack_layout.h"
#include "../support/catch.h"
#include "../support/optimizers.h"
#include "../support/same_bits.h"
#include "../support/tiles.h"
#include "nets.h"

using namespace nets;

namespace {

std::int64_t written(amp::Session& session) { return session.cast_cache().report().written; }

/** Makes a step. Without `lends`, the session has no values that the optimizer could write. */
void cast_step(amp::Session& session, const Net& net, optim::Optimizer& optimizer,
               bool lends = true) {
  optimizer.zero_grad();
  amp::scale_loss(loss_of(net), optimizer, [](const Tensor& s) { s.backward(); });
  if (!lends) session.cast_cache().clear();
  optimizer.step();
}

/** Fails unless the session's next cast of each weight is the weight, rounded. */
void check_casts(amp::Session& session, const Net& net, DType low) {
  const NoGrad no_grad;
  for (const Tensor& w : {net.first.weight, net.second.weight, net.first.bias}) {
    const Tensor found = session.cast_cache().find(w, low);
    const Tensor cast = found.defined() ? found : session.cast_cache().cast(w, low);
    CHECK(testing::same_bits(cast, w.detach().to(low)));
  }
}

}  // namespace

TEST_CASE("every optimizer writes the casts that the next step uses", "[written_casts]") {
  for (const optimizers::Kind& kind : optimizers::kinds())
    for (const char* const level : {"O1", "O4"}) {
      INFO(kind.name << " at " << level);
      const Net net, other;
      const optimizers::Made a = kind.make(net.parameters()), b = kind.make(other.parameters());
      amp::Session first = amp::initialize(net, *a, quiet(level));
      amp::Session second = amp::initialize(other, *b, quiet(level));
      for (int i = 0; i < 4; ++i) {
        cast_step(first, net, *a);
        cast_step(second, other, *b, false);
      }
      CHECK(written(first) >= 3 * 4);
      CHECK(written(second) == 0);
      for (const auto& [name, value] : net.state_dict())
        CHECK(testing::same_bits(value, other.state_dict()[name]));
      check_casts(first, net, std::string(level) == "O1" ? f16 : bf16);
    }
}

TEST_CASE("a weight that was written after the step is cast anew", "[written_casts]") {
  const Net net;
  optim::Adam optimizer(net.parameters(), 0.01);
  amp::Session session = amp::initialize(net, optimizer, quiet("O4"));
  const auto change = [&](auto&& write) {
    cast_step(session, net, optimizer);
    const NoGrad no_grad;
    write(net.first.weight);
    check_casts(session, net, bf16);
    session.cast_cache().end_round();
  };
  change([](const Tensor&) {});
  CHECK(written(session) > 0);
  change([](const Tensor& w) { w.mul_(3); });
  change([](const Tensor& w) { w.view({-1}).select(0, 5).fill_(7); });
  change([](const Tensor& w) { w.copy_(w + 1); });
  change([&](const Tensor&) { net.load_state_dict(Net(2).state_dict()); });
  change([](const Tensor& w) {
    if (w.device() == cpu) w.data<float>()[3] = 9;  // no version counts it
  });
}

TEST_CASE("an address that a caller has kept ends the use of written casts", "[written_casts]") {
  if (test_device() != cpu) SKIP_TEST("addresses of the CPU");
  for (const bool by_dlpack : {false, true}) {
    const Net net;
    optim::Adam optimizer(net.parameters(), 0.01);
    amp::Session session = amp::initialize(net, optimizer, quiet("O4"));
    DLManagedTensor* const exported = by_dlpack ? to_dlpack(net.first.weight.detach()) : nullptr;
    float* const address =
        by_dlpack ? static_cast<float*>(exported->dl_tensor.data) : net.first.weight.data<float>();
    for (int i = 0; i < 3; ++i) {
      cast_step(session, net, optimizer);
      address[i] = 100;
      check_casts(session, net, bf16);
      session.cast_cache().end_round();
    }
    if (exported) exported->deleter(exported);
  }
}

TEST_CASE("packed copies of a 16-bit weight end when a caller gets its address",
          "[written_casts]") {
  if (test_device() != cpu || !has_tiles()) SKIP_TEST("packed copies are of the CPU");
  const TileModel tiles(!has_tile_unit());
  const Tensor w = wave({96, 64}, 1, bf16), x = wave({40, 64}, 2, bf16);
  w.impl()->storage->keep_packed();
  for (int i = 0; i < 4; ++i) {
    linear(x, w);
    w.data<BFloat16>()[i] = BFloat16(50.0F);
    CHECK(testing::same_bits(linear(x, w), linear(x, w.clone())));
  }
}

TEST_CASE("a graph that is kept over a step has the casts of its forward pass", "[written_casts]") {
  const Net net;
  optim::SGD optimizer(net.parameters(), 0.1);
  amp::Session session = amp::initialize(net, optimizer, quiet("O4"));
  cast_step(session, net, optimizer);
  optimizer.zero_grad();
  const Tensor x = input().requires_grad_();
  const Tensor kept = sum(net.first(x));
  amp::scale_loss(kept, optimizer, [](const Tensor& s) { s.backward({}, true); });
  const Tensor before = x.grad().clone();
  optimizer.step();
  x.set_grad({});
  kept.backward();
  CHECK(testing::same_bits(x.grad(), before));
  check_casts(session, net, bf16);
}

TEST_CASE("a skipped step leaves the casts of the weights", "[written_casts]") {
  const Net net;
  optim::Adam optimizer(net.parameters(), 0.01);
  amp::Session session = amp::initialize(net, optimizer, quiet("O1"));
  for (int i = 0; i < 6; ++i) {
    optimizer.zero_grad();
    amp::scale_loss(loss_of(net), optimizer, [&](const Tensor& s) {
      (i % 2 == 0 ? s : s * std::numeric_limits<double>::infinity()).backward();
    });
    CHECK((optimizer.step() == optim::StepResult::stepped) == (i % 2 == 0));
    check_casts(session, net, f16);
    session.cast_cache().end_round();
  }
}

TEST_CASE("values of casts go with the weights and the session", "[written_casts]") {
  const auto held = [] { return memory_stats(test_device())[MemoryCategory::cast_cache].current; };
  const auto before = held();
  {
    const Net net;
    optim::Adam optimizer(net.parameters(), 0.01);
    amp::Session session = amp::initialize(net, optimizer, quiet("O4"));
    cast_step(session, net, optimizer);
    const auto after = held();
    for (int i = 0; i < 300; ++i) {
      const Tensor passing = wave({6, 6}, i).requires_grad_();
      amp::scale_loss(sum(matmul(input(), passing)), optimizer,
                      [](const Tensor& s) { s.backward(); });
    }
    CHECK(held() - after < 100 * 72);
    session.cast_cache().clear();
    CHECK(held() == before);
  }
  CHECK(held() == before);
}
