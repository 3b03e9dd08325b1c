// World: all processes that were launched together, and this one's place among them.
#pragma once

#include "../core/macros.h"
#include "../device/device.h"
#include "communicator.h"

namespace mezzo::comm {

/** Which of `count` equal shares of something belongs to a process. */
struct Shard {
  int index = 0;  // from 0
  int count = 1;  // number of shares
};

/** The processes that were launched together. A world that is destroyed while an exception leaves
 *  its scope tells the other processes, whose calls then throw a CommError; copies do not. */
class MZ_API World {
 public:
  ~World();
  /** A copy does not report exceptions. */
  World(const World& other) : engine_(other.engine_) {}
  /** The new object reports exceptions, if the old one did. */
  World(World&& other) noexcept;
  World& operator=(const World&) = delete;  // Not assignable.

  /** Returns this process's number, from 0. */
  int rank() const;
  /** Returns the number of processes. */
  int size() const;
  /** Returns true on rank 0, the process that prints results and writes files. */
  bool is_main() const { return rank() == 0; }
  /** Returns this process's number among those on the same machine, from 0. */
  int local_rank() const;
  /** Returns the GPU with the number local_rank() where there is one, else the CPU. */
  Device device() const;
  /** Returns the group of all processes. */
  Communicator all() const;
  /** Returns this process's share of data that is divided among all: {rank(), size()}. */
  Shard shard() const { return {rank(), size()}; }

 private:
  friend MZ_API World init();
  World(detail::Engine* engine, bool reports);

  detail::Engine* engine_;  // null: one process
  int exceptions_ = 0;      // uncaught when this was made
  bool reports_ = false;    // to the other processes, if an exception destroys it
};

/** Connects this process to those that were launched with it by mpirun or srun, and returns them. A
 *  process that was started alone, or with MEZZO_COMM=off, is a world of one: nothing is loaded. A
 *  second call returns the same world. At its end the program waits for all processes.
 *
 *  Sets log_rank(), and divides the threads of a machine between its processes; see
 *  set_num_threads().
 *
 *  Environment: MEZZO_COMM_TIMEOUT_S: after how many seconds (300) an operation that other ranks do
 *  not answer is a CommError. MEZZO_MPI_LIBRARY: the path of libmezzo-mpi.so.
 *
 *  Errors, on every call: ValueError, quoting the variables, if those of the launcher are malformed
 *  or contradict each other; Unsupported, naming the option or package, if this build has no MPI,
 *  or another one than the launcher's; CommError if the connection fails. */
MZ_API World init();

}  // namespace mezzo::comm
