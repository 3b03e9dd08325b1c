// A transport that passes all calls to the one in LATE_MPI_OF, and whose transfers end late on
// rank 1: what a rank with a busy core sees. Notes arrive in time.
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <memory>

#include "../../tensor/comm/transport.h"

namespace {

using namespace mezzo::comm::detail;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDelay{20};

class LateTransport final : public Transport {
 public:
  explicit LateTransport(Transport* inner) : inner_(inner) {}

  std::string open() override { return inner_->open(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  int local_rank() const override { return inner_->local_rank(); }
  int threads() const override { return inner_->threads(); }
  std::string start(const Transfer& transfer) override {
    ended_ = false;
    until_ = Clock::now() + kDelay;
    return inner_->start(transfer);
  }
  std::string test(bool& done) override {
    std::string failure;
    if (!ended_) failure = inner_->test(ended_);
    done = ended_ && (rank() == 0 || Clock::now() > until_);
    return failure;
  }
  std::string split(int group, int color, int key, int& made) override {
    return inner_->split(group, color, key, made);
  }
  void send_note(const std::string& text) override { inner_->send_note(text); }
  bool receive_note(int& from, std::string& text) override {
    return inner_->receive_note(from, text);
  }
  bool notes_sent() override { return inner_->notes_sent(); }
  void close() override { inner_->close(); }

 private:
  std::unique_ptr<Transport> inner_;
  bool ended_ = false;
  Clock::time_point until_;
};

const TransportLibrary& library() {
  void* const handle = dlopen(std::getenv("LATE_MPI_OF"), RTLD_NOW | RTLD_GLOBAL);
  return *static_cast<const TransportLibrary*>(dlsym(handle, kTransportSymbol));
}

Transport* create(Combine combine) { return new LateTransport(library().create(combine)); }

}  // namespace

extern "C" {
__attribute__((visibility("default"))) extern const TransportLibrary mezzo_transport{
    kTransportVersion, library().family, library().release, create};
}
