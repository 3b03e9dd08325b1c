// CharLstm: an LSTM that predicts the next character of a text.
#pragma once

#include <mezzo.h>

namespace samples {

using namespace mezzo;

struct CharLstmOptions {
  std::int64_t vocabulary = 256;  // number of different characters
  std::int64_t width = 512;       // embedding size and hidden size
  std::int64_t layers = 2;        // number of LSTM layers
  double dropout = 0;             // dropout probability between the layers while training
};

/** Logits of the next character, and the state after the last character. */
struct CharLstmResult {
  Tensor logits;
  LstmState state;
};
inline auto fields(CharLstmResult& r) { return std::tie(r.logits, r.state); }

/** Maps characters [T,N] and a state (undefined at the start of a text) to logits [T,N,vocabulary]
 *  and the new state. */
struct CharLstm : nn::Model<CharLstm> {
  explicit CharLstm(const CharLstmOptions& its_options = {}) : options(its_options) {}

  CharLstmResult forward(const Tensor& characters, const LstmState& state = {}) const {
    const LstmResult read = lstm(embedding(characters), state);
    return {head(read.output), {read.h, read.c}};
  }

  CharLstmOptions options;
  nn::Embedding embedding = add("embedding", nn::Embedding{options.vocabulary, options.width});
  nn::LSTM lstm = add("lstm", nn::LSTM{options.width,
                                       options.width,
                                       {.num_layers = options.layers, .dropout = options.dropout}});
  nn::Linear head = add("head", nn::Linear{options.width, options.vocabulary});
};

}  // namespace samples
