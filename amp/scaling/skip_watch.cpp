#include "skip_watch.h"

#include "divergence.h"

namespace mezzo::amp {

void SkipWatch::act(const optim::StepRecord& record, optim::Optimizer& optimizer,
                    const std::string& who, const std::function<double()>& scale) {
  // A record that the host has uploaded again counts from 0.
  if (record.skipped < seen_skips_) seen_skips_ = 0;
  if (record.divergences < seen_divergences_) seen_divergences_ = 0;
  new_skips_ += record.skipped - seen_skips_;
  seen_skips_ = record.skipped;
  if (record.divergences == seen_divergences_) return;
  seen_divergences_ = record.divergences;
  fail_diverged(optimizer, who, scale(), record.limit);
}

void SkipWatch::tick(optim::Optimizer& optimizer, const std::string& who,
                     const std::function<double()>& scale) {
  if (++ticks_ % kPollSteps == 0) read_ = optimizer.clock().record_later();
  if (!read_ || !read_->arrived()) return;
  const std::unique_ptr<AsyncRead> arrived = std::move(read_);
  act(*static_cast<const optim::StepRecord*>(arrived->data()), optimizer, who, scale);
}

void SkipWatch::look(optim::Optimizer& optimizer, const std::string& who,
                     const std::function<double()>& scale) {
  if (optimizer.clock().is_ahead()) act(optimizer.clock().record(), optimizer, who, scale);
}

std::int64_t SkipWatch::take_new_skips() { return std::exchange(new_skips_, 0); }

}  // namespace mezzo::amp
