#include "launch.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "../core/error.h"
#include "../text/text.h"

namespace mezzo::comm::detail {

namespace {

constexpr const char* kOff = "MEZZO_COMM=off starts this process alone";

/** The variables of a launcher; a null name means that the launcher has none. */
struct Names {
  Launcher launcher;
  const char* rank;
  const char* size;
};
constexpr Names kOpenMpi{Launcher::open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"};
constexpr Names kMpich{Launcher::mpich, "PMI_RANK", "PMI_SIZE"};
constexpr Names kPmix{Launcher::pmix, "PMIX_RANK", nullptr};
constexpr Names kSlurm{Launcher::slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"};
constexpr Names kTorchrun{Launcher::torchrun, "RANK", "WORLD_SIZE"};

std::string quoted(const char* name, const char* value) {
  return value ? str(name, "=", value) : str(name, " not set");
}

/** Returns the value of a variable as a number of at least `lowest`. */
int number(const Environment& variable, const char* name, int lowest) {
  const char* const text = variable(name);
  const std::string_view digits = text ? text : "";
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < lowest)
    fail<ValueError>("comm::init", {.what = "a launcher's variable is wrong",
                                    .got = quoted(name, text),
                                    .expected = str("an integer of at least ", lowest),
                                    .hint = kOff});
  return value;
}

/** Returns what one launcher's variables say; nothing if none of them is set. */
std::optional<Launch> read(const Environment& variable, const Names& names) {
  if (!variable(names.rank) && !(names.size && variable(names.size))) return std::nullopt;
  Launch found{names.launcher, number(variable, names.rank, 0), 0, names.rank, names.size};
  if (!names.size) return found;
  found.size = number(variable, names.size, 1);
  if (found.rank >= found.size)
    fail<ValueError>("comm::init", {.what = "a launcher's variables contradict each other",
                                    .got = describe(found),
                                    .expected = "a rank below the size",
                                    .hint = kOff});
  return found;
}

void require_agreement(const Launch& a, const std::optional<Launch>& b) {
  if (!b || (a.rank == b->rank && (b->size == 0 || a.size == b->size))) return;
  fail<ValueError>("comm::init", {.what = "variables of two launchers contradict each other",
                                  .got = str(describe(a), " and ", describe(*b)),
                                  .expected = "one launcher",
                                  .hint = str("unset those that are inherited; ", kOff)});
}

/** RANK and WORLD_SIZE have common names, so each of them alone means nothing. */
std::optional<Launch> read_torchrun(const Environment& variable) {
  if (!variable(kTorchrun.rank) || !variable(kTorchrun.size)) return std::nullopt;
  const auto found = read(variable, kTorchrun);
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"})
    if (found->size > 1 && !variable(name))
      fail<ValueError>("comm::init", {.what = "torchrun's variables are incomplete",
                                      .got = str(describe(*found), ", ", name, " not set"),
                                      .expected = "all that torchrun sets",
                                      .hint = kOff});
  return found;
}

bool is_off(const Environment& variable) {
  const char* const value = variable("MEZZO_COMM");
  if (!value || !*value) return false;
  if (std::string_view(value) == "off") return true;
  fail<ValueError>("comm::init", {.what = "MEZZO_COMM is not known",
                                  .got = quoted("MEZZO_COMM", value),
                                  .expected = "off, or not set"});
}

}  // namespace

Launch detect_launch(const Environment& variable) {
  if (is_off(variable)) return {};
  const auto pmi = read(variable, kMpich);
  const auto torchrun = read_torchrun(variable);
  if (auto found = read(variable, kOpenMpi)) {
    require_agreement(*found, pmi);
    require_agreement(*found, read(variable, kPmix));
    require_agreement(*found, torchrun);
    return *found;
  }
  if (pmi) {
    require_agreement(*pmi, torchrun);
    return *pmi;
  }
  // Without a step the variables of Slurm describe the allocation, not this process.
  if (variable("SLURM_STEP_ID") && variable(kSlurm.rank) && variable(kSlurm.size)) {
    const auto found = read(variable, kSlurm);
    require_agreement(*found, torchrun);
    return *found;
  }
  if (const auto found = read(variable, kPmix)) return *found;
  return torchrun.value_or(Launch{});
}

std::string describe(const Launch& launch) {
  if (!launch.rank_name) return "no launcher";
  const std::string rank = str(launch.rank_name, "=", launch.rank);
  if (!launch.size_name) return rank;
  return str(rank, ", ", launch.size_name, "=", launch.size);
}

}  // namespace mezzo::comm::detail
