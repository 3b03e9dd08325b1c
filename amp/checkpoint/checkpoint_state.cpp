#include "checkpoint_state.h"

#include <charconv>

#include "../../tensor/core/version.h"
#include "../../tensor/device/cpu_isa.h"
#include "../../tensor/io/checkpoint_directory.h"
#include "../../tensor/io/crc32c.h"
#include "../../tensor/io/json_text.h"
#include "../../tensor/io/json_value.h"
#include "../../tensor/io/utf8.h"
#include "../../tensor/text/text.h"
#include "../session_core.h"

namespace mezzo::amp {

using io::JsonField;
using io::JsonValue;
using io::object;

namespace {

constexpr std::uint64_t kSchema = 1;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 25;
constexpr int kDepth = 5;  // nesting of objects: root, sessions, a session, its scalers, a scaler

// ---- checksums ----------------------------------------------------------------------------------

std::uint32_t read_crc(const JsonField& field) {
  const std::string& text = field.text();
  std::uint32_t crc = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), crc, 16);
  if (error != std::errc{} || end != text.data() + text.size() || crc_text(crc) != text)
    field.refuse("is not a checksum", io::quote(text), "8 hexadecimal digits");
  return crc;
}

// ---- parts to JSON and back ---------------------------------------------------------------------

JsonValue json_of(const std::string& text) { return text; }

template <class Map> JsonValue json_of_numbers(const Map& numbers) {
  JsonValue::Object out;
  for (const auto& [name, value] : numbers) out.emplace_back(name, value);
  return out;
}

template <class Map> Map read_numbers(const JsonField& field) {
  Map out;
  for (const auto& [name, member] : field.members()) out[name] = member.number();
  return out;
}

JsonValue json_of(const SavedNumbers& numbers) { return json_of_numbers(numbers); }
void read(const JsonField& field, SavedNumbers& to) { to = read_numbers<SavedNumbers>(field); }
void read(const JsonField& field, std::string& to) { to = field.text(); }

JsonValue json_of(const SavedOptimizer& optimizer) {
  return object("type", optimizer.type, "state", json_of(optimizer.numbers));
}

void read(const JsonField& field, SavedOptimizer& to) {
  field.require_members({"type", "state"});
  to.type = field.at("type").text();
  read(field.at("state"), to.numbers);
}

JsonValue json_of(const SavedSession& session) {
  JsonValue::Object options, scalers;
  for (const auto& [name, text] : session.options) options.emplace_back(name, text);
  for (const auto& [name, fields] : session.scalers)
    scalers.emplace_back(name, json_of_numbers(fields));
  return object("options", std::move(options), "scalers", std::move(scalers));
}

void read(const JsonField& field, SavedSession& to) {
  field.require_members({"options", "scalers"});
  for (const auto& [name, member] : field.at("options").members()) to.options[name] = member.text();
  for (const auto& [name, member] : field.at("scalers").members())
    to.scalers[name] = read_numbers<StateDict::mapped_type>(member);
}

JsonValue json_of(const SavedLoader& loader) {
  const auto count = [](std::int64_t n) { return JsonValue::whole(static_cast<std::uint64_t>(n)); };
  JsonValue::Object members =
      object("seed", JsonValue::whole(loader.position.seed), "epoch",
             JsonValue::whole(loader.position.epoch), "sample", count(loader.position.sample),
             "samples", count(loader.samples), "batch", count(loader.batch), "shuffle",
             loader.shuffle, "drop_last", loader.drop_last);
  if (loader.shards != 1) members.emplace_back("shards", count(loader.shards));
  return members;
}

void read(const JsonField& field, SavedLoader& to) {
  field.require_members({"seed", "epoch", "sample", "samples", "batch", "shuffle", "drop_last"},
                        {"shards"});
  to.position = {field.at("seed").whole(), field.at("epoch").whole(), field.at("sample").count()};
  to.samples = field.at("samples").count();
  to.batch = field.at("batch").count();
  to.shuffle = field.at("shuffle").truth();
  to.drop_last = field.at("drop_last").truth();
  if (field.has("shards")) to.shards = field.at("shards").count();
}

JsonValue json_of(const Generator& generator) {
  return object("seed", JsonValue::whole(generator.seed), "draw", JsonValue::whole(generator.draw));
}

void read(const JsonField& field, Generator& to) {
  field.require_members({"seed", "draw"});
  to = {field.at("seed").whole(), field.at("draw").whole()};
}

