// SummaryWriter: writes scalars, histograms and images for TensorBoard, and the scalars as CSV.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "../core/pointers.h"
#include "../core/tensor.h"

namespace mezzo {

/** Writes event files that TensorBoard reads, named as torch.utils.tensorboard.SummaryWriter:
 *    SummaryWriter writer("runs/first");
 *    writer.add_scalar("accuracy", accuracy, step);
 *  `tensorboard --logdir runs` then shows them. The folder also gets scalars.csv, with the columns
 *  wall_time, step, tag and value. Wall times are seconds since 1970. Records are written when they
 *  are complete, with checksums. Each process writes a file of its own: let rank 0 write. Errors of
 *  all functions: IoError naming path and cause; StateError after close(). */
class MZ_API SummaryWriter {
 public:
  /** Creates the folder if it is missing, a new event file in it, and scalars.csv, or appends to
   *  that. Errors: IoError. */
  explicit SummaryWriter(const std::string& log_dir);
  /** Closes the files; errors are logged. */
  ~SummaryWriter();
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  /** Returns the path of the event file. */
  const std::string& path() const;

  /** Writes a number; in the event file it is rounded to f32, as TensorBoard stores it. */
  void add_scalar(std::string_view tag, double value, std::int64_t step);
  /** Writes how the elements of a tensor of numbers are distributed, in the buckets of PyTorch's
   * writer: 0 and 1e-12 * 1.1^i of both signs. Waits for the device. NaN and infinite elements are
   * left out. Errors: ValueError if no element is left. */
  void add_histogram(std::string_view tag, const Tensor& values, std::int64_t step);
  /** Writes a histogram that was counted elsewhere: counts[i] numbers are at least limits[i - 1]
   * and below limits[i], which ascend. Errors: ValueError unless there are equally many, at least
   * one.
   */
  void add_histogram_raw(std::string_view tag, double min, double max, double sum,
                         double sum_squares, std::span<const double> limits,
                         std::span<const double> counts, std::int64_t step);
  /** Writes an image [C,H,W] of one or three channels, u8 or floating-point in 0..1, as PNG; of
   *  several images, make_grid() makes one. Errors: those of save_image(). */
  void add_image(std::string_view tag, const Tensor& image, std::int64_t step);

  /** Ends both files. Closing again does nothing. */
  void close();

 private:
  struct Files;
  void add(std::string_view tag, std::string_view value, std::int64_t step);

  Owner<Files> files_;
};

}  // namespace mezzo
