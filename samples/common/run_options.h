// Options that all sample programs share: level, length, seed, device, checkpoints, reports.
#pragma once

#include <mezzo.h>

#include <cstdint>
#include <string>

#include "arguments.h"

namespace samples {

/** Switches of tensor/core/numerics.h that trade accuracy or reproducibility for speed on a GPU. */
struct NumericsOptions {
  bool tf32 = false, nondeterministic = false, search_products = false;
};

/** Adds --allow-tf32, --allow-nondeterministic and --search-products. */
void declare(Arguments& arguments, NumericsOptions& options);
/** Sets the switches of the process. */
void apply(const NumericsOptions& options);

struct RunOptions {
  std::string level = "O0";            // level of mixed precision
  std::int64_t steps = 0;              // limit of training steps; 0: no limit
  std::int64_t save_every = 0;         // steps between checkpoints; 0: only where the program saves
  std::int64_t seed = 1, threads = 0;  // threads 0: all cores
  std::string device = "cpu";
  std::string save = {}, resume = {};  // directories of checkpoints; empty for none
  std::string json = {};               // path of the figures; empty for none
  std::string report = {};             // path of the precision report; empty for none
  std::string tensorboard = {};        // folder of event files, with a report; empty for none
  std::string profile = {};            // path of the trace of a few steps; empty for none
  bool quiet = false;                  // prints no progress
  NumericsOptions numerics = {};
};

/** Adds --opt-level, --steps, --seed, --device, --threads, --save, --save-every, --resume,
 *  --json, --report, --tensorboard, --profile, --quiet, and the options of NumericsOptions. */
void declare(Arguments& arguments, RunOptions& options);

/** Checks the level, sets threads, switches and this thread's seed, and returns the device.
 *  Errors: UsageError; DeviceError for a device that does not exist. */
mezzo::Device prepare(const RunOptions& options);

/** Throws UsageError unless the name is one of O0..O5. */
void check_level(const std::string& level);
/** Returns the named device. Errors: UsageError for text that names no device, DeviceError for a
 *  device that does not exist. */
mezzo::Device parse_device(const std::string& text);

}  // namespace samples
