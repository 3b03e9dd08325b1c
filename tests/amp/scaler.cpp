#include <mezzo.h>

#include "../support/catch.h"

using namespace mezzo;

namespace {

amp::LossScaler dynamic_scaler(std::optional<double> min = {}, double max = 0x1p24) {
  amp::Options options;
  options.min_loss_scale = min;
  options.max_loss_scale = max;
  return amp::LossScaler(amp::resolve(options));
}

amp::LossScaler fixed_scaler(double scale) {
  amp::Options options;
  options.loss_scale = scale;
  return amp::LossScaler(amp::resolve(options));
}

}  // namespace

TEST_CASE("dynamic scaling starts at 2^16 within its bounds") {
  CHECK(dynamic_scaler().loss_scale() == 65536);
  CHECK(dynamic_scaler({}, 1000).loss_scale() == 1000);
  CHECK(dynamic_scaler(0x1p20).loss_scale() == 0x1p20);
  CHECK(dynamic_scaler().dynamic());
  CHECK_FALSE(fixed_scaler(128).dynamic());
}

TEST_CASE("the scale halves on overflow and doubles after a window without overflow") {
  amp::LossScaler scaler = dynamic_scaler();
  CHECK(scaler.update(true));
  CHECK(scaler.loss_scale() == 32768);
  for (int i = 0; i < 1999; ++i) CHECK_FALSE(scaler.update(false));
  CHECK(scaler.loss_scale() == 32768);
  CHECK(scaler.unskipped() == 1999);
  CHECK_FALSE(scaler.update(false));
  CHECK(scaler.loss_scale() == 65536);
  CHECK(scaler.unskipped() == 0);
  for (int i = 0; i < 1999; ++i) scaler.update(false);
  scaler.update(true);  // one check before the doubling
  CHECK(scaler.loss_scale() == 32768);
  CHECK(scaler.unskipped() == 0);
}

TEST_CASE("a scale also grows if a counter beyond the window was loaded") {
  for (const std::int64_t counter : {std::int64_t{1999}, std::int64_t{2000}, std::int64_t{1} << 40,
                                     std::numeric_limits<std::int64_t>::max()}) {
    amp::LossScaler scaler = dynamic_scaler();
    scaler.restore(1024, counter);
    CHECK_FALSE(scaler.update(false));
    CHECK(scaler.loss_scale() == 2048);
    CHECK(scaler.unskipped() == 0);
  }
  const nn::Linear net{2, 2};
  auto session = amp::initialize(net, {.opt_level = "O1", .verbosity = 0});
  auto state = session.state_dict();
  state["loss_scaler0"]["unskipped"] = 5000;
  session.load_state_dict(state);
  CHECK(session.loss_scaler(0).unskipped() == 5000);
}

TEST_CASE("the scale stays within its bounds and above the smallest normal float") {
  amp::LossScaler low = dynamic_scaler(), bounded = dynamic_scaler(64.0),
                  high = dynamic_scaler({}, 100000);
  for (int i = 0; i < 200; ++i) {
    low.update(true);
    bounded.update(true);
  }
  CHECK(low.loss_scale() == 0x1p-126);
  CHECK(std::isfinite(1 / static_cast<float>(low.loss_scale())));
  CHECK(bounded.loss_scale() == 64);
  for (int i = 0; i < 4000; ++i) high.update(false);
  CHECK(high.loss_scale() == 100000);
}

TEST_CASE("a static scale only counts") {
  amp::LossScaler scaler = fixed_scaler(128);
  CHECK_FALSE(scaler.update(true));
  for (int i = 0; i < 3000; ++i) CHECK_FALSE(scaler.update(false));
  CHECK(scaler.loss_scale() == 128);
  CHECK(scaler.unskipped() == 3001);
}

TEST_CASE("the scale can be set, and invalid values are refused") {
  amp::LossScaler scaler = dynamic_scaler();
  scaler.update(false);
  scaler.set_loss_scale(10);
  CHECK(scaler.loss_scale() == 10);
  CHECK(scaler.unskipped() == 1);
  for (const double bad : {0.0, -1.0, HUGE_VAL, std::nan("")})
    CHECK_THROWS_AS(scaler.set_loss_scale(bad), ValueError);
  CHECK_THROWS_AS(scaler.restore(1, -1), ValueError);
  CHECK(scaler.loss_scale() == 10);
}
