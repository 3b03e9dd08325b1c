#include "transfer.h"

#include <cstring>
#include <vector>

#include "../core/error.h"
#include "../device/capture.h"
#include "../text/text.h"

namespace mezzo {

namespace {

/** A read of CPU memory, which is complete immediately. */
class CopiedBytes final : public AsyncRead {
 public:
  CopiedBytes(const void* from, std::size_t bytes)
      : bytes_(static_cast<const char*>(from), static_cast<const char*>(from) + bytes) {}
  bool arrived() const override { return true; }
  void wait() const override {}
  const void* data() const override { return bytes_.data(); }

 private:
  std::vector<char> bytes_;
};

}  // namespace

void refuse_upload_in_capture(Device to) {
  if (Capture::current(to))
    fail<StateError>(
        ApiScope::outermost("upload"),
        {.what = "lengths or counts of the host are read while a step is being captured",
         .expected = "work that stays on the device",
         .hint = "do it before the step, and pass the result as an input"});
}

void upload(const Tensor& to, const void* from, std::size_t bytes, const CopyOptions& options) {
  refuse_upload_in_capture(to.device());
  if (to.device() == cpu)
    std::memcpy(to.raw_data(), from, bytes);
  else
    find_backend(to.device().kind)->copy(from, cpu, to.raw_data(), to.device(), bytes, options);
}

void download(const Tensor& from, void* to, std::size_t bytes) {
  Capture::refuse_crossing("reading a scale or a count", from, cpu);
  if (from.device() == cpu)
    std::memcpy(to, from.raw_data(), bytes);
  else
    find_backend(from.device().kind)->copy(from.raw_data(), from.device(), to, cpu, bytes, {});
}

std::unique_ptr<AsyncRead> read_later(const Tensor& from, std::size_t bytes) {
  if (from.device() == cpu) return std::make_unique<CopiedBytes>(from.raw_data(), bytes);
  return find_backend(from.device().kind)->read_later(from.raw_data(), from.device(), bytes);
}

}  // namespace mezzo