template <class T> JsonValue json_of_all(const std::map<std::string, T>& entries);
template <class T> void read_all(const JsonField& field, std::map<std::string, T>& to);

JsonValue json_of(const RankGenerators& rank) {
  return object("default_generator", json_of(rank.default_generator), "generators",
                json_of_all(rank.generators));
}

void read(const JsonField& field, RankGenerators& to) {
  field.require_members({"default_generator", "generators"});
  read(field.at("default_generator"), to.default_generator);
  read_all(field.at("generators"), to.generators);
}

JsonValue json_of(const io::FileFacts& facts) {
  return object("bytes", JsonValue::whole(facts.bytes), "crc32c", crc_text(facts.crc));
}

void read(const JsonField& field, io::FileFacts& to) {
  field.require_members({"bytes", "crc32c"});
  to = {field.at("bytes").whole(), read_crc(field.at("crc32c"))};
}

/** Wraps a value in an object whose key is its kind, to keep numbers apart from text. */
JsonValue json_of(const CheckpointMetadata::mapped_type& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return object("text", *text);
  if (const auto* number = std::get_if<double>(&value)) return object("number", *number);
  const std::int64_t whole = std::get<std::int64_t>(value);
  const auto magnitude =
      whole < 0 ? ~static_cast<std::uint64_t>(whole) + 1 : static_cast<std::uint64_t>(whole);
  return object(whole < 0 ? "minus" : "whole", JsonValue::whole(magnitude));
}

void read(const JsonField& field, CheckpointMetadata::mapped_type& to) {
  const auto members = field.members();
  if (members.size() != 1)
    field.refuse("is not a metadata value", "", "one of text, number, whole, minus");
  const auto& [kind, value] = *members.begin();
  if (kind == "text") {
    to = value.text();
  } else if (kind == "number") {
    to = value.number();
  } else if (kind == "whole") {
    to = value.count();
  } else if (kind == "minus") {
    const std::uint64_t magnitude = value.whole();
    if (magnitude == 0 || magnitude > std::uint64_t{1} << 63) value.refuse("is out of range");
    to = static_cast<std::int64_t>(~magnitude + 1);
  } else {
    value.refuse("has an unknown kind", "", "text, number, whole or minus");
  }
}

template <class T> JsonValue json_of_all(const std::map<std::string, T>& entries) {
  JsonValue::Object out;
  for (const auto& [name, entry] : entries) out.emplace_back(name, json_of(entry));
  return out;
}

template <class T> void read_all(const JsonField& field, std::map<std::string, T>& to) {
  for (const auto& [name, member] : field.members()) read(member, to[name]);
}

// ---- the file -----------------------------------------------------------------------------------

constexpr std::string_view kSelf = ",\n  \"self\": \"", kEnd = "\"\n}\n";

/** Checks the checksum at the end of `text`, the contents of `file`. */
void require_intact(const io::ByteReader& file, std::string_view text) {
  const std::size_t tail = kSelf.size() + 8 + kEnd.size();
  const auto damaged = [&](const char* got) {
    fail<FormatError>(file.subject(), {.what = "the state is damaged", .got = got});
  };
  if (text.size() < tail) damaged("no checksum at its end");
  const std::string_view end = text.substr(text.size() - tail),
                         body = text.substr(0, text.size() - tail);
  if (!end.starts_with(kSelf) || !end.ends_with(kEnd)) damaged("no checksum at its end");
  if (end.substr(kSelf.size(), 8) != crc_text(io::crc32c(std::as_bytes(std::span(body)))))
    damaged("a checksum mismatch");
}

void read_files(const JsonField& field, CheckpointState& state) {
  read_all(field, state.files);
  for (const auto& [name, facts] : state.files)
    if (name != io::kModelFile && name != io::kOptimizerFile && name != io::kAverageFile)
      field.refuse("names an unknown file", io::quote(name));
  const auto require = [&](std::string_view name, bool expected) {
    if ((state.files.count(std::string(name)) > 0) != expected)
      field.refuse(expected ? "lacks a file" : "names a file without contents", io::quote(name));
  };
  require(io::kModelFile, !state.models.empty());
  require(io::kOptimizerFile, !state.optimizers.empty());
  require(io::kAverageFile, !state.averages.empty());
}

}  // namespace

std::string crc_text(std::uint32_t crc) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text;
  for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[crc >> shift & 15];
  return text;
}

