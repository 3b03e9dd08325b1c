// How launchers are recognised, and what is said where they contradict each other.
#include <mezzo.h>

#include <cstdlib>
#include <map>

#include "../../tensor/comm/launch.h"
#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;
using comm::detail::detect_launch;
using comm::detail::Launch;
using comm::detail::Launcher;

namespace {

using Variables = std::map<std::string, std::string>;

Launch detected(const Variables& variables) {
  return detect_launch([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal(const Variables& variables) {
  try {
    detected(variables);
  } catch (const ValueError& e) {
    return e.what();
  }
  return "accepted";
}

struct Row {
  Variables variables;
  Launcher launcher;
  int rank, size;
};

}  // namespace

TEST_CASE("launchers are recognised by their variables", "[launch]") {
  const Row rows[] = {
      {{}, Launcher::none, 0, 1},
      {{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, Launcher::open_mpi, 1, 4},
      {{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "1"}},
       Launcher::open_mpi,
       1,
       4},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, Launcher::mpich, 0, 2},
      {{{"PMIX_RANK", "3"}}, Launcher::pmix, 3, 0},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "8"}},
       Launcher::slurm,
       2,
       8},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}},
       Launcher::torchrun,
       1,
       2},
      // mpirun inside a step of Slurm inherits the variables of the step
      {{{"OMPI_COMM_WORLD_RANK", "5"},
        {"OMPI_COMM_WORLD_SIZE", "8"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "1"},
        {"SLURM_STEP_NUM_TASKS", "2"}},
       Launcher::open_mpi,
       5,
       8},
      // salloc without srun
      {{{"SLURM_NTASKS", "8"}}, Launcher::none, 0, 1},
      {{{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}, Launcher::none, 0, 1},
      // common names that mean nothing alone
      {{{"RANK", "3"}}, Launcher::none, 0, 1},
      {{{"WORLD_SIZE", "3"}}, Launcher::none, 0, 1},
      {{{"RANK", "0"}, {"WORLD_SIZE", "1"}}, Launcher::torchrun, 0, 1},
      {{{"MEZZO_COMM", "off"}, {"OMPI_COMM_WORLD_RANK", "x"}}, Launcher::none, 0, 1},
      {{{"MEZZO_COMM", ""}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, Launcher::mpich, 0, 2},
  };
  for (const Row& row : rows) {
    INFO(Catch::Detail::stringify(row.variables));
    const Launch launch = detected(row.variables);
    CHECK(launch.launcher == row.launcher);
    CHECK(launch.rank == row.rank);
    CHECK(launch.size == row.size);
  }
}

TEST_CASE("variables of launchers that cannot be are quoted", "[launch]") {
  const std::string off = "; MEZZO_COMM=off starts this process alone";
  CHECK(refusal({{"OMPI_COMM_WORLD_RANK", "1"}}) ==
        "comm::init: a launcher's variable is wrong; got OMPI_COMM_WORLD_SIZE not set, expected an "
        "integer of at least 1" +
            off);
  CHECK(refusal({{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}) ==
        "comm::init: a launcher's variable is wrong; got PMI_RANK=-1, expected an integer of at "
        "least 0" +
            off);
  CHECK(refusal({{"PMI_RANK", "0"}, {"PMI_SIZE", "2 "}}) ==
        "comm::init: a launcher's variable is wrong; got PMI_SIZE=2 , expected an integer of at "
        "least 1" +
            off);
  CHECK(refusal({{"PMIX_RANK", "99999999999"}}) ==
        "comm::init: a launcher's variable is wrong; got PMIX_RANK=99999999999, expected an "
        "integer of at least 0" +
            off);
  CHECK(refusal({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "2"}}) ==
        "comm::init: a launcher's variables contradict each other; got OMPI_COMM_WORLD_RANK=2, "
        "OMPI_COMM_WORLD_SIZE=2, expected a rank below the size" +
            off);
  CHECK(refusal({{"OMPI_COMM_WORLD_RANK", "1"},
                 {"OMPI_COMM_WORLD_SIZE", "2"},
                 {"PMI_RANK", "1"},
                 {"PMI_SIZE", "4"}}) ==
        "comm::init: variables of two launchers contradict each other; got OMPI_COMM_WORLD_RANK=1, "
        "OMPI_COMM_WORLD_SIZE=2 and PMI_RANK=1, PMI_SIZE=4, expected one launcher; unset those "
        "that are inherited" +
            off);
  CHECK(refusal({{"OMPI_COMM_WORLD_RANK", "1"},
                 {"OMPI_COMM_WORLD_SIZE", "2"},
                 {"RANK", "0"},
                 {"WORLD_SIZE", "2"},
                 {"MASTER_ADDR", "a"},
                 {"MASTER_PORT", "1"}}) ==
        "comm::init: variables of two launchers contradict each other; got OMPI_COMM_WORLD_RANK=1, "
        "OMPI_COMM_WORLD_SIZE=2 and RANK=0, WORLD_SIZE=2, expected one launcher; unset those that "
        "are inherited" +
            off);
  CHECK(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}) ==
        "comm::init: torchrun's variables are incomplete; got RANK=0, WORLD_SIZE=2, MASTER_PORT "
        "not set, expected all that torchrun sets" +
            off);
  CHECK(refusal({{"MEZZO_COMM", "on"}}) ==
        "comm::init: MEZZO_COMM is not known; got MEZZO_COMM=on, expected off, or not set");
}
