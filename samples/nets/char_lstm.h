// CharLstm: characters to the scores of the next one, with a memory that runs along the text.
// Sees: mezzo.h.
// Read next: ../char_lstm.cpp (how it is trained).
#pragma once

#include <mezzo.h>

namespace samples {

using namespace mezzo;

struct CharLstmOptions {
  std::int64_t vocabulary = 256;
  std::int64_t width = 512;
  std::int64_t layers = 2;
  double dropout = 0;  // between the layers, while training
};

/** Scores of the next character, and the state to read on from. */
struct CharLstmResult {
  Tensor logits;
  LstmState state;
};
inline auto fields(CharLstmResult& r) { return std::tie(r.logits, r.state); }

/** Characters [T,N] and a state (none at a text's start) to logits [T,N,vocabulary] and the state behind them. */
struct CharLstm : nn::Model<CharLstm> {
  explicit CharLstm(const CharLstmOptions& its_options = {}) : options(its_options) {}

  CharLstmResult forward(const Tensor& characters, const LstmState& state = {}) const {
    const LstmResult read = lstm(embedding(characters), state);
    return {head(read.output), {read.h, read.c}};
  }

  CharLstmOptions options;
  nn::Embedding embedding = add("embedding", nn::Embedding{options.vocabulary, options.width});
  nn::LSTM lstm =
      add("lstm",
          nn::LSTM{options.width, options.width, {.num_layers = options.layers, .dropout = options.dropout}});
  nn::Linear head = add("head", nn::Linear{options.width, options.vocabulary});
};

}  // namespace samples
