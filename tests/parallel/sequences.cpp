// Random sequences of what a training does, the same on all ranks: sums are those expected, ranks
// never disagree, and none waits for ever. MEZZO_SEQUENCES: how many (500). MEZZO_SEQUENCE: the
// number of the first training, whose course is then shown.
#include <cstdlib>

#include "../support/levels.h"
#include "../support/random_training.h"
#include "weighted.h"

using namespace trainees;
using optim::StepResult;
using random_training::Draw;

namespace {

std::uint64_t sequences() {
  const char* const count = std::getenv("MEZZO_SEQUENCES");
  return count ? std::strtoull(count, nullptr, 10) : 500;
}

Options drawn_options(Draw& draw) {
  Options options{.comm = ranks(), .own_random_streams = false};
  options.first_bucket_mib = draw.one_of({1e-9, 1e-4, 1.0});
  if (draw.integer(0, 1)) options.bucket_mib = draw.one_of({1e-9, 1e-4, 4.0});
  options.overlap = draw.integer(0, 3) > 0;
  options.reduce_dtype =
      draw.one_of({nn::ReduceDtype::automatic, nn::ReduceDtype::same, nn::ReduceDtype::f32});
  options.average = draw.integer(0, 3) > 0;
  if (draw.integer(0, 3) == 0) options.predivide_factor = draw.one_of({0.5, 2.0, 4.0});
  if (draw.integer(0, 2) == 0) options.order = draw.one_of({comm::Order::ranks, comm::Order::fast});
  options.gradients_are_views = draw.integer(0, 1) == 1;
  return options;
}

/** A leaf whose gradient comes last in a pass and fails. */
class Failing {
 public:
  Failing() {
    register_hook(leaf_, [](const Tensor&) -> Tensor { throw ValueError("the hook fails"); });
  }
  /** Returns f() plus a term whose gradient fails. */
  template <class F> Tensor added_to(const F& f) const {
    const Tensor first = leaf_ * 0.0;
    return first + f();
  }

 private:
  Tensor leaf_ = ones({}).requires_grad_();
};

// ---- sums ---------------------------------------------------------------------------------------

/** The gradients that all ranks must have after a sequence of passes over a model of numbers. */
class ExpectedSums {
 public:
  explicit ExpectedSums(std::size_t params)
      : local_(static_cast<std::size_t>(size()), Factors(params, kNone)), reduced_(params, kNone) {}

  void add_local(const std::vector<Factors>& of_ranks) {
    for (std::size_t r = 0; r < of_ranks.size(); ++r)
      for (std::size_t i = 0; i < of_ranks[r].size(); ++i)
        if (of_ranks[r][i] != 0) add(local_[r][i], of_ranks[r][i]);
  }
  void add_reduced(const std::vector<Factors>& of_ranks, const Options& options) {
    const double factor = size() == 1       ? 1  // the wrapper does nothing
                          : options.average ? 1.0 / size()
                                            : 1 / options.predivide_factor.value_or(1);
    add_local(of_ranks);
    for (std::size_t i = 0; i < local_[0].size(); ++i) {
      double sum = kNone;
      for (Factors& own : local_)
        if (!std::isnan(own[i])) add(sum, std::exchange(own[i], kNone));
      if (!std::isnan(sum)) add(reduced_[i], sum * factor);
    }
  }
  void zero(bool to_none) {
    for (Factors& own : local_) own.assign(own.size(), kNone);
    for (double& sum : reduced_) sum = to_none || std::isnan(sum) ? kNone : 0;
  }
  /** Returns the gradients of this rank. */
  Factors of_this_rank() const {
    Factors all = local_[static_cast<std::size_t>(rank())];
    for (std::size_t i = 0; i < all.size(); ++i)
      if (std::isnan(all[i])) all[i] = reduced_[i];
    return all;
  }

 private:
  static void add(double& sum, double x) { sum = std::isnan(sum) ? x : sum + x; }

