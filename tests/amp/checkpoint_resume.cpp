// A training that is stopped and resumed from its checkpoint gives the same bits as an
// uninterrupted one.
#include "../support/catch.h"
#include "trainings.h"

using namespace trainings;

namespace {

constexpr int kResumeSteps = 9;

/** Where training is interrupted, and which step overflows if the scale is dynamic. Epochs have 6
 *  batches, and the scale of a session grows at step 5. */
struct Cut {
  int at, overflow;
};
constexpr Cut kCuts[] = {
    {2, -1},  // inside an epoch and a growth window of the scale, which grows afterwards
    {5, 4},   // right after a skipped step
    {6, 7}};  // at the end of an epoch, before an overflow

/** Returns a new training with other weights and random numbers than the first. */
Run other_run(Kind kind) {
  kind.seed = 77;
  kind.half_seen = false;
  return Run(kind);
}

void check_resume(const Kind& kind, const Cut& where) {
  const auto [cut, overflow] = where;
  INFO(kind.net << " " << kind.surface << " " << kind.optimizer << " cut at " << cut);
  const files::Directory directory = files::Directory::fast();
  Run whole(kind);
  whole.steps(cut, overflow);
  const std::string path = amp::save_checkpoint(directory.path(), whole.parts());
  const auto at_cut = snapshot(whole);
  const std::vector<double> expected = whole.steps(kResumeSteps - cut, overflow);
  const auto at_end = snapshot(whole);
  if (overflow >= 0) CHECK((whole.skipped > 0) == whole.dynamic());
  if (whole.session && whole.dynamic() && overflow < 0)
    CHECK(whole.session->loss_scaler().loss_scale() == 2048);

  Run resumed = other_run(kind);
  resumed.resumed(amp::load_checkpoint(directory.path(), resumed.parts()));
  CHECK(difference(at_cut, snapshot(resumed)).empty());
  const std::vector<double> losses = resumed.steps(kResumeSteps - cut, overflow);
  CHECK(bytes_of(tensor(losses, {kResumeSteps - cut})) ==
        bytes_of(tensor(expected, {kResumeSteps - cut})));
  CHECK(difference(at_end, snapshot(resumed)) == "");
}

}  // namespace

TEST_CASE("a resumed training continues with the same bits", "[checkpoint]") {
  std::size_t combinations = 0;
  for (const char* net : {"mlp", "conv", "word"})
    for (const char* surface : surfaces())
      for (const char* optimizer : {"sgd", "adam", "adamw"})
        for (const Cut& cut : kCuts) {
          check_resume({.net = net, .surface = surface, .optimizer = optimizer}, cut);
          ++combinations;
        }
  CHECK(combinations == 27 * surfaces().size());
}

TEST_CASE("a resumed training continues with the same bits under every optimizer", "[checkpoint]") {
  for (const char* surface : {"O0", "O2", "O5", "scaler"})
    for (const optimizers::Kind& optimizer : optimizers::kinds())
      for (const Cut& cut : kCuts)
        check_resume({.net = "mlp", .surface = surface, .optimizer = optimizer.name}, cut);
}

TEST_CASE("averages of weights resume with the same bits", "[checkpoint]") {
  for (const char* surface : {"O0", "O2", "O3", "O5", "scaler"})
    for (const Cut& cut : kCuts)
      check_resume({.net = "conv", .surface = surface, .averages = true}, cut);
}

TEST_CASE("a training loaded over another one continues with the same bits", "[checkpoint]") {
  for (const char* surface : {"O0", "O1", "O2", "O5", "scaler"}) {
    INFO(surface);
    const files::Directory directory = files::Directory::fast();
    Run run({.surface = surface});
    run.steps(3);
    amp::save_checkpoint(directory.path(), run.parts());
    const std::vector<double> expected = run.steps(4);
    const auto at_end = snapshot(run);
    run.steps(5, run.done + 4);  // the last step overflows
    run.resumed(amp::load_checkpoint(directory.path(), run.parts()));
    CHECK(run.steps(4) == expected);
    CHECK(difference(at_end, snapshot(run)) == "");
  }
}

TEST_CASE("models, optimizers and sessions can be loaded in any order, before and after initialize",
          "[checkpoint]") {
  for (const char* level : {"O1", "O2", "O3", "O5"})
    for (int order = 0; order < 6; ++order)
      for (const int before :
           {0, 1, 2, 3}) {  // bit 0: the model, bit 1: the optimizer is loaded before initialize
        INFO(level << " order " << order << " before " << before);
        nets::LogCapture log;
        const Kind kind{.net = "conv", .surface = level};
        Run whole(kind);
        whole.steps(3);
        const nn::StateDict model = whole.net.module.state_dict();
        const optim::StateDict state =
            whole.optimizer->state_dict(whole.net.module.named_parameters());
        const amp::StateDict scalers = whole.session->state_dict();
        const optim::StateDict rates = whole.schedule->state_dict();
        const data::Position position = whole.loader->position();
        const Generator generator = default_generator();
        const std::vector<double> expected = whole.steps(3);

        manual_seed(5);
        const AnyNet net = make_net("conv");
        const auto optimizer = make_optimizer("adam", net.module);
        const auto load_model = [&] { net.module.load_state_dict(model); };
        const auto load_optimizer = [&] {
          optimizer->load_state_dict(state, net.module.named_parameters());
        };
        if (before & 1) load_model();
        if (before & 2) load_optimizer();
        amp::Session session = amp::initialize(net.module, *optimizer, nets::quiet(level));
        constexpr int kOrders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                       {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
        for (const int what : kOrders[order]) {
          if (what == 0 && !(before & 1)) load_model();
          if (what == 1 && !(before & 2)) load_optimizer();
          if (what == 2) session.load_state_dict(scalers);
        }
        data::Batches loader = samples().batches({.size = 4, .seed = 1, .prefetch = 0});
        loader.resume(position);
        default_generator() = generator;
        optim::Scheduler schedule(*optimizer,
                                  optim::CosineAnnealingLR{.t_max = 20, .eta_min = 1e-4});
        schedule.load_state_dict(rates);
        std::vector<double> losses;
        for (const Batch& batch : loader) {
          if (losses.size() == 3) break;
          optimizer->zero_grad();
          const Tensor loss = cross_entropy(net.forward(batch.x), batch.y);
          losses.push_back(loss.item<double>());
          amp::scale_loss(loss, *optimizer, [](const Tensor& scaled) { scaled.backward(); });
          if (optimizer->step() == optim::StepResult::stepped) schedule.step();
        }
        CHECK(losses == expected);
      }
}
