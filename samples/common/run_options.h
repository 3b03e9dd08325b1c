// What every sample program can be told: level, length, seed, device, checkpoints, reports.
// Sees: mezzo.h, arguments.h.
// Read next: run.h (what comes of it).
#pragma once

#include <mezzo.h>

#include <cstdint>
#include <string>

#include "arguments.h"

namespace samples {

/** Leave to trade bits for speed on a GPU: the switches of tensor/numerics.h. */
struct NumericsOptions {
  bool tf32 = false, nondeterministic = false, search_products = false;
};

/** Adds --allow-tf32, --allow-nondeterministic, --search-products. */
void declare(Arguments& arguments, NumericsOptions& options);
/** Sets the process's switches. */
void apply(const NumericsOptions& options);

struct RunOptions {
  std::string level = "O0";
  std::int64_t steps = 0;       // of training; 0: no limit of its own
  std::int64_t save_every = 0;  // steps between checkpoints; 0: only where the program says so
  std::int64_t seed = 1, threads = 0;
  std::string device = "cpu";
  std::string save = {}, resume = {};  // directories of checkpoints; empty for none
  std::string json = {};
  bool quiet = false;
  NumericsOptions numerics = {};
};

/** Adds --opt-level, --steps, --seed, --device, --threads, --save, --save-every, --resume, --json, --quiet, and those of NumericsOptions. */
void declare(Arguments& arguments, RunOptions& options);

/** Checks the level, sets threads, switches and this thread's seed, and finds the device. Errors: UsageError; DeviceError for a device that is not here. */
mezzo::Device prepare(const RunOptions& options);

/** Errors: UsageError unless the name is one of O0..O5. */
void check_level(const std::string& level);
/** Errors: UsageError for a text that names no device, DeviceError for one that is not here. */
mezzo::Device parse_device(const std::string& text);

}  // namespace samples