  std::vector<Factors> local_;  // of each rank; NaN: none
  Factors reduced_;
};

/** Draws the factors of all ranks' losses; parameter 0 is always used. */
std::vector<Factors> drawn_factors(Draw& draw, std::size_t params) {
  std::vector<Factors> all(static_cast<std::size_t>(size()), Factors(params, 0));
  for (Factors& own : all)
    for (std::size_t i = 0; i < params; ++i)
      if (i == 0 || draw.integer(0, 2) > 0)
        own[i] = static_cast<double>(size() * 4 * draw.integer(1, 9));
  return all;
}

std::string wrong_sums(std::uint64_t seed) {
  Draw draw(seed);
  const bool large = draw.integer(0, 19) == 0;  // reduced in its own memory
  const Weighted model(
      std::vector<Shape>{{3}, {large ? 140'000 : 5}, {2, 2}, {1}, {}, {draw.integer(0, 4)}});
  optim::SGD optimizer(model.parameters(), {.lr = 0});
  std::optional<Wrapped> net;
  Options options = drawn_options(draw);
  net.emplace(model, options);
  ExpectedSums expected(model.params.size());
  const Failing failing;
  for (auto actions = draw.integer(4, 16); actions > 0; --actions) {
    const std::vector<Factors> factors = drawn_factors(draw, model.params.size());
    const Factors& mine = factors[static_cast<std::size_t>(rank())];
    const auto action = draw.integer(0, 9);
    std::optional<nn::NoSync> local;
    if (action >= 4 && action <= 6 && size() > 1) local.emplace(net->no_sync());
    switch (action) {
      case 0:
      case 1:
      case 2:
        model.loss(mine).backward();
        expected.add_reduced(factors, options);
        break;
      case 3: {
        const Tensor loss = model.loss(mine);
        if (size() > 1) local.emplace(net->no_sync());
        backward(loss, {}, true);
        local.reset();
        loss.backward();
        expected.add_local(factors);
        expected.add_reduced(factors, options);
        break;
      }
      case 4:
      case 5:
        model.loss(mine).backward();
        local ? expected.add_local(factors) : expected.add_reduced(factors, options);
        break;
      case 6:
        if (size() > 1)
          (void)thrown_by([&] { failing.added_to([&] { return model.loss(mine); }).backward(); });
        break;
      case 7: {
        const bool to_none = draw.integer(0, 1) == 1;
        draw.integer(0, 1) ? model.zero_grad(to_none) : optimizer.zero_grad(to_none);
        expected.zero(to_none);
        break;
      }
      case 8: {
        const std::string text = thrown_by([&] { (void)optimizer.step(); });
        if (!text.empty() && text.find("no parameter has a gradient") == text.npos &&
            text.find("was not reduced") == text.npos)
          return text;
        break;
      }
      default:
        model.zero_grad();
        expected.zero(true);
        net.reset();
        options = drawn_options(draw);
        net.emplace(model, options);
    }
    const std::string wrong = wrong_gradients(model, expected.of_this_rank());
    if (!wrong.empty()) return str("sequence ", seed, ", action ", action, ": ", wrong);
  }
  return {};
}

}  // namespace

TEST_CASE("random sequences of passes have the expected sums", "[sequences]") {
  const QuietLog quiet;
  std::string wrong;
  for (std::uint64_t seed = 0; seed < sequences(); ++seed) wrong += wrong_sums(seed);
  CHECK(wrong == "");
}

// ---- trainings ----------------------------------------------------------------------------------

namespace {

/** A net with two branches, of which a loss may use one. */
struct Branches : nn::Model<Branches> {
  nn::Linear first = add("first", nn::Linear{6, 5});
  nn::Linear left = add("left", nn::Linear{5, 4});
  nn::Linear right = add("right", nn::Linear{5, 4});

  /** `branches`: 0 none, 1 left, 2 right, 3 both. */
  Tensor loss(std::uint64_t number, std::int64_t branches) const {
    const Tensor x = tanh(first(normal_batch(number)));
    Tensor y = mean(x.to(f32));
    if (branches & 1) y = y + mean(relu(left(x)).to(f32));
    if (branches & 2) y = y + mean(tanh(right(x)).to(f32)) * 2.0;
    return y;
  }

 private:
  static Tensor normal_batch(std::uint64_t number) {
    return seeded(number, [] { return randn({3, 6}); });
  }
};

/** A training that does what a seed says, and notes what it sees. */
class Trained {
 public:
  explicit Trained(std::uint64_t seed) : draw_(seed), number_(seed * 1000) {
    manual_seed(seed + static_cast<std::uint64_t>(rank()));
    model_.emplace();
    optimizer_ = make_optimizer(draw_.one_of({"SGD", "AdamW"}), *model_);
    const auto kind = draw_.integer(0, 7);
    if (kind < 6) {
      amp::Options options = quiet(levels::names()[static_cast<std::size_t>(kind)]);
      if (draw_.integer(0, 1)) options.loss_scale = "dynamic";
      options.max_consecutive_skips = static_cast<int>(draw_.integer(2, 5));
      session_.emplace(amp::initialize(*model_, *optimizer_, options));
    } else if (kind == 6) {
      scaler_.emplace(amp::GradScalerOptions{.growth_interval = 3, .max_consecutive_skips = 3});
    }
    net_.emplace(*model_, drawn_options(draw_));
  }

  /** Acts, and returns what this rank has seen: the same on all ranks. */
  std::string run() {
    for (auto actions = draw_.integer(4, 20); actions > 0; --actions) {
      const auto action = draw_.integer(0, 11);
      note(str("\n", action, ": "));
      try {
        act(action);
      } catch (const CommError&) {
        throw;
      } catch (const std::exception& e) {
        note(e.what());
      }
    }
    note_state();
    return seen_;
  }

 private:
  void note(std::string_view text) { seen_ += text; }
  void note(std::string_view name, const Tensor& x) {
    if (x.defined()) note(str(name, " ", comm::signature_of(states::bytes_of(x)), " "));
  }

  void act(std::int64_t action) {
    switch (action) {
      case 0: return pass({});
      case 1: return pass({.spoils = true});
      case 2: return pass({.twice = true});
      case 3: return pass({.fails_before = true});
      case 4: return pass({.fails_after = draw_.integer(0, 1) == 0});
      case 5: return local_pass();
      case 6: return optimizer_->zero_grad(draw_.integer(0, 1) == 1);
      case 7: return examine();
      case 8:
      case 9: return iteration();
      default: return step();
    }
  }

  /** What a backward pass does besides. */
  struct Pass {
    bool spoils = false;        // infinity in a gradient of one rank
    bool twice = false;         // keeps the graph for a second pass
    bool fails_before = false;  // the loss throws
    bool fails_after = false;   // the body of the scope throws
    bool delays = false;        // unscaling
  };

  void pass(Pass what) {
    // The same numbers of draws on all ranks; every rank has its own branches and data.
    std::int64_t branches = 0;
    for (int r = 0; r < size(); ++r) {
      const auto drawn = draw_.integer(0, 3);
      if (r == rank()) branches = drawn;
    }
    const int bad_rank = static_cast<int>(draw_.integer(0, size() - 1));
    what.delays = what.delays || draw_.integer(0, 4) == 0;
    HookHandle spoiled;
    if (what.spoils && rank() == bad_rank)
      spoiled = register_hook(model_->first.weight(), [](const Tensor& g) { return g + HUGE_VAL; });
    const auto number = ++number_ * 8 + static_cast<std::uint64_t>(rank());
    const auto body = [&](const Tensor& loss) {
      if (what.twice) backward(loss, {}, true);
      loss.backward();
      if (what.fails_after) throw ValueError("the body fails");
    };
    const auto loss = [&] {
      if (what.fails_before) throw ValueError("the forward pass fails");
      return model_->loss(number, branches);
    };
    try {
      if (session_)
        amp::scale_loss(loss(), *optimizer_, {.delay_unscale = what.delays}, body);
      else
        body(scaler_ ? scaler_->scale(loss()) : loss());
    } catch (...) {
      spoiled.remove();
      throw;
    }
    spoiled.remove();
    if (!is_local_)
      for (const nn::NamedTensor& p : model_->named_parameters()) note(p.name, p.tensor.grad());
  }

  void local_pass() {
    const auto local = net_->no_sync();
    is_local_ = true;
    try {
      pass({.spoils = draw_.integer(0, 5) == 0,
            .fails_before = draw_.integer(0, 5) == 0,
            .fails_after = draw_.integer(0, 5) == 0,
            .delays = draw_.integer(0, 4) > 0});
    } catch (...) {
      is_local_ = false;
      throw;
    }
    is_local_ = false;
  }

  void examine() {
    if (!scaler_) return;
    scaler_->unscale_(*optimizer_);
    note(str(scaler_->found_inf(*optimizer_)));
  }

  void step() {
    const StepResult result = scaler_ ? scaler_->step(*optimizer_) : optimizer_->step();
    note(name(result));
    if (scaler_) scaler_->update();
    note_state();
  }

  /** What a program usually does, so that sequences get further. */
  void iteration() {
    optimizer_->zero_grad();
    pass({});
    step();
  }

  void note_state() {
    for (const nn::NamedTensor& p : model_->named_parameters()) note(p.name, p.tensor);
    for (const Tensor& master : amp::master_params(*optimizer_)) note("master", master);
    if (session_)
      for (const amp::ScaleEvent& event : session_->loss_scaler().events()) note(event.text());
    if (scaler_)
      for (const auto& [name, value] : scaler_->state_dict()) note(str(name, " ", value, " "));
  }

  Draw draw_;
  std::uint64_t number_;
  std::optional<Branches> model_;
  MadeOptimizer optimizer_;
  std::optional<amp::Session> session_;
  std::optional<amp::GradScaler> scaler_;
  std::optional<nn::DistributedDataParallel<Branches>> net_;
  std::string seen_;
  bool is_local_ = false;
};

/** Returns the lines from which on a rank has seen something else than rank 0. */
std::string disagreement(const std::string& seen) {
  const std::vector<std::string> texts = ranks().gather_text(seen);
  for (std::size_t r = 1; r < texts.size(); ++r) {
    if (texts[r] == texts[0]) continue;
    const auto at =
        std::mismatch(texts[0].begin(), texts[0].end(), texts[r].begin(), texts[r].end());
    const auto same = static_cast<std::size_t>(at.first - texts[0].begin());
    const auto line = texts[0].rfind('\n', same);
    return str("rank ", r, ": ", texts[r].substr(line, 600),
               "\nrank 0: ", texts[0].substr(line, 600));
  }
  return {};
}

}  // namespace

TEST_CASE("in random trainings the ranks never disagree", "[sequences]") {
  const QuietLog quiet;
  std::string wrong;
  const char* const chosen = std::getenv("MEZZO_SEQUENCE");
  const std::uint64_t from = chosen ? std::strtoull(chosen, nullptr, 10) : 0;
  for (std::uint64_t seed = from; wrong.empty() && seed < from + sequences(); ++seed) {
    std::string seen;
    try {
      seen = Trained(seed).run();
      wrong = disagreement(seen);
      if (chosen) WARN(seen);
    } catch (const CommError& e) {
      wrong = e.what();
    }
    if (!wrong.empty()) wrong += str("\nin sequence ", seed);
  }
  CHECK(wrong == "");
}
