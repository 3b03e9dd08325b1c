// ImageFolder: images in one folder for each class.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "any_dataset.h"
#include "transform.h"

namespace mezzo::data {

/** The PNG and JPEG files root/CLASS/... with the number of their class, read when they are needed.
 *  Classes are the folders in root, in the order of their names; the images of a class are those in
 *  its folder and the folders below, in the order of their paths, with the endings .jpg, .jpeg and
 *  .png in any case. Other files are left out. */
class MZ_API ImageFolder {
 public:
  /** Lists the files. `transform` is applied to each image u8 [3,H,W]. Errors: IoError if the
   * folder cannot be read, has no folders, or has one without images. */
  explicit ImageFolder(const std::string& root, Transform transform = {});

  /** Returns the number of images. */
  std::int64_t size() const { return static_cast<std::int64_t>(samples_.size()); }
  /** Reads an image; y is its class as an i64 tensor []. Errors: IndexError; those of load_image()
   *  and of the transform. */
  Sample get(std::int64_t index) const;
  /** Returns the names of the classes. */
  const std::vector<std::string>& classes() const { return classes_; }
  /** Returns paths and classes of the images. */
  const std::vector<std::pair<std::string, std::int64_t>>& samples() const { return samples_; }

 private:
  std::vector<std::string> classes_;
  std::vector<std::pair<std::string, std::int64_t>> samples_;
  Transform transform_;
};

}  // namespace mezzo::data
