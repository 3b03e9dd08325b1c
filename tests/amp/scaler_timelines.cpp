// Scripted sequences for the session's loss scales: first the scaler alone, then with scopes and
// steps.
#include "../support/catch.h"
#include "nets.h"
#include "timelines.h"

using namespace nets;
using timelines::Token;

namespace {

/** Returns "32768/5": the scale, and the checks since it changed. */
std::string sight(const amp::LossScaler& scaler) {
  return str(scaler.loss_scale(), "/", scaler.unskipped());
}

/** A script and the expected state after each of its words. */
struct SessionTimeline {
  const char* name;
  std::optional<double> min;
  double max;
  std::optional<double> fixed;  // a static scale
  const char* script;
  const char* expected;
};

amp::Options timeline_options(const SessionTimeline& t) {
  amp::Options options = quiet("O1");
  options.min_loss_scale = t.min;
  options.max_loss_scale = t.max;
  if (t.fixed) options.loss_scale = *t.fixed;
  return options;
}

constexpr double kMax = 0x1p24;

// "." is a check without overflow, "x" one with an overflow, "=8" sets the scale; "save" and "load"
// save and load the state.
const SessionTimeline kOfScaler[] = {
    {"a window of 2000 ends in doubling", {}, kMax, {}, "1999. . x", "65536/1999 131072/0 65536/0"},
    {"an overflow restarts the window",
     {},
     kMax,
     {},
     "1999. x 1999. .",
     "65536/1999 32768/0 32768/1999 65536/0"},
    {"windows follow one another", {}, kMax, {}, "2000. 2000. .", "131072/0 262144/0 262144/1"},
    {"every overflow halves", {}, kMax, {}, ". x . x x", "65536/1 32768/0 32768/1 16384/0 8192/0"},
    {"2^24 is the default cap", {}, kMax, {}, "16000. 2000. .", "16777216/0 16777216/0 16777216/1"},
    {"a cap between two doublings is reached",
     {},
     99999,
     {},
     "2000. 2000. x",
     "99999/0 99999/0 49999.5/0"},
    {"a cap below 2^16 is where it starts", {}, 1000, {}, ". x 2000.", "1000/1 500/0 1000/0"},
    {"the user's floor", 16384.0, kMax, {}, "x x x .", "32768/0 16384/0 16384/0 16384/1"},
    {"a floor between two halvings", 10000.0, kMax, {}, "2x x 2000.", "16384/0 10000/0 20000/0"},
    {"a floor above 2^16 is where it starts",
     1048576.0,
     kMax,
     {},
     ". x 2000. x",
     "1048576/1 1048576/0 2097152/0 1048576/0"},
    {"no floor given: the smallest normal float",
     {},
     kMax,
     {},
     "141x x x 2000.",
     "2.350988701644575e-38/0 1.1754943508222875e-38/0 1.1754943508222875e-38/0 "
     "2.350988701644575e-38/0"},
    {"equal floor and cap fix the scale",
     128.0,
     128,
     {},
     "x 2000. =8 . x",
     "128/0 128/0 8/0 8/1 128/0"},
    {"setting the scale does not change the window",
     {},
     kMax,
     {},
     "5. =3 1994. .",
     "65536/5 3/5 3/1999 6/0"},
    {"a scale set beyond the cap stays until the next growth",
     {},
     kMax,
     {},
     "=1e9 1999. .",
     "1e+09/0 1e+09/1999 16777216/0"},
    {"saved and restored inside a window",
     {},
     kMax,
     {},
     "1500. save x load 499. .",
     "65536/1500 saved 32768/0 65536/1500 65536/1999 131072/0"},
    {"a static scale only counts, and a static scale has no bounds", 256.0, 512, 128,
     ". x 2000. =64 x", "128/1 128/2 128/2002 64/2002 64/2003"},
};

std::string play_scaler(const SessionTimeline& t) {
  amp::LossScaler scaler(amp::resolve(timeline_options(t)));
  std::pair<double, std::int64_t> saved;
  return timelines::sights(t.script, [&](const Token& token) -> std::string {
    if (token.what == "save") {
      saved = {scaler.loss_scale(), scaler.unskipped()};
      return "saved";
    }
    if (token.what == "load")
      scaler.restore(saved.first, saved.second);
    else if (token.has('='))
      scaler.set_loss_scale(token.value());
    else
      for (int i = 0; i < token.count; ++i) scaler.update(token.has('x'));
    return sight(scaler);
  });
}

// A word names a loss (a, b, c); then "." is a scope whose gradient is finite, "x" one with an
// overflow; "~" delays unscaling; "q" passes the second optimizer instead of the first, "&" both.
// "step" and "stepq" step, "zero" is zero_grad of both.
const SessionTimeline kOfSession[] = {
    {"one overflow, one skip", {}, kMax, {}, "ax step a. step", "32768/0 skipped 32768/1 stepped"},
    {"two overflows before a step make one skip",
     {},
     kMax,
     {},
     "ax ax step a. step",
     "32768/0 16384/0 skipped 16384/1 stepped"},
    {"each micro-batch is a check",
     {},
     kMax,
     {},
     "a. a. a. step",
     "65536/1 65536/2 65536/3 stepped"},
    {"an overflow in the first micro-batch discards the step, and is not found again",
     {},
     kMax,
     {},
     "ax a. a. step zero a. step",
     "32768/0 32768/1 32768/2 skipped zeroed 32768/3 stepped"},
    {"an overflow in the last micro-batch",
     {},
     kMax,
     {},
     "a. a. ax step",
     "65536/1 65536/2 32768/0 skipped"},
    {"delayed unscaling is one check",
     {},
     kMax,
     {},
     "a.~ a.~ a. step",
     "65536/0 65536/0 65536/1 stepped"},
    {"an overflow in a delayed sum shows at its end",
     {},
     kMax,
     {},
     "ax~ a. step",
     "65536/0 32768/0 skipped"},
    {"each loss has its own scale",
     {},
     kMax,
     {},
     "ax b. step a. b. step",
     "32768/0 65536/1 skipped 32768/1 65536/2 stepped"},
    {"three losses overflow into one skip",
     {},
     kMax,
     {},
     "ax bx cx step a. step",
     "32768/0 32768/0 32768/0 skipped 32768/1 stepped"},
    {"an overflow skips the optimizers of its scope",
     {},
     kMax,
     {},
     "ax a.q step stepq",
     "32768/0 32768/1 skipped stepped"},
    {"an overflow skips both optimizers of its scope",
     {},
     kMax,
     {},
     "ax& step stepq",
     "32768/0 skipped skipped"},
    {"zero_grad keeps a pending skip",
     {},
     kMax,
     {},
     "ax zero a. step step",
     "32768/0 zeroed 32768/1 skipped stepped"},
    {"a window over scopes", {}, kMax, {}, "1999a. a. ax", "65536/1999 131072/0 65536/0"},
    {"the floor over scopes", 32768.0, kMax, {}, "ax ax step", "32768/0 32768/0 skipped"},
    {"a scale that was set is halved", {}, kMax, {}, "a=1024 ax step", "1024/0 512/0 skipped"},
    {"saved and restored inside a window, by the session",
     {},
     kMax,
     {},
     "3a. save ax step load a. zero a. step",
     "65536/3 saved 32768/0 skipped loaded 65536/4 zeroed 65536/5 stepped"},
    {"a pending skip is not part of the saved state",
     {},
     kMax,
     {},
     "save ax load a. step",
     "saved 32768/0 loaded 65536/1 skipped"},
    {"a static scale steps on an overflow", {}, kMax, 128, "ax step", "128/1 stepped"},
    {"a static scale of 1 does nothing", {}, kMax, 1, "ax step", "1/0 stepped"},
};

// Scripts under check_static_overflow.
const SessionTimeline kChecked[] = {
    {"a checked static scale skips and stays constant",
     {},
     kMax,
     128,
     "ax step a. step",
     "128/1 skipped 128/2 stepped"},
    {"a checked static scale of 1 too",
     {},
     kMax,
     1,
     "ax step zero a. step",
     "1/1 skipped zeroed 1/2 stepped"},
};

/** Two optimizers with a parameter each, three losses. */
class SessionStage {
 public:
  SessionStage(const SessionTimeline& t, bool checks_static)
      : session_(amp::initialize({}, {p_, q_}, options(t, checks_static))) {}

