#include "image_folder.h"

#include <algorithm>
#include <filesystem>

#include "../../tensor/io/image.h"
#include "../../tensor/text/text.h"

namespace mezzo::data {

namespace {

namespace fs = std::filesystem;

std::string subject(const std::string& root) { return "ImageFolder(" + root + ")"; }

/** Returns f(), with errors of the file system as IoError. */
template <class F> auto or_io_error(const std::string& root, F&& f) {
  try {
    return f();
  } catch (const fs::filesystem_error& error) {
    fail<IoError>(subject(root), {.what = "cannot read the folder", .got = error.code().message()});
  }
}

bool is_image(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

/** Returns the names of the folders in a folder, sorted. */
std::vector<std::string> folders_in(const std::string& root) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(root))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/** Returns the paths of the images in a folder and below, sorted. */
std::vector<std::string> images_below(const fs::path& folder) {
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && is_image(entry.path())) paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

ImageFolder::ImageFolder(const std::string& root, Transform transform)
    : transform_(std::move(transform)) {
  classes_ = or_io_error(root, [&] { return folders_in(root); });
  if (classes_.empty())
    fail<IoError>(subject(root),
                  {.what = "no folders in the folder", .expected = "one for each class"});
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    const auto paths =
        or_io_error(root, [&] { return images_below(fs::path(root) / classes_[i]); });
    if (paths.empty())
      fail<IoError>(subject(root), {.what = str("the class \"", classes_[i], "\" has no images"),
                                    .expected = "files with the ending .jpg, .jpeg or .png"});
    for (const std::string& path : paths) samples_.emplace_back(path, static_cast<std::int64_t>(i));
  }
}

Sample ImageFolder::get(std::int64_t index) const {
  detail::require_sample("ImageFolder::get", index, size());
  const auto& [path, number] = samples_[static_cast<std::size_t>(index)];
  const Tensor image = load_image(path), y = empty_tensor({}, DType::i64, cpu);
  y.data<std::int64_t>()[0] = number;
  return {transform_ ? transform_(image) : image, y};
}

}  // namespace mezzo::data
