#include "atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "../error.h"
#include "../text.h"

namespace mezzo::io {

namespace {

std::atomic<FileFault> file_fault{nullptr};

/** Makes a system call that returns -1 and sets errno when it fails; repeats it when a signal interrupted it. */
template <class F> auto system_call(std::string_view name, F&& call) -> decltype(call()) {
  if (const FileFault fault = file_fault.load(std::memory_order_relaxed))
    if (const int error = fault(name)) {
      errno = error;
      return -1;
    }
  decltype(call()) result = -1;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

/** The path with symbolic links resolved, where it exists; else the path itself. */
std::string resolved(const std::string& path) {
  char* const full = ::realpath(path.c_str(), nullptr);
  if (!full) return path;
  std::string out = full;
  std::free(full);
  return out;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/** ".NAME.tmp-RANDOM" beside the target; a long name is cut, so that the result is one a directory can hold. */
std::string temporary_beside(const std::string& target) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuv";
  constexpr std::size_t kRandom = 13, kExtra = 6 + kRandom;  // "." and ".tmp-" and the digits
  const std::string name = target.substr(target.rfind('/') + 1).substr(0, NAME_MAX - kExtra);
  std::random_device device;
  std::uint64_t bits = std::uint64_t{device()} << 32 | device();
  std::string random;
  for (std::size_t i = 0; i < kRandom; ++i, bits >>= 5) random += kDigits[bits & 31];
  const std::size_t slash = target.rfind('/');
  return (slash == std::string::npos ? "" : target.substr(0, slash + 1)) + "." + name + ".tmp-" + random;
}

}  // namespace

void set_file_fault(FileFault fault) { file_fault.store(fault); }

AtomicFile::AtomicFile(std::string_view operation, const std::string& path)
    : subject_(str(operation, "(", path, ")")), target_(resolved(path)), directory_(directory_of(target_)) {
  struct stat old {};
  const bool exists = ::stat(target_.c_str(), &old) == 0;
  if (target_.empty() || target_.back() == '/' || (exists && !S_ISREG(old.st_mode)))
    fail<IoError>(subject_, {.what = "cannot write the file", .got = "a path that is no regular file"});
  for (int attempt = 0; file_ < 0; ++attempt) {
    temporary_ = temporary_beside(target_);
    file_ = system_call(
        "open", [&] { return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
    const bool taken = file_ < 0 && errno == EEXIST && attempt < 100;
    if (file_ < 0 && !taken) {
      temporary_.clear();
      fail_with("cannot create a file in the directory", errno);
    }
  }
  if (exists && system_call("fchmod", [&] { return ::fchmod(file_, old.st_mode & 07777); }) < 0) {
    const int error = errno;
    ::close(file_);
    ::unlink(temporary_.c_str());
    fail_with("cannot give the new file the permissions of the old one", error);
  }
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) ::close(file_);
  if (!renamed_) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = system_call("write", [&] { return ::write(file_, bytes.data(), bytes.size()); });
    if (written < 0) fail_with("cannot write the file", errno);
    if (written == 0) fail_with("cannot write the file", ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (system_call("fsync", [&] { return ::fsync(file_); }) < 0)
    fail_with("cannot make the file durable", errno);
  // The descriptor is gone whatever close returns: closing it again could close another thread's file.
  const bool closed = ::close(std::exchange(file_, -1)) == 0 || errno == EINTR;
  const int close_error = errno;
  if (system_call("close", [&] { return errno = close_error, closed ? 0 : -1; }) < 0)
    fail_with("cannot close the file", errno);
  if (system_call("rename", [&] { return ::rename(temporary_.c_str(), target_.c_str()); }) < 0)
    fail_with("cannot put the file in its place", errno);
  renamed_ = true;
  const int directory = system_call(
      "open directory", [&] { return ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (directory < 0) fail_with("the file is in its place, but its directory cannot be made durable", errno);
  const int synced = system_call("fsync directory", [&] { return ::fsync(directory); });
  const int error = errno;
  ::close(directory);
  // Some file systems know no fsync of directories; there is nothing more to do on them.
  if (synced < 0 && error != EINVAL && error != ENOTSUP)
    fail_with("the file is in its place, but its directory cannot be made durable", error);
}

void AtomicFile::fail_with(const char* what, int error) const {
  fail<IoError>(subject_, {.what = what, .got = std::strerror(error)});
}

}  // namespace mezzo::io
