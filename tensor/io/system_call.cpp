#include "system_call.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>

namespace mezzo::io {

namespace {

std::atomic<FileFault> current_fault{nullptr};

constexpr std::string_view kMark = ".tmp-", kDigits = "0123456789abcdefghijklmnopqrstuv";
constexpr std::size_t kRandom = 13;

}  // namespace

void set_file_fault(FileFault fault) { current_fault.store(fault); }

int file_fault(std::string_view call) {
  const FileFault fault = current_fault.load(std::memory_order_relaxed);
  return fault ? fault(call) : 0;
}

int write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const int fault = file_fault("write");
    if (fault > 0) return fault;
    const std::size_t size = fault == kShortWrite ? (bytes.size() + 1) / 2 : bytes.size();
    const ssize_t written = ::write(file, bytes.data(), size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return ENOSPC;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

int sync_and_close(int file, const char*& failed) {
  failed = "cannot make the file durable";
  const int sync_error = system_call("fsync", [&] { return ::fsync(file); }) < 0 ? errno : 0;
  // The descriptor is invalid whatever close returns: closing it again could close another thread's
  // file.
  const int close_error = ::close(file) == 0 || errno == EINTR ? 0 : errno;
  if (sync_error != 0) return sync_error;
  failed = "cannot close the file";
  const int fault = file_fault("close");
  return fault > 0 ? fault : close_error;
}

int sync_directory(const std::string& path) {
  const int directory = system_call(
      "open directory", [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (directory < 0) return errno;
  const int error =
      system_call("fsync directory", [&] { return ::fsync(directory); }) < 0 ? errno : 0;
  ::close(directory);
  return error == EINVAL || error == ENOTSUP ? 0 : error;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string temporary_suffix() {
  std::random_device device;
  std::uint64_t bits = std::uint64_t{device()} << 32 | device();
  std::string suffix(kMark);
  for (std::size_t i = 0; i < kRandom; ++i, bits >>= 5) suffix += kDigits[bits & 31];
  return suffix;
}

bool is_temporary(std::string_view name) {
  if (name.size() < kMark.size() + kRandom) return false;
  const std::string_view end = name.substr(name.size() - kRandom - kMark.size());
  return end.starts_with(kMark) &&
         end.substr(kMark.size()).find_first_not_of(kDigits) == std::string_view::npos;
}

}  // namespace mezzo::io
