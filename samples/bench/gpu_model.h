// bench --gpu-model: predicts the steps of nets on a GPU from the work of their ops, which is
// counted on the CPU.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "workload.h"

namespace samples {

/** The predicted step of a net at a level. */
struct GpuPrediction {
  std::string net, level;
  std::int64_t samples = 0;                       // in a step
  std::int64_t ops = 0;                           // that compute; views are none
  mezzo::OpWork work = {};                        // of all ops
  double seconds = 0;                             // predicted
  double products = 0, memory = 0, launches = 0;  // seconds of these alone
  double steps = 0;                               // the same, of recurrent layers' time steps
};

/** Returns the limits of an H100 SXM that the prediction assumes. Peaks are those of NVIDIA's data
 *  sheet (dense), of which products reach 65 % in 16 bits and 80 % in f32, and copies 90 %. The
 *  cache's bandwidth and the least time of a kernel in a graph are assumed. A time step of a
 *  recurrent layer is two kernels in f32; in 16 bits it takes what
 * cuda/kernels/recurrent/persistent_plan.h assumes for 512 units and 64 sequences, forward and
 * backward on average. */
const mezzo::Roof& h100();

/** Runs two steps of each net at each level on the CPU, counts the work of the second, and calls
 *  `done` with its prediction: the sum over all ops of the longest of their products, memory
 *  traffic, and the least time of a kernel, and of the time steps of recurrent layers. Errors:
 * those of make_workload(). */
void predict_gpu(const std::vector<std::string>& nets, const std::vector<std::string>& levels,
                 Setting setting, const std::function<void(const GpuPrediction&)>& done);

/** Returns the predictions as a table, and the limits in a line above it. */
std::string gpu_table(const std::vector<GpuPrediction>& predictions);

}  // namespace samples
