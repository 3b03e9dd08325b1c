// StepProfile: the profile of a few steps of a run, for the option --profile.
#pragma once

#include <mezzo.h>

#include <cstdint>
#include <memory>
#include <string>

namespace samples {

/** Profiles steps 4 to 8 of a run, or the last ones of a shorter run. Then it writes their trace to
 *  a file, and returns their table. */
class StepProfile {
 public:
  /** Prepares a profile of a run of `steps` steps; an empty path for none. Measures the limits of
   *  the device, in about two seconds. */
  StepProfile(std::string path, std::int64_t steps, mezzo::Device device);

  /** Call when `done` steps are done, and with 0 before the first. Returns the table when the last
   *  profiled step is done, otherwise an empty text. Errors: IoError. */
  std::string advance(std::int64_t done);
  /** Call at the end of the run. Returns the table of a run that was ended early. Errors:
   *  IoError. */
  std::string finish();

 private:
  std::string path_;
  std::int64_t first_ = 0, last_ = 0;  // steps done at the start and at the end of the profile
  std::int64_t done_ = 0;              // steps done
  mezzo::Device device_;
  mezzo::Roof roof_;
  std::unique_ptr<mezzo::Profiler> profile_;
};

}  // namespace samples
