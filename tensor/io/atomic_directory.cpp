#include "atomic_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "../core/error.h"
#include "../text/text.h"
#include "crc32c.h"
#include "utf8.h"

namespace mezzo::io {

FileFacts facts_of(const ByteReader& file) {
  constexpr std::uint64_t kChunk = std::uint64_t{1} << 20;
  FileFacts facts{.bytes = file.size()};
  std::vector<std::byte> chunk(static_cast<std::size_t>(std::min(kChunk, file.size())));
  for (std::uint64_t at = 0; at < file.size(); at += kChunk) {
    const std::uint64_t n = std::min(kChunk, file.size() - at);
    file.read(at, chunk.data(), n);
    facts.crc = crc32c(std::span(chunk).first(static_cast<std::size_t>(n)), facts.crc);
  }
  return facts;
}

void require_facts(const ByteReader& file, const FileFacts& expected) {
  const auto text = [](const FileFacts& facts) {
    return str(facts.bytes, " bytes with checksum ", crc_text(facts.crc));
  };
  FileFacts facts{.bytes = file.size()};
  if (facts.bytes == expected.bytes) facts = facts_of(file);
  if (facts == expected) return;
  fail<FormatError>(
      file.subject(),
      {.what = "the file is damaged",
       .got = facts.bytes == expected.bytes ? text(facts) : str(facts.bytes, " bytes"),
       .expected = text(expected)});
}

// ---- existing directories -----------------------------------------------------------------------

int list_directory(const std::string& path, std::vector<std::string>& names) {
  const int file = system_call(
      "open directory", [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (file < 0) return errno;
  DIR* const directory = ::fdopendir(file);
  if (!directory) {
    const int error = errno;
    ::close(file);
    return error;
  }
  errno = 0;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  const int error = errno;
  ::closedir(directory);
  return error;
}

bool is_directory(const std::string& path) {
  struct stat facts{};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

namespace {

/** Returns true if all entries of a directory are regular files with these names. */
bool are_files(const std::string& path, const std::vector<std::string>& present,
               const std::vector<std::string>& names) {
  return std::all_of(present.begin(), present.end(), [&](const std::string& name) {
    struct stat facts{};
    return std::find(names.begin(), names.end(), name) != names.end() &&
           ::lstat((path + "/" + name).c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
  });
}

}  // namespace

bool may_remove_directory(const std::string& path, const std::vector<std::string>& names) {
  std::vector<std::string> present;
  return is_directory(path) && list_directory(path, present) == 0 &&
         are_files(path, present, names);
}

bool remove_directory(const std::string& path, const std::vector<std::string>& names) {
  if (!may_remove_directory(path, names)) return false;
  for (const std::string& name : names)
    (void)system_call("unlink", [&] { return ::unlink((path + "/" + name).c_str()); });
  return system_call("rmdir", [&] { return ::rmdir(path.c_str()); }) == 0;
}

// ---- a new directory ----------------------------------------------------------------------------

AtomicDirectory::AtomicDirectory(std::string_view operation, const std::string& path,
                                 std::vector<std::string> names)
    : operation_(operation), target_(path), names_(std::move(names)) {
  require_replaceable();
  std::string candidate = target_ + temporary_suffix();
  if (system_call("mkdir", [&] { return ::mkdir(candidate.c_str(), 0777); }) < 0)
    fail_with("", "cannot create a directory", errno);
  temporary_ = std::move(candidate);
}

void AtomicDirectory::require_replaceable() const {
  struct stat facts{};
  if (::lstat(target_.c_str(), &facts) < 0) return;
  std::vector<std::string> present;
  const bool directory = S_ISDIR(facts.st_mode);
  if (const int error = directory ? list_directory(target_, present) : 0)
    fail_with("", "cannot read the directory that is to be replaced", error);
  if (directory && are_files(target_, present, names_)) return;
  fail<IoError>(str(operation_, "(", target_, ")"),
                {.what = "the path exists and will not be replaced",
                 .got = directory ? "a directory that holds other files" : "not a directory",
                 .hint = "move it away"});
}

AtomicDirectory::~AtomicDirectory() {
  if (!renamed_ && !temporary_.empty()) remove_temporary();
}

/** Removes the temporary directory. If that runs out of memory the directory stays, as after a
 *  crash; remove_leftovers() deletes it later. */
void AtomicDirectory::remove_temporary() noexcept {
  try {
    remove_directory(temporary_, names_);
  } catch (const std::bad_alloc&) {}
}

FileFacts AtomicDirectory::write(
    const std::string& name,
    const std::function<void(const std::function<ByteSink()>& ready)>& produce) {
  FileFacts facts;
  int file = -1;
  const auto take = [&](std::span<const std::byte> bytes) {
    if (const int error = write_all(file, bytes)) fail_with(name, "cannot write the file", error);
    facts.bytes += bytes.size();
    facts.crc = crc32c(bytes, facts.crc);
  };
  const auto ready = [&]() -> ByteSink {
    const std::string path = temporary_ + "/" + name;
    file = system_call("open", [&] {
      return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    });
    if (file < 0) fail_with(name, "cannot create the file", errno);
    return take;
  };
  try {
    produce(ready);
  } catch (...) {
    if (file >= 0) ::close(file);
    throw;
  }
  const char* failed = nullptr;
  if (const int error = sync_and_close(file, failed)) fail_with(name, failed, error);
  return facts;
}

FileFacts AtomicDirectory::write(const std::string& name, std::string_view text) {
  return write(name, [&](const std::function<ByteSink()>& ready) {
    ready()(std::as_bytes(std::span(text)));
  });
}

/** Renames the new directory to its place. An existing directory gets the temporary name in the
 *  same atomic operation if the file system supports that. Otherwise it is moved aside just before,
 *  and moved back if the second rename fails. */
void AtomicDirectory::take_place() {
  const char* const from = temporary_.c_str();
  const char* const to = target_.c_str();
  constexpr const char* kFailed = "cannot put the directory in its place";
  if (!is_directory(target_)) {
    if (system_call("rename", [&] { return ::rename(from, to); }) < 0)
      fail_with("", kFailed, errno);
    return;
  }
  if (system_call("renameat2",
                  [&] { return ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE); }) == 0)
    return;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) fail_with("", kFailed, errno);
  const std::string aside = target_ + temporary_suffix();
  if (system_call("rename", [&] { return ::rename(to, aside.c_str()); }) < 0)
    fail_with("", kFailed, errno);
  if (system_call("rename", [&] { return ::rename(from, to); }) < 0) {
    const int error = errno;
    (void)::rename(aside.c_str(), to);
    fail_with("", kFailed, error);
  }
  temporary_ = aside;
}

void AtomicDirectory::commit() {
  if (const int error = sync_directory(temporary_))
    fail_with("", "cannot make the directory durable", error);
  take_place();
  renamed_ = true;
  if (const int error = sync_directory(directory_of(target_)))
    fail_with("", "the directory is in its place, but that cannot be made durable", error);
  if (is_directory(temporary_)) remove_temporary();  // the replaced directory
}

void AtomicDirectory::fail_with(const std::string& name, const char* what, int error) const {
  fail<IoError>(str(operation_, "(", target_, name.empty() ? "" : "/", name, ")"),
                {.what = what, .got = std::strerror(error)});
}

}  // namespace mezzo::io
