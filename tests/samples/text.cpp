// Texts as character indices, and the nets that generate them.
#include "../../samples/common/text.h"

#include "../../samples/nets/char_gpt.h"
#include "../io/files.h"
#include "../support/catch.h"
#include "../support/throws.h"

using namespace samples;

TEST_CASE("a text is encoded and decoded", "[samples]") {
  const files::Directory folder;
  files::write(folder / "text", std::string("banana\xff\n", 8) + "bandana\nabab");
  const Text text = Text::from_file(folder / "text");
  CHECK(text.vocabulary() == 6);  // \n a b d n \xff
  CHECK(text.train().numel() == 18);
  CHECK(text.test().numel() == 2);
  CHECK(text.train().narrow(0, 0, 7).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{2, 1, 4, 1, 4, 1, 5});
  CHECK(text.decode(text.train().to_vector<std::int64_t>()) ==
        std::string("banana\xff\n", 8) + "bandana\nab");
  CHECK(text.decode(text.encode("nab").to_vector<std::int64_t>()) == "nab");
  CHECK_THROWS_WITH_AS_TEXT(text.encode("nix"), mezzo::ValueError, "got \"i\"");
}

TEST_CASE("files that are not text or too short are rejected", "[samples]") {
  const files::Directory folder;
  files::write(folder / "empty", "");
  CHECK_THROWS_WITH_AS_TEXT(Text::from_file(folder / "empty"), mezzo::ValueError, "empty");
  CHECK_THROWS_WITH_AS_TEXT(Text::from_file(folder / "missing"), mezzo::IoError, "cannot be read");
  CHECK_THROWS_WITH_AS_TEXT(Text::from_file(folder.path()), mezzo::IoError, "is a directory");
  files::write(folder / "short", "twenty characters ..");
  const Text text = Text::from_file(folder / "short");
  CHECK_NOTHROW(text.require(2));
  CHECK_THROWS_WITH_AS_TEXT(text.require(3), mezzo::ValueError,
                            "18 characters to train on and 2 to test on");
}

TEST_CASE("the built-in text is always the same and does not use the generator", "[samples]") {
  mezzo::manual_seed(5);
  const Text text = Text::built_in(100);
  CHECK(mezzo::default_generator() == mezzo::Generator{5, 0});
  CHECK(text.decode(text.train().to_vector<std::int64_t>()) ==
        text.decode(Text::built_in(100).train().to_vector<std::int64_t>()));
  CHECK(text.vocabulary() < 30);
  CHECK(text.train().numel() > 2000);
}

TEST_CASE("targets are the next characters, and batches depend on the seed", "[samples]") {
  const Text text = Text::built_in(100);
  mezzo::manual_seed(3);
  const mezzo::Batch batch = random_stretches(text.train(), 4, 16);
  CHECK(batch.x.shape() == mezzo::Shape{4, 16});
  CHECK(batch.x.narrow(1, 1, 15).to_vector<double>() ==
        batch.y.narrow(1, 0, 15).to_vector<double>());
  mezzo::manual_seed(3);
  CHECK(random_stretches(text.train(), 4, 16).x.to_vector<double>() == batch.x.to_vector<double>());
  CHECK(random_stretches(text.train(), 4, 16).x.to_vector<double>() != batch.x.to_vector<double>());
  // A text as long as one sequence has a single starting position.
  const mezzo::Tensor all = mezzo::arange(17, {.dtype = mezzo::i64});
  CHECK(random_stretches(all, 2, 16).y.to_vector<double>().back() == 16);
}

TEST_CASE("characters are sampled with their probabilities", "[samples]") {
  const mezzo::Tensor logits = log(mezzo::tensor({0.5, 0.25, 0.25, 0}));
  CHECK(draw_character(mezzo::tensor({0., 3, 1}), 0) == 1);
  mezzo::manual_seed(1);
  std::vector<int> seen(4);
  for (int i = 0; i < 4000; ++i) ++seen.at(static_cast<std::size_t>(draw_character(logits, 1)));
  CHECK(std::abs(seen[0] - 2000) < 150);
  CHECK(std::abs(seen[1] - 1000) < 130);
  CHECK(seen[3] == 0);
}

namespace {

const CharGptOptions kTiny{.vocabulary = 11, .block = 12, .layers = 2, .heads = 2, .width = 16};

mezzo::Tensor some_characters(std::int64_t n) { return mezzo::randint(0, 11, {1, n}); }

}  // namespace

TEST_CASE("a transformer gives the same results with and without a key-value cache", "[samples]") {
  mezzo::manual_seed(2);
  const CharGpt net(kTiny);
  net.eval();
  // Larger weights, so that attention is far from uniform.
  for (const mezzo::Tensor& p : net.parameters()) mul_(p.detach(), 5);
  const mezzo::NoGrad no_grad;
  const mezzo::Tensor x = some_characters(12), whole = net(x);
  for (const std::int64_t first : {1, 5, 12}) {
    mezzo::nn::KeyValueCache cache;
    std::vector<mezzo::Tensor> parts{net(x.narrow(1, 0, first), &cache)};
    for (std::int64_t i = first; i < 12; ++i) parts.push_back(net(x.narrow(1, i, 1), &cache));
    CHECK(cache.seen == 12);
    CHECK(max(abs(cat(parts, 1) - whole)).item<double>() < 1e-4 * max(abs(whole)).item<double>());
  }
  mezzo::nn::KeyValueCache some;
  const mezzo::Tensor begin = net(x.narrow(1, 0, 5), &some), rest = net(x.narrow(1, 5, 7), &some);
  CHECK(max(abs(cat({begin, rest}, 1) - whole)).item<double>() <
        1e-4 * max(abs(whole)).item<double>());
  mezzo::nn::KeyValueCache full;
  net(x, &full);
  CHECK_THROWS_AS(net(some_characters(1), &full), mezzo::IndexError);  // beyond the block size
}

TEST_CASE("generating with the cache gives the same text as without", "[samples]") {
  mezzo::manual_seed(4);
  const CharGpt net(kTiny);
  for (const mezzo::Tensor& p : net.parameters()) mul_(p.detach(), 5);
  const mezzo::Tensor prompt = some_characters(3).flatten();
  const std::vector<std::int64_t> written = write(net, prompt, 9, 0);
  REQUIRE(written.size() == 12);
  const mezzo::NoGrad no_grad;
  net.eval();
  for (std::size_t n = 3; n < written.size(); ++n) {
    const std::vector<double> before(written.begin(),
                                     written.begin() + static_cast<std::ptrdiff_t>(n));
    const mezzo::Tensor x =
        mezzo::tensor(before, {1, static_cast<std::int64_t>(n)}, {.dtype = mezzo::i64});
    CHECK(argmax(net(x)[0][-1]).item<std::int64_t>() == written[n]);
  }
  CHECK(write(net, prompt, 40, 0.8).size() == 43);  // more than one block
  CHECK(write(net, some_characters(30).flatten(), 2, 0).size() ==
        32);  // a prompt longer than the block
}

TEST_CASE("a transformer is causal", "[samples]") {
  mezzo::manual_seed(6);
  const CharGpt net(kTiny);
  net.eval();
  const mezzo::NoGrad no_grad;
  const mezzo::Tensor x = some_characters(8), y = x.clone();
  y.narrow(1, 6, 2).copy_(remainder(y.narrow(1, 6, 2) + 1, 11));
  CHECK(net(x).narrow(1, 0, 6).to_vector<double>() == net(y).narrow(1, 0, 6).to_vector<double>());
  CHECK(net(x)[0][7].to_vector<double>() != net(y)[0][7].to_vector<double>());
}
