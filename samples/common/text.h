// Text: a text as numbers, one for each kind of byte in it, split into what one trains on and what one is judged by.
// Sees: mezzo.h.
// Read next: ../char_gpt.cpp, ../char_lstm.cpp.
#pragma once

#include <mezzo.h>

#include <string>
#include <string_view>
#include <vector>

namespace samples {

class Text {
 public:
  /** The bytes of a file. Errors: IoError, naming path and cause; ValueError for an empty one. */
  static Text from_file(const std::string& path);
  /** About `sentences` sentences that the project makes up: sums and small stories, the same ones every time. */
  static Text built_in(std::int64_t sentences = 4000);
  /** from_file(), or built_in() where there is no path. */
  static Text load(const std::string& path) { return path.empty() ? built_in() : from_file(path); }

  /** Number of different bytes. */
  std::int64_t vocabulary() const { return static_cast<std::int64_t>(bytes_.size()); }
  /** The first nine tenths and the last tenth, i64 [n]. */
  const mezzo::Tensor& train() const { return train_; }
  const mezzo::Tensor& test() const { return test_; }
  /** A sentence about where it comes from. */
  const std::string& notice() const { return notice_; }

  /** i64 [n]. Errors: ValueError for a byte that is not in the text. */
  mezzo::Tensor encode(std::string_view text) const;
  std::string decode(const std::vector<std::int64_t>& numbers) const;

  /** Errors: ValueError naming the source where a part has fewer than `count` characters. */
  void require(std::int64_t count) const;

 private:
  Text(std::string_view content, std::string notice);

  std::string bytes_;  // the byte that each number stands for, in order
  mezzo::Tensor train_, test_;
  std::string notice_;
};

/** Stretches from random places: x [batch, length] and, one character on, y. Takes one draw of this thread's default generator. */
mezzo::Batch random_stretches(const mezzo::Tensor& text, std::int64_t batch, std::int64_t length);

/** A character drawn with the probabilities that logits [vocabulary] give at this temperature; 0 takes the likeliest. Takes one draw. */
std::int64_t draw_character(const mezzo::Tensor& logits, double temperature);

}  // namespace samples
