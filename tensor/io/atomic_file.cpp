#include "atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "../core/error.h"
#include "../text/text.h"

namespace mezzo::io {

namespace {

/** Returns the path with symbolic links resolved if it exists, else the path itself. */
std::string resolved(const std::string& path) {
  char* const full = ::realpath(path.c_str(), nullptr);
  if (!full) return path;
  std::string out = full;
  std::free(full);
  return out;
}

/** Returns ".NAME.tmp-RANDOM" in the directory of the target; a long name is cut to the length that
 *  a directory allows. */
std::string temporary_beside(const std::string& target) {
  const std::string suffix = temporary_suffix();
  const std::size_t start = target.rfind('/') + 1;  // 0 where there is no slash
  return target.substr(0, start) + "." + target.substr(start, NAME_MAX - suffix.size() - 1) +
         suffix;
}

}  // namespace

AtomicFile::AtomicFile(std::string_view operation, const std::string& path)
    : subject_(str(operation, "(", path, ")")),
      target_(resolved(path)),
      directory_(directory_of(target_)) {
  struct stat old{};
  const bool exists = ::stat(target_.c_str(), &old) == 0;
  if (target_.empty() || target_.back() == '/' || (exists && !S_ISREG(old.st_mode)))
    fail<IoError>(subject_,
                  {.what = "cannot write the file", .got = "a path that is no regular file"});
  for (int attempt = 0; file_ < 0; ++attempt) {
    temporary_ = temporary_beside(target_);
    file_ = system_call("open", [&] {
      return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    });
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
  if (const int error = write_all(file_, bytes)) fail_with("cannot write the file", error);
}

void AtomicFile::commit() {
  const char* failed = nullptr;
  if (const int error = sync_and_close(std::exchange(file_, -1), failed)) fail_with(failed, error);
  if (system_call("rename", [&] { return ::rename(temporary_.c_str(), target_.c_str()); }) < 0)
    fail_with("cannot put the file in its place", errno);
  renamed_ = true;
  if (const int error = sync_directory(directory_))
    fail_with("the file is in its place, but its directory cannot be made durable", error);
}

void AtomicFile::fail_with(const char* what, int error) const {
  fail<IoError>(subject_, {.what = what, .got = std::strerror(error)});
}

}  // namespace mezzo::io
