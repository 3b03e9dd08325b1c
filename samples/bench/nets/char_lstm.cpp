// The workload of char_lstm: an LSTM whose state is carried from batch to batch.
#include "../../nets/char_lstm.h"

#include "../../common/text.h"
#include "../workload.h"

namespace samples {

std::unique_ptr<Workload> make_char_lstm(const Setting& s) {
  const Text text = Text::built_in();
  const CharLstm net({.vocabulary = text.vocabulary(), .width = s.pick_width(16, 512, 512)});
  const std::int64_t stretch = s.pick(16, 64, 256), batch = s.pick_batch(4, 16, 64);
  // Columns of consecutive stretches, as in char_lstm. The state is reset after kBatches stretches.
  text.require(2);
  const std::int64_t rows = kBatches * stretch + 1, step = (text.train().numel() - rows) / batch;
  if (step < 1) text.require(rows + batch);
  std::vector<Tensor> columns;
  for (std::int64_t i = 0; i < batch; ++i)
    columns.push_back(text.train().narrow(0, i * step, rows));
  const Tensor read = stack(columns, 1);
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < kBatches; ++i)
    batches.push_back({read.narrow(0, i * stretch, stretch).contiguous(),
                       read.narrow(0, i * stretch + 1, stretch).contiguous()});
  const auto optimizer =
      std::make_shared<optim::Adam>(net.parameters(), optim::AdamOptions{.lr = 2e-3});
  const auto memory = std::make_shared<LstmState>();
  const auto turn = std::make_shared<std::int64_t>(0);
  return supervised(s,
                    {.model = net,
                     .optimizer = optimizer,
                     .loss =
                         [=](const Batch& b) {
                           if ((*turn)++ % kBatches == 0) *memory = {};
                           const CharLstmResult result = net(b.x, *memory);
                           *memory = {result.state.h.detach(), result.state.c.detach()};
                           return cross_entropy(result.logits.flatten(0, 1), b.y.flatten());
                         },
                     .batches = batches,
                     .max_norm = 1,
                     .samples = batch},
                    {{"optimizer", "adam"}, {"lr", "2e-3"}});
}

}  // namespace samples
