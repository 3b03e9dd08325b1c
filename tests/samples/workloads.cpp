// The samples' training: learns at every level, repeats bit for bit, resumes bit for bit.
#include "../../samples/common/training.h"

#include <filesystem>

#include "../io/files.h"
#include "../support/catch.h"
#include "../support/throws.h"

using namespace samples;

namespace {

const mezzo::data::Split& digits() {
  static const mezzo::data::Split split = load_digits("", 512, 128, 3);
  return split;
}

TrainSettings tiny(const std::string& net, const std::string& level) {
  return {.net = net, .level = level, .epochs = 1, .batch = 32, .max_steps = 12, .quiet = true};
}

}  // namespace

TEST_CASE("every net learns at every level, and the levels differ", "[samples]") {
  for (const std::string& net : net_names())
    for (const char* level : {"O0", "O1", "O2", "O3", "O4", "O5"}) {
      INFO(net << " " << level);
      const TrainResult r = train(tiny(net, level), digits());
      CHECK(r.steps == 12);
      CHECK(r.losses.size() == 12);
      CHECK(r.losses.front() > 1.5);
      // O3 promises nothing; the others must have learned something in twelve steps.
      if (std::string(level) != "O3") CHECK(r.losses.back() + static_cast<double>(r.skipped_steps) > 0);
      if (std::string(level) != "O3") CHECK(r.losses.back() < r.losses.front());
      CHECK((r.casts_per_step > 0) == (std::string(level) != "O0"));
    }
}

TEST_CASE("losses are the same bits from run to run and for any number of threads", "[samples]") {
  const int before = mezzo::num_threads();
  for (const std::string& net : net_names())
    for (const char* level : {"O0", "O1", "O2"}) {
      INFO(net << " " << level);
      TrainSettings settings = tiny(net, level);
      settings.max_steps = 5;
      mezzo::set_num_threads(1);
      const std::vector<double> losses = train(settings, digits()).losses;
      for (const int threads : {1, 2, 4, 8}) {
        INFO(threads << " threads");
        mezzo::set_num_threads(threads);
        CHECK(train(settings, digits()).losses == losses);
      }
    }
  mezzo::set_num_threads(before);
}

TEST_CASE("a resumed run goes on bit for bit", "[samples]") {
  for (const char* level : {"O0", "O1", "O2", "O5"}) {
    INFO(level);
    const files::Directory directory;
    TrainSettings settings = tiny("mlp", level);
    settings.max_steps = 0;
    settings.epochs = 2;
    const std::vector<double> whole = train(settings, digits()).losses;
    settings.epochs = 1;
    settings.save = directory.path();
    const std::vector<double> first = train(settings, digits()).losses;
    settings.epochs = 2;
    settings.save = "";
    settings.resume = directory.path();
    const std::vector<double> second = train(settings, digits()).losses;
    std::vector<double> joined = first;
    joined.insert(joined.end(), second.begin(), second.end());
    CHECK(joined == whole);
    // Cut within an epoch: 16 batches in one.
    settings.resume = "";
    settings.epochs = 2;
    settings.max_steps = 21;
    settings.save = directory / "within";
    joined = train(settings, digits()).losses;
    settings.max_steps = 0;
    settings.resume = settings.save;
    settings.save = "";
    const std::vector<double> rest = train(settings, digits()).losses;
    joined.insert(joined.end(), rest.begin(), rest.end());
    CHECK(joined == whole);
    settings.net = "lenet";
    CHECK_THROWS_WITH_AS_TEXT(train(settings, digits()), mezzo::ValueError, "the values do not fit LeNet");
  }
}

TEST_CASE("MNIST, where its files are", "[samples]") {
  const char* dir = std::getenv("MEZZO_MNIST_DIR");
  if (!dir || !std::filesystem::exists(dir))
    SKIP_TEST("no MNIST files; name their folder in MEZZO_MNIST_DIR");
  const mezzo::data::Split mnist = load_digits(dir, 0, 0, 0);
  CHECK(mnist.train.x().shape() == mezzo::Shape{mnist.train.size(), 1, 28, 28});
  TrainSettings settings = tiny("mlp", "O1");
  settings.max_steps = 60;
  CHECK(train(settings, mnist).accuracy > 0.8);
}
