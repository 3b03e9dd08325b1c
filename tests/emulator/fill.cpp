#include "fill.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace mezzo::emulator {

namespace {

FillLog* open_fill_log = nullptr;
int dry_runs = 0;

/** Returns the functions of a program file by their offset. Kernels have internal linkage and so
 *  are not in the dynamic symbol table. */
std::map<std::uint64_t, std::string> functions_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::map<std::uint64_t, std::string> functions;
  const auto read = [&](std::uint64_t at, auto& to) {
    if (at + sizeof to <= bytes.size()) std::memcpy(&to, bytes.data() + at, sizeof to);
  };
  Elf64_Ehdr header{};
  read(0, header);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr table{}, names{};
    read(header.e_shoff + i * sizeof table, table);
    if (table.sh_type != SHT_SYMTAB) continue;
    read(header.e_shoff + table.sh_link * sizeof names, names);
    for (std::uint64_t at = 0; at < table.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol{};
      read(table.sh_offset + at, symbol);
      const std::uint64_t name = names.sh_offset + symbol.st_name;
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && name < bytes.size())
        functions[symbol.st_value] = bytes.c_str() + name;
    }
  }
  return functions;
}

/** The names of a kernel. */
struct Names {
  std::string plain = "unknown", instance = "unknown";
};

/** Returns the index behind the template arguments that begin at `at`; `at` if there are none. */
std::size_t behind_arguments(const std::string& text, std::size_t at) {
  int depth = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    depth += text[i] == '<' ? 1 : text[i] == '>' ? -1 : 0;
    if (depth == 0) return i == at ? at : i + 1;
  }
  return at;
}

std::string without(std::string text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at))
    text.erase(at, part.size());
  return text;
}

/** Returns "softmax_kernel" and "softmax_kernel<float>" for the mangled mezzo::gpu::(anonymous
 *  namespace)::softmax_kernel<float>. */
Names names_of(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> full(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  const std::string text = full ? full.get() : mangled;
  constexpr std::string_view kEnd = "_kernel";
  const std::size_t end = text.find(kEnd);
  if (end == std::string::npos) return {text, text};
  const std::size_t before = text.find_last_of(": ", end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  const std::size_t arguments = end + kEnd.size();
  std::string instance = text.substr(begin, behind_arguments(text, arguments) - begin);
  for (const std::string_view part : {"(anonymous namespace)::", "mezzo::", "gpu::", "op::"})
    instance = without(std::move(instance), part);
  return {text.substr(begin, arguments - begin), instance};
}

Names name_of(const void* kernel) {
  static std::mutex mutex;
  static auto& known = *new std::map<const void*, Names>;
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = known.try_emplace(kernel);
  Dl_info place{};
  if (!is_new || dladdr(kernel, &place) == 0) return entry->second;
  static auto& functions = *new std::map<std::uint64_t, std::string>(functions_of(place.dli_fname));
  const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(kernel) -
                                                 static_cast<const char*>(place.dli_fbase));
  if (const auto at = functions.find(offset); at != functions.end())
    entry->second = names_of(at->second);
  return entry->second;
}

}  // namespace

std::int64_t Launch::resident_threads() const {
  constexpr std::int64_t kThreads = 2048, kBlocks = 32;
  const std::int64_t blocks_of_one = (blocks + kMultiprocessors - 1) / kMultiprocessors;
  return threads * std::min({blocks_of_one, kBlocks, kThreads / threads});
}

FillLog::FillLog() : outer_(std::exchange(open_fill_log, this)) {}
FillLog::~FillLog() { open_fill_log = outer_; }

DryRun::DryRun() { ++dry_runs; }
DryRun::~DryRun() { --dry_runs; }
bool DryRun::is_on() { return dry_runs > 0; }

void log_fill(const void* kernel, std::int64_t blocks, std::int64_t threads) {
  if (!open_fill_log) return;
  const Names names = name_of(kernel);
  open_fill_log->launches.push_back({names.plain, blocks, threads, names.instance});
}

}  // namespace mezzo::emulator
