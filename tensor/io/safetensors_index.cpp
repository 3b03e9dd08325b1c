#include "safetensors_stream.h"

#include <filesystem>
#include <unordered_map>

#include "../text/text.h"
#include "byte_reader.h"
#include "json_value.h"
#include "utf8.h"

namespace mezzo::io {

namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 26;  // of an index
constexpr int kDepth = 2;                                     // root, weight_map

/** Returns the file of a tensor. Errors: FormatError unless it lies beside the index. */
std::string file_of(const JsonField& field) {
  const std::string& name = field.text();
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\\') != std::string::npos || name.find('\0') != std::string::npos)
    field.refuse("is not the name of a file beside the index", quote(name));
  return name;
}

/** The tensors of all files that an index names. */
class Shards {
 public:
  Shards(const std::string& index, const LoadTensorsOptions& options)
      : folder_(std::filesystem::path(index).parent_path()), options_(options) {}

  /** Returns a tensor of a file, which is read first if it was not. */
  Tensor take(const std::string& file, const std::string& name, const JsonField& field) {
    const auto [it, added] = files_.try_emplace(file);
    if (added) read(file, it->second);
    const auto tensor = it->second.find(name);
    if (tensor == it->second.end())
      field.refuse(str("is not a tensor of ", quote(file)), quote(name));
    return it->second.extract(tensor).mapped();
  }
  /** Throws if a file has tensors that were not taken. */
  void require_empty(const JsonField& weight_map) const {
    for (const auto& [file, tensors] : files_)
      if (!tensors.empty())
        weight_map.refuse(str("does not name a tensor of ", quote(file)),
                          quote(tensors.begin()->first));
  }

  TensorMetadata metadata;  // of the file that was read first

 private:
  using Tensors = std::unordered_map<std::string, Tensor>;

  void read(const std::string& file, Tensors& into) {
    LoadedTensors loaded = load_tensors((folder_ / file).string(), options_);
    if (files_.size() == 1) metadata = std::move(loaded.metadata);
    for (auto& [name, tensor] : loaded.tensors) into.emplace(name, tensor);
  }

  std::filesystem::path folder_;
  LoadTensorsOptions options_;
  std::unordered_map<std::string, Tensors> files_;
};

}  // namespace

bool is_index(std::string_view path) { return path.ends_with(".index.json"); }

LoadedTensors read_index(const std::string& path, const LoadTensorsOptions& options) {
  const ByteReader reader("load_tensors", path);
  if (reader.size() > kMostBytes)
    fail<FormatError>(reader.subject(), {.what = "the index is too large",
                                         .got = str(reader.size(), " bytes"),
                                         .expected = str("at most ", kMostBytes)});
  const std::vector<std::byte> bytes = reader.bytes(0, reader.size());
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const JsonValue index = read_json(reader, text, kDepth);
  const JsonField root(reader, index);
  root.require_members({"weight_map"}, {"metadata"});
  const JsonField weight_map = root.at("weight_map");
  Shards shards(path, options);
  LoadedTensors loaded;
  for (const auto& [name, field] : weight_map.members())
    loaded.tensors.emplace_back(name, shards.take(file_of(field), name, field));
  shards.require_empty(weight_map);
  loaded.metadata = std::move(shards.metadata);
  return loaded;
}

}  // namespace mezzo::io
