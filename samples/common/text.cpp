#include "text.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "file.h"

namespace samples {

using namespace mezzo;

namespace {

constexpr std::string_view kNumbers[] = {"zero",    "one",     "two",       "three",    "four",
                                         "five",    "six",     "seven",     "eight",    "nine",
                                         "ten",     "eleven",  "twelve",    "thirteen", "fourteen",
                                         "fifteen", "sixteen", "seventeen", "eighteen"};
constexpr std::string_view kAnimals[] = {"fox",  "owl",  "cat",  "bear",
                                         "crow", "hare", "mole", "wolf"};
constexpr std::string_view kColours[] = {"red", "old", "grey", "small", "quick", "white"};
constexpr std::string_view kDeeds[] = {"sees", "meets", "follows", "greets", "hears", "finds"};
constexpr std::string_view kPlaces[] = {"by the river", "in the wood", "on the hill",
                                        "under the moon"};

/** Generates a text of sums and short stories. */
std::string generated_text(std::int64_t sentences) {
  constexpr std::int64_t kChoices = 6;
  const Tensor drawn = empty({sentences, kChoices}, {.dtype = i64});
  // A fixed seed, so that the text is always the same.
  const Generator before = std::exchange(default_generator(), split(7, 0));
  randint_(drawn, 0, 1 << 20);
  default_generator() = before;
  const auto* draw = drawn.data<std::int64_t>();
  std::string text;
  for (std::int64_t s = 0; s < sentences; ++s, draw += kChoices) {
    const auto pick = [&](const auto& words, std::int64_t choice) {
      return std::string(words[static_cast<std::size_t>(draw[choice]) % std::size(words)]);
    };
    if (draw[0] % 2 == 0) {
      const auto a = static_cast<std::size_t>(draw[1] % 10),
                 b = static_cast<std::size_t>(draw[2] % 10);
      text += std::string(kNumbers[a]) + " and " + std::string(kNumbers[b]) + " are " +
              std::string(kNumbers[a + b]);
    } else {
      text += "the " + pick(kColours, 1) + " " + pick(kAnimals, 2) + " " + pick(kDeeds, 3) +
              " the " + pick(kAnimals, 4) + " " + pick(kPlaces, 5);
    }
    text += s % 4 == 3 ? ".\n" : ". ";
  }
  return text;
}

}  // namespace

Text::Text(std::string_view content, std::string notice) : notice_(std::move(notice)) {
  std::array<std::int64_t, 256> number{};
  number.fill(-1);
  for (const char c : content) number[static_cast<unsigned char>(c)] = 0;
  for (std::size_t byte = 0; byte < number.size(); ++byte)
    if (number[byte] == 0) {
      number[byte] = vocabulary();
      bytes_ += static_cast<char>(byte);
    }
  const auto size = static_cast<std::int64_t>(content.size());
  const CategoryScope not_activations(MemoryCategory::other);
  const Tensor all = empty({size}, {.dtype = i64});
  std::transform(content.begin(), content.end(), all.data<std::int64_t>(),
                 [&](char c) { return number[static_cast<unsigned char>(c)]; });
  const std::int64_t train = size - size / 10;
  train_ = all.narrow(0, 0, train);
  test_ = all.narrow(0, train, size - train);
}

Text Text::from_file(const std::string& path) {
  const std::string content = read_file("text", path);
  if (content.empty()) fail<ValueError>("text(" + path + ")", {.what = "the file is empty"});
  return {content, "text from " + path};
}

Text Text::built_in(std::int64_t sentences) {
  return {generated_text(sentences), "generated text; use --data FILE for another"};
}

Tensor Text::encode(std::string_view text) const {
  const Tensor numbers = empty({static_cast<std::int64_t>(text.size())}, {.dtype = i64});
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t place = bytes_.find(text[i]);
    if (place == std::string::npos)
      fail<ValueError>("encode", {.what = "the character does not occur in the text",
                                  .got = "\"" + std::string(1, text[i]) + "\"",
                                  .hint = "choose another --prompt"});
    numbers.data<std::int64_t>()[i] = static_cast<std::int64_t>(place);
  }
  return numbers;
}

std::string Text::decode(const std::vector<std::int64_t>& numbers) const {
  std::string text;
  for (const std::int64_t number : numbers) text += bytes_.at(static_cast<std::size_t>(number));
  return text;
}

void Text::require(std::int64_t count) const {
  const std::int64_t least = std::min(train_.numel(), test_.numel());
  if (least < count)
    fail<ValueError>("text", {.what = "too short: " + notice_,
                              .got = str(train_.numel(), " characters to train on and ",
                                         test_.numel(), " to test on"),
                              .expected = str("at least ", count, " of each")});
}

Batch random_stretches(const Tensor& text, std::int64_t batch, std::int64_t length) {
  const std::vector<std::int64_t> starts =
      randint(0, text.numel() - length, {batch}).to_vector<std::int64_t>();
  const CategoryScope not_activations(MemoryCategory::other);
  std::vector<Tensor> x, y;
  for (const std::int64_t start : starts) {
    x.push_back(text.narrow(0, start, length));
    y.push_back(text.narrow(0, start + 1, length));
  }
  return {stack(x), stack(y)};
}

std::int64_t draw_character(const Tensor& logits, double temperature) {
  if (temperature == 0) return argmax(logits).item<std::int64_t>();
  const Tensor running = cumsum(softmax(logits.to(f32) / temperature, -1), -1);
  // Inverse transform sampling: the first index whose cumulative probability exceeds a uniform
  // number. Rounding may leave the last sum below 1, so the index is clamped.
  const auto below = sum(running <= rand({1})).item<std::int64_t>();
  return std::min(below, logits.numel() - 1);
}

}  // namespace samples
