// Tensors in several files with an index: reading, and everything in an index that is refused.
#include <mezzo.h>

#include <filesystem>
#include <fstream>

#include "../support/catch.h"
#include "../support/throws.h"
#include "files.h"

using namespace mezzo;

namespace {

/** A folder with two files of tensors and an index. */
struct Shards {
  files::Directory folder;

  Shards() {
    save_tensors(file("one.safetensors"), {{"a", tensor({1., 2})}, {"b", ones({2, 2}, f16)}},
                 {{"format", "pt"}});
    save_tensors(file("two.safetensors"), {{"c", tensor({3}, {.dtype = i64})}});
  }
  std::string file(const std::string& name) const { return folder / name; }
  /** Writes an index and returns its path. */
  std::string index(const std::string& text) const {
    std::ofstream(file("model.safetensors.index.json")) << text;
    return file("model.safetensors.index.json");
  }
  /** Writes an index with this weight map and returns its path. */
  std::string map(const std::string& entries) const {
    return index("{\"metadata\": {\"total_size\": 28}, \"weight_map\": {" + entries + "}}");
  }
};

const char* const kWhole =
    R"("c": "two.safetensors", "a": "one.safetensors", "b": "one.safetensors")";

}  // namespace

TEST_CASE("an index is read with the files beside it", "[safetensors]") {
  const Shards shards;
  const LoadedTensors loaded = load_tensors(shards.map(kWhole));
  REQUIRE(loaded.tensors.size() == 3);
  CHECK(loaded.metadata.count("format") <= 1);
  const nn::StateDict values = load_state_dict(shards.map(kWhole));
  CHECK(values["a"].to_vector<double>() == std::vector<double>{1, 2});
  CHECK(values["b"].dtype() == f16);
  CHECK(values["c"].item<std::int64_t>() == 3);
  CHECK_THROWS_WITH_AS_TEXT(values["d"], ValueError, "d");
  CHECK(load_state_dict(shards.file("two.safetensors")).names() == std::vector<std::string>{"c"});
}

TEST_CASE("an index that does not fit its files is refused", "[safetensors]") {
  const Shards shards;
  const auto refused = [&](const std::string& path, const char* part) {
    CHECK_THROWS_WITH_AS_TEXT(load_tensors(path), FormatError, part);
  };
  refused(shards.map(R"("c": "two.safetensors", "a": "one.safetensors")"), "\"b\"");
  refused(shards.map(std::string(kWhole) + R"(, "d": "two.safetensors")"), "\"d\"");
  refused(shards.map(R"("c": "../two.safetensors")"), "beside the index");
  refused(shards.map(R"("c": "")"), "beside the index");
  refused(shards.map(R"("c": "..")"), "beside the index");
  refused(shards.map(R"("c": 3)"), "c");
  refused(shards.index("{\"weight_map\": 1}"), "weight_map");
  refused(shards.index("{}"), "weight_map");
  refused(shards.index("{\"weight_map\": {}, \"other\": 1}"), "other");
  refused(shards.index("[]"), "load_tensors");
  refused(shards.index(""), "load_tensors");
  refused(shards.index("{\"weight_map\": {\"c\": \"two.saf"), "load_tensors");
  CHECK_THROWS_WITH_AS_TEXT(load_tensors(shards.map(R"("c": "none.safetensors")")), IoError,
                            "none.safetensors");
  CHECK_THROWS_AS(load_tensors(shards.file("none.index.json")), IoError);
  std::filesystem::resize_file(shards.file("two.safetensors"), 20);
  CHECK_THROWS_WITH_AS_TEXT(load_tensors(shards.map(kWhole)), FormatError, "two.safetensors");
}
