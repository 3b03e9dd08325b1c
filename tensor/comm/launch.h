// Launch: how this process was started, read from the environment variables of launchers.
#pragma once

#include <functional>
#include <string>

#include "../core/macros.h"

namespace mezzo::comm::detail {

/** The programs that start several processes. */
enum class Launcher {
  none,      // started alone, or MEZZO_COMM=off
  open_mpi,  // mpirun of Open MPI: OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
  mpich,     // mpiexec of MPICH and relatives, or srun --mpi=pmi2: PMI_RANK, PMI_SIZE
  pmix,      // a launcher that sets PMIX_RANK alone; the size is known after the start
  slurm,     // srun: SLURM_STEP_ID, SLURM_PROCID, SLURM_STEP_NUM_TASKS
  torchrun,  // RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
};

/** What the environment says about this process. */
struct Launch {
  Launcher launcher = Launcher::none;
  int rank = 0;                     // from 0
  int size = 1;                     // number of processes; 0 if the launcher does not tell it
  const char* rank_name = nullptr;  // the variable that gave the rank; null for none
  const char* size_name = nullptr;  // the variable that gave the size; null if none did
};

/** Returns a variable's value, or null if it is not set. */
using Environment = std::function<const char*(const char* name)>;

/** Reads the launcher's variables. Allocates nothing unless it throws. SLURM_NTASKS alone means
 *  nothing: salloc sets it. Errors: ValueError, quoting the variables, if one is malformed or two
 *  launchers contradict each other. */
MZ_API Launch detect_launch(const Environment& variable);

/** Returns how the launch was recognised: "OMPI_COMM_WORLD_RANK=0, OMPI_COMM_WORLD_SIZE=2". */
std::string describe(const Launch& launch);

}  // namespace mezzo::comm::detail
