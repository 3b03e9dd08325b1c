// Text: a text as indices into the set of its bytes, split into training and test part.
#pragma once

#include <mezzo.h>

#include <string>
#include <string_view>
#include <vector>

namespace samples {

/** A text and its vocabulary of bytes. */
class Text {
 public:
  /** Reads the bytes of a file. Errors: IoError with path and cause; ValueError for an empty file.
   */
  static Text from_file(const std::string& path);
  /** Generates a text of `sentences` sentences: sums and short stories. The text is always the
   *  same. */
  static Text built_in(std::int64_t sentences = 4000);
  /** Returns from_file(), or built_in() if the path is empty. */
  static Text load(const std::string& path) { return path.empty() ? built_in() : from_file(path); }

  /** Returns the number of different bytes. */
  std::int64_t vocabulary() const { return static_cast<std::int64_t>(bytes_.size()); }
  /** Returns the first nine tenths, i64 [n]. */
  const mezzo::Tensor& train() const { return train_; }
  /** Returns the last tenth, i64 [n]. */
  const mezzo::Tensor& test() const { return test_; }
  /** Returns a sentence about the source of the text. */
  const std::string& notice() const { return notice_; }

  /** Returns the indices of a text's bytes, i64 [n]. Errors: ValueError for a byte that is not in
   *  the vocabulary. */
  mezzo::Tensor encode(std::string_view text) const;
  /** Returns the text of some indices. */
  std::string decode(const std::vector<std::int64_t>& numbers) const;

  /** Throws ValueError, with the source, if a part has fewer than `count` characters. */
  void require(std::int64_t count) const;

 private:
  Text(std::string_view content, std::string notice);

  std::string bytes_;  // the vocabulary: the byte of each index
  mezzo::Tensor train_, test_;
  std::string notice_;
};

/** Returns stretches of text at random positions: x [batch, length], and y shifted by one
 *  character. Takes one draw of this thread's default generator. */
mezzo::Batch random_stretches(const mezzo::Tensor& text, std::int64_t batch, std::int64_t length);

/** Samples a character index from logits [vocabulary] at a temperature; 0 selects the most likely
 *  one. Takes one draw. */
std::int64_t draw_character(const mezzo::Tensor& logits, double temperature);

}  // namespace samples
