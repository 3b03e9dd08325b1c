// Finds and loads libmezzo-mpi.so.
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include <mezzo_features.h>
#include "../core/error.h"
#include "../cpu/combine.h"
#include "../text/text.h"
#include "engine.h"

#if MZ_LINKS_MPI
extern "C" const mezzo::comm::detail::TransportLibrary mezzo_transport;
#endif

namespace mezzo::comm::detail {

namespace {

constexpr const char* kFile = "libmezzo-mpi.so";
constexpr const char* kInstall = "apt-get install libopenmpi-dev openmpi-bin";

/** Returns the path of libmezzo-mpi.so beside the library or program that contains this code. */
std::string beside_this_library() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(&beside_this_library), &info) || !info.dli_fname)
    return kFile;
  const std::string_view path = info.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? std::string(kFile) : str(path.substr(0, slash + 1), kFile);
}

#if !MZ_LINKS_MPI
/** MPI libraries load parts of themselves that need their symbols: hence RTLD_GLOBAL. */
void* open_library(const char* path) { return dlopen(path, RTLD_NOW | RTLD_GLOBAL); }
#endif

const TransportLibrary& library() {
#if MZ_LINKS_MPI
  return mezzo_transport;
#else
  const char* const chosen = std::getenv("MEZZO_MPI_LIBRARY");
  const std::string path = chosen ? chosen : beside_this_library();
  void* handle = open_library(path.c_str());
  const char* why = handle ? nullptr : dlerror();
  const std::string reason = why ? why : "no reason given";
  // Beside a program that is linked to the static library there is no such file.
  if (!handle && !chosen) handle = open_library(MZ_MPI_LIBRARY);
  if (!handle)
    fail<Unsupported>("comm::init", {.what = "the MPI part of Mezzo cannot be loaded",
                                     .got = reason,
                                     .hint = str(kInstall, ", then build with -Dmpi=enabled")});
  const void* const found = dlsym(handle, kTransportSymbol);
  if (!found)
    fail<Unsupported>("comm::init", {.what = "this is not the MPI part of Mezzo",
                                     .got = path,
                                     .expected = str("a library with ", kTransportSymbol)});
  return *static_cast<const TransportLibrary*>(found);
#endif
}

/** Returns the family that a launcher belongs to; empty if it can start several. */
std::string_view family_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::open_mpi: return "Open MPI";
    case Launcher::mpich: return "MPICH";
    default: return {};
  }
}

}  // namespace

std::unique_ptr<Transport> load_mpi(const Launch& launch) {
  const TransportLibrary& found = library();
  if (found.version != kTransportVersion)
    fail<Unsupported>("comm::init", {.what = "libmezzo-mpi.so is of another version of Mezzo",
                                     .got = str("interface ", found.version),
                                     .expected = str("interface ", kTransportVersion),
                                     .hint = "install both libraries from one build"});
  const std::string_view family = family_of(launch.launcher);
  // srun --mpi=pmi2 sets the variables of MPICH for every MPI.
  const bool slurm = std::getenv("SLURM_STEP_ID") != nullptr;
  if (!family.empty() && family != found.family && !slurm)
    fail<Unsupported>("comm::init",
                      {.what = "the launcher and the MPI that Mezzo was built with do not match",
                       .got = str("a launcher of ", family, " (", describe(launch), ")"),
                       .expected = str(found.family, " ", found.release),
                       .hint = str(found.family == std::string_view("Open MPI") ? "mpirun.openmpi"
                                                                                : "mpiexec.hydra",
                                   " -np ", launch.size, " PROGRAM")});
  return std::unique_ptr<Transport>(found.create(&cpu_kernels::combine));
}

}  // namespace mezzo::comm::detail