  std::string play(const Token& token) {
    if (token.what == "step") return std::string(optim::name(p_.step()));
    if (token.what == "stepq") return std::string(optim::name(q_.step()));
    if (token.what == "zero") return p_.zero_grad(), q_.zero_grad(), "zeroed";
    if (token.what == "save") return saved_ = session_.state_dict(), "saved";
    if (token.what == "load") return session_.load_state_dict(saved_), "loaded";
    const int loss_id = token.what[0] - 'a';
    amp::LossScaler& scaler = session_.loss_scaler(loss_id);
    if (token.has('='))
      scaler.set_loss_scale(token.value());
    else
      for (int i = 0; i < token.count; ++i) backward(token, loss_id);
    return sight(scaler);
  }

 private:
  static amp::Options options(const SessionTimeline& t, bool checks_static) {
    amp::Options o = timeline_options(t);
    o.num_losses = 3;
    o.check_static_overflow = checks_static;
    o.max_consecutive_skips = 0;  // else a step on an infinity is an error
    return o;
  }
  void backward(const Token& token, int loss_id) {
    const amp::ScaleLossOptions how{loss_id, token.has('~')};
    const bool both = token.has('&');
    const amp::OptimizerList optimizers = both             ? amp::OptimizerList{p_, q_}
                                          : token.has('q') ? amp::OptimizerList{q_}
                                                           : amp::OptimizerList{p_};
    const Tensor x = both ? a_ + b_ : token.has('q') ? b_ * 1 : a_ * 1;
    amp::scale_loss(x * (token.has('x') ? HUGE_VAL : 0x1p-20), optimizers, how,
                    [](const Tensor& loss) { loss.backward(); });
  }

  Tensor a_ = zeros({}, {.device = test_device()}).requires_grad_(),
         b_ = zeros({}, {.device = test_device()}).requires_grad_();
  optim::SGD p_{{a_}, {.lr = 1}}, q_{{b_}, {.lr = 1}};
  amp::Session session_;
  amp::StateDict saved_;
};

}  // namespace

TEST_CASE("timelines of a loss scaler", "[scaler]") {
  for (const SessionTimeline& t : kOfScaler) {
    INFO(t.name << ": " << t.script);
    CHECK(play_scaler(t) == t.expected);
  }
}

TEST_CASE("timelines of a session's losses, scopes and steps", "[scaler]") {
  const auto play = [](const SessionTimeline& t, bool checks_static) {
    INFO(t.name << ": " << t.script);
    SessionStage stage(t, checks_static);
    CHECK(timelines::sights(t.script, [&](const Token& token) { return stage.play(token); }) ==
          t.expected);
  };
  for (const SessionTimeline& t : kOfSession) play(t, false);
  for (const SessionTimeline& t : kChecked) play(t, true);
}
