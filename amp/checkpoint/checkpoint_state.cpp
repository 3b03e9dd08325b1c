#include "checkpoint_state.h"

#include <initializer_list>
#include <set>

#include "../../tensor/core/version.h"
#include "../../tensor/io/crc32c.h"
#include "../../tensor/io/json_text.h"
#include "../../tensor/io/json_value.h"
#include "../../tensor/io/utf8.h"
#include "../../tensor/text/text.h"

namespace mezzo::amp {

using io::JsonField;
using io::JsonValue;
using io::object;

namespace {

constexpr std::uint64_t kSchema = 1;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 25;
constexpr int kDepth = 5;  // nesting of objects: root, sessions, a session, its scalers, a scaler

JsonValue json_of(const std::string& text) { return text; }
JsonValue json_of(double number) { return number; }
void read(const JsonField& field, std::string& to) { to = field.text(); }
void read(const JsonField& field, double& to) { to = field.number(); }

JsonValue json_of(const io::FileFacts& facts) {
  return object("bytes", JsonValue::whole(facts.bytes), "crc32c", io::crc_text(facts.crc));
}

void read(const JsonField& field, io::FileFacts& to) {
  field.require_members({"bytes", "crc32c"});
  to = {field.at("bytes").whole(), io::read_crc(field.at("crc32c"))};
}

JsonValue json_of(const SavedParts& generators);
void read(const JsonField& field, SavedParts& generators);

/** Returns an object of the entries of a map. */
template <class Map> JsonValue::Object json_of_all(const Map& entries) {
  JsonValue::Object out;
  for (const auto& [name, entry] : entries) out.emplace_back(name, json_of(entry));
  return out;
}

template <class Map> void read_all(const JsonField& field, Map& to) {
  for (const auto& [name, member] : field.members()) read(member, to[name]);
}

// ---- parts --------------------------------------------------------------------------------------

/** Returns the numbers "loss_scaler0.loss_scale" as objects "loss_scaler0" of "loss_scale". */
JsonValue::Object json_of_scalers(const mezzo::StateDict& state) {
  std::map<std::string, std::map<std::string, double>> scalers;
  for (const auto& [name, number] : state.numbers) {
    const std::size_t dot = name.rfind('.');
    scalers[name.substr(0, dot)][name.substr(dot + 1)] = number;
  }
  JsonValue::Object out;
  for (const auto& [name, fields] : scalers) out.emplace_back(name, json_of_all(fields));
  return out;
}

JsonValue json_of(PartKind kind, const SavedPart& part) {
  const auto counts = [&part](JsonValue::Object& to, std::initializer_list<const char*> names) {
    for (const char* name : names) to.emplace_back(name, JsonValue::whole(part.counts.at(name)));
  };
  JsonValue::Object out;
  switch (kind) {
    case PartKind::model:
    case PartKind::ema: return part.type;
    case PartKind::optimizer:
      return object("type", part.type, "state", json_of_all(part.state.numbers));
    case PartKind::session:
      return object("options", json_of_all(part.options), "scalers", json_of_scalers(part.state));
    case PartKind::scaler:
    case PartKind::schedule: return json_of_all(part.state.numbers);
    case PartKind::loader:
      counts(out, {"seed", "epoch", "sample", "samples", "batch"});
      for (const char* name : {"shuffle", "drop_last"})
        out.emplace_back(name, part.counts.at(name) != 0);
      if (part.counts.at("shards") != 1) counts(out, {"shards"});
      return out;
    case PartKind::stream:
    case PartKind::generator: counts(out, {"seed", "draw"});
  }
  return out;
}

void read(const JsonField& field, PartKind kind, SavedPart& to) {
  switch (kind) {
    case PartKind::model:
    case PartKind::ema: to.type = field.text(); return;
    case PartKind::optimizer:
      field.require_members({"type", "state"});
      to.type = field.at("type").text();
      return read_all(field.at("state"), to.state.numbers);
    case PartKind::session:
      field.require_members({"options", "scalers"});
      read_all(field.at("options"), to.options);
      for (const auto& [name, scaler] : field.at("scalers").members()) {
        scaler.require_members({"loss_scale", "unskipped"});
        for (const auto& [number, member] : scaler.members())
          to.state.numbers[str(name, ".", number)] = member.number();
      }
      return;
    case PartKind::scaler:
    case PartKind::schedule: return read_all(field, to.state.numbers);
    case PartKind::loader:
      field.require_members({"seed", "epoch", "sample", "samples", "batch", "shuffle", "drop_last"},
                            {"shards"});
      for (const char* name : {"seed", "epoch", "sample", "samples", "batch"})
        to.counts[name] = field.at(name).whole();
      for (const char* name : {"shuffle", "drop_last"}) to.counts[name] = field.at(name).truth();
      to.counts["shards"] = field.has("shards") ? field.at("shards").whole() : 1;
      return;
    case PartKind::stream:
    case PartKind::generator:
      field.require_members({"seed", "draw"});
      for (const char* name : {"seed", "draw"}) to.counts[name] = field.at(name).whole();
  }
}

/** Appends an object of parts by name for each kind from `first` on. */
void add_sections(JsonValue::Object& to, const SavedParts& parts, PartKind first) {
  for (PartKind kind = first; kind <= PartKind::generator; kind = next(kind)) {
    JsonValue::Object section;
    for (const auto& [key, part] : parts)
      if (key.first == kind) section.emplace_back(key.second, json_of(kind, part));
    if (kind == PartKind::stream)
      to.emplace_back(info_of(kind).section, std::move(section.at(0).second));
    else if (kind != PartKind::ema || !section.empty())
      to.emplace_back(info_of(kind).section, std::move(section));
  }
}

void read_sections(const JsonField& field, SavedParts& to, PartKind first) {
  for (PartKind kind = first; kind <= PartKind::generator; kind = next(kind)) {
    if (kind == PartKind::ema && !field.has("averages")) continue;
    const JsonField section = field.at(info_of(kind).section);
    if (kind == PartKind::stream)
      read(section, kind, to[{kind, ""}]);
    else
      for (const auto& [name, member] : section.members()) read(member, kind, to[{kind, name}]);
  }
}

JsonValue json_of(const SavedParts& generators) {
  JsonValue::Object out;
  add_sections(out, generators, PartKind::stream);
  return out;
}

void read(const JsonField& field, SavedParts& generators) {
  field.require_members({"default_generator", "generators"});
  read_sections(field, generators, PartKind::stream);
}

/** Reads the files, which are those of the kinds that have parts. */
void read_files(const JsonField& field, CheckpointState& state) {
  read_all(field, state.files);
  std::set<std::string_view> expected;
  for (const auto& [key, part] : state.parts) expected.insert(info_of(key.first).file);
  expected.erase("");
  for (const auto& [name, facts] : state.files)
    if (expected.count(name) == 0)
      field.refuse("names an unknown file or one without contents", io::quote(name));
  for (const std::string_view name : expected)
    if (state.files.count(std::string(name)) == 0) field.refuse("lacks a file", io::quote(name));
}

}  // namespace

// ---- the file -----------------------------------------------------------------------------------

std::string state_text(const CheckpointState& s) {
  JsonValue::Object members =
      object("schema", JsonValue::whole(kSchema), "library", std::string(version()), "world_size",
             JsonValue::whole(s.ranks.size() + 1), "step",
             JsonValue::whole(static_cast<std::uint64_t>(s.step)), "epoch",
             JsonValue::whole(static_cast<std::uint64_t>(s.epoch)));
  if (s.cpu_products) members.emplace_back("cpu_products", *s.cpu_products);
  members.emplace_back("metadata", json_of(s.metadata));
  add_sections(members, s.parts, PartKind::model);
  if (!s.ranks.empty()) members.emplace_back("ranks", json_of_all(s.ranks));
  members.emplace_back("files", json_of_all(s.files));
  std::string text = io::sealed_json(std::move(members));
  if (text.size() > kMostBytes)
    fail<ValueError>("save_checkpoint", {.what = "the state is too large",
                                         .got = str(text.size(), " bytes of JSON"),
                                         .expected = str("at most ", kMostBytes),
                                         .hint = "store large data in separate files"});
  return text;
}

CheckpointState read_state(const io::ByteReader& file) {
  io::require_json(file.subject(), "state files");
  if (file.size() > kMostBytes)
    fail<FormatError>(file.subject(), {.what = "the state is too large",
                                       .got = str(file.size(), " bytes"),
                                       .expected = str("at most ", kMostBytes)});
  const std::vector<std::byte> bytes = file.bytes(0, file.size());
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  io::require_intact(file, text);
  const JsonValue value = io::read_json(file, text, kDepth);
  const JsonField root(file, value);
  if (const std::uint64_t schema = root.at("schema").whole(); schema != kSchema)
    root.at("schema").refuse("is not supported by this version", str(schema), str(kSchema));
  root.require_members({"schema", "library", "world_size", "step", "epoch", "metadata", "models",
                        "optimizers", "sessions", "scalers", "schedules", "loaders",
                        "default_generator", "generators", "files", "self"},
                       {"averages", "cpu_multiplies_bf16", "cpu_products", "ranks"});
  CheckpointState s;
  (void)root.at("library").text();
  if (root.has("ranks")) read_all(root.at("ranks"), s.ranks);
  if (const std::uint64_t size = root.at("world_size").whole(); size != s.ranks.size() + 1)
    root.at("world_size")
        .refuse("is not the number of saved ranks", str(size), str(s.ranks.size() + 1));
  s.step = root.at("step").count();
  s.epoch = root.at("epoch").count();
  if (root.has("cpu_multiplies_bf16"))  // older files
    s.cpu_products = root.at("cpu_multiplies_bf16").truth() ? "bf16" : "f32";
  if (root.has("cpu_products")) s.cpu_products = root.at("cpu_products").text();
  read(root.at("metadata"), s.metadata);
  read_sections(root, s.parts, PartKind::model);
  read_files(root.at("files"), s);
  return s;
}

}  // namespace mezzo::amp