std::string state_text(const CheckpointState& s) {
  JsonValue::Object members;
  const auto put = [&](const char* name, JsonValue value) {
    members.emplace_back(name, std::move(value));
  };
  put("schema", JsonValue::whole(kSchema));
  put("library", std::string(version()));
  put("world_size", JsonValue::whole(s.ranks.size() + 1));
  put("step", JsonValue::whole(static_cast<std::uint64_t>(s.step)));
  put("epoch", JsonValue::whole(static_cast<std::uint64_t>(s.epoch)));
  if (s.cpu_products) put("cpu_products", *s.cpu_products);
  put("metadata", json_of_all(s.metadata));
  put("models", json_of_all(s.models));
  put("optimizers", json_of_all(s.optimizers));
  if (!s.averages.empty()) put("averages", json_of_all(s.averages));
  put("sessions", json_of_all(s.sessions));
  put("scalers", json_of_all(s.scalers));
  put("schedules", json_of_all(s.schedules));
  put("loaders", json_of_all(s.loaders));
  put("default_generator", json_of(s.default_generator));
  put("generators", json_of_all(s.generators));
  if (!s.ranks.empty()) put("ranks", json_of_all(s.ranks));
  put("files", json_of_all(s.files));
  std::string text = io::json_text(std::move(members));
  text.resize(text.size() - 2);  // cuts off the end of the object
  const std::uint32_t crc = io::crc32c(std::as_bytes(std::span(text)));
  text += str(kSelf, crc_text(crc), kEnd);
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
  require_intact(file, text);
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
  read_all(root.at("metadata"), s.metadata);
  read_all(root.at("models"), s.models);
  read_all(root.at("optimizers"), s.optimizers);
  if (root.has("averages")) read_all(root.at("averages"), s.averages);
  read_all(root.at("sessions"), s.sessions);
  read_all(root.at("scalers"), s.scalers);
  read_all(root.at("schedules"), s.schedules);
  read_all(root.at("loaders"), s.loaders);
  read(root.at("default_generator"), s.default_generator);
  read_all(root.at("generators"), s.generators);
  read_files(root.at("files"), s);
  return s;
}

// ---- from a training ----------------------------------------------------------------------------

bool SavedSession::dynamic() const {
  const auto found = options.find("loss_scale");
  return found != options.end() && found->second == scale_text(kDynamic);
}

bool SavedSession::has_masters() const {
  const auto found = options.find("master_weights");
  return found != options.end() && found->second == "true";
}

std::map<std::string, std::string> options_of(const Session& session) {
  const Properties& p = session.options();
  if (!p.enabled) return {{"enabled", "false"}};
  std::map<std::string, std::string> out;
  for (const auto& texts : {property_texts(p), further_texts(p)})
    out.insert(texts.begin(), texts.end());
  return out;
}

SavedLoader saved_loader(const data::Batches& loader) {
  const data::BatchOptions& o = loader.options();
  return {loader.position(), loader.samples(), o.size, o.shuffle, o.drop_last, o.shard.count};
}

optim::Names parameter_names(const Parts<const nn::Module>& models) {
  optim::Names names;
  for (const auto& model : models)
    for (const nn::NamedTensor& entry : model.object->named_parameters())
      names.push_back({key_prefix(model.name) + entry.name, entry.tensor});
  return names;
}

std::string key_prefix(const std::string& name) { return name.empty() ? name : name + "."; }

bool trains_on_cpu(const Training& training) {
  for (const auto& model : training.model)
    for (const Tensor& parameter : model.object->parameters())
      if (parameter.device() == cpu) return true;
  return false;
}

CheckpointState state_of(const Training& training) {
  CheckpointState s;
  if (trains_on_cpu(training)) s.cpu_products = cpu_product_kind();
  s.step = training.step;
  s.epoch = training.epoch;
  s.metadata = training.metadata;
  for (const auto& model : training.model) s.models[model.name] = std::string(model.object->kind());
  for (const auto& average : training.average)
    s.averages[average.name] = "ExponentialMovingAverage";
  for (const auto& session : training.session)
    s.sessions[session.name] = {options_of(*session.object), session.object->state_dict()};
  for (const auto& scaler : training.scaler) {
    const auto numbers = scaler.object->state_dict();
    s.scalers[scaler.name] = {numbers.begin(), numbers.end()};
  }
  for (const auto& schedule : training.schedule)
    s.schedules[schedule.name] = schedule.object->state_dict().scalars;
  for (const auto& loader : training.loader) s.loaders[loader.name] = saved_loader(*loader.object);
  s.default_generator = mezzo::default_generator();
  for (const auto& generator : training.generator) s.generators[generator.name] = *generator.object;
  return s;
}

}  // namespace mezzo::amp
