// Malformed checkpoints: each is refused with the file and the reason, and nothing changes.
#include "../../tensor/io/crc32c.h"
#include "../support/catch.h"
#include "trainings.h"

using namespace trainings;
using namespace std::string_literals;

namespace {

enum class Error { format, io, value };

struct Spoilt {
  std::string what;
  Error error;
  std::string part;  // of the message
  std::function<void(const std::string& step)> spoil;
};

std::string crc_of(std::string_view bytes) {
  char text[9];
  std::snprintf(text, sizeof text, "%08X", io::crc32c(std::as_bytes(std::span(bytes))));
  return text;
}

const std::string kSelf = ",\n  \"self\": \"", kEnd = "\"\n}\n";

std::string without_seal(const std::string& text) { return text.substr(0, text.rfind(kSelf)); }
std::string sealed(const std::string& body) { return body + kSelf + crc_of(body) + kEnd; }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("the state does not hold " + from);
  return text.replace(at, from.size(), to);
}

/** Edits the state and updates its checksum. */
auto edit(const std::string& from, const std::string& to) {
  return [=](const std::string& step) {
    const std::string path = step + "/state.json";
    files::write(path, sealed(replaced(without_seal(files::read(path)), from, to)));
  };
}

/** Sets the first member of this name to another value. */
auto member(const std::string& name, const std::string& value) {
  return [=](const std::string& step) {
    const std::string path = step + "/state.json", text = without_seal(files::read(path));
    const std::size_t at = text.find("\"" + name + "\": ") + name.size() + 4,
                      end = text.find_first_of(",\n", at);
    files::write(path, sealed(text.substr(0, at) + value + text.substr(end)));
  };
}

/** Replaces the state by this text, with a correct checksum. */
auto whole(const std::string& body) {
  return [=](const std::string& step) { files::write(step + "/state.json", sealed(body)); };
}

/** Replaces the bytes of the state. */
auto raw(const std::function<std::string(std::string)>& change) {
  return [=](const std::string& step) {
    files::write(step + "/state.json", change(files::read(step + "/state.json")));
  };
}

/** Changes a file and updates the state accordingly. */
auto file(const std::string& name, const std::function<std::string(std::string)>& change) {
  return [=](const std::string& step) {
    const std::string path = step + "/" + name, former = files::read(path), bytes = change(former);
    files::write(path, bytes);
    const auto facts = [](const std::string& b) {
      return "\"bytes\": " + std::to_string(b.size()) + ",\n      \"crc32c\": \"" + crc_of(b) +
             "\"";
    };
    edit(facts(former), facts(bytes))(step);
  };
}

/** Changes a file without updating the state. */
auto damage(const std::string& name, const std::function<std::string(std::string)>& change) {
  return [=](const std::string& step) {
    files::write(step + "/" + name, change(files::read(step + "/" + name)));
  };
}

std::string flipped(std::string bytes, std::size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  return bytes;
}

const std::string kModel = "model.safetensors", kOptim = "optim.safetensors", kState = "state.json";

// ---- missing and damaged files ------------------------------------------------------------------

std::vector<Spoilt> missing_and_damaged() {
  const auto remove = [](const std::string& name) {
    return [=](const std::string& step) { std::filesystem::remove_all(step + "/" + name); };
  };
  const auto as_directory = [](const std::string& name) {
    return [=](const std::string& step) {
      std::filesystem::remove(step + "/" + name);
      std::filesystem::create_directory(step + "/" + name);
    };
  };
  std::vector<Spoilt> out{
      {"no state", Error::io, "state.json): cannot open the file", remove(kState)},
      {"no model", Error::io, "model.safetensors): cannot open the file", remove(kModel)},
      {"no optimizer", Error::io, "optim.safetensors): cannot open the file", remove(kOptim)},
      {"a state that is a directory", Error::io, "no regular file", as_directory(kState)},
      {"a model that is a directory", Error::io, "no regular file", as_directory(kModel)},
      {"an empty directory", Error::io, "cannot open the file",
       [](const std::string& step) {
         std::filesystem::remove_all(step);
         std::filesystem::create_directory(step);
       }},
      {"no directory", Error::io, "cannot open the file",
       [](const std::string& step) { std::filesystem::remove_all(step); }},
  };
  for (const std::string& name : {kModel, kOptim}) {
    out.push_back({"an empty " + name, Error::format, name + "): the file is damaged; got 0 bytes",
                   damage(name, [](const std::string&) { return ""s; })});
    out.push_back({"a truncated " + name, Error::format, "is damaged",
                   damage(name, [](const std::string& b) { return b.substr(0, b.size() - 1); })});
    out.push_back({"half of " + name, Error::format, "is damaged",
                   damage(name, [](const std::string& b) { return b.substr(0, b.size() / 2); })});
    out.push_back({"a byte behind " + name, Error::format, "is damaged",
                   damage(name, [](const std::string& b) { return b + "x"; })});
    out.push_back({"a flipped bit at the start of " + name, Error::format, "checksum",
                   damage(name, [](const std::string& b) { return flipped(b, 0); })});
    out.push_back({"a flipped bit in a value of " + name, Error::format, "checksum",
                   damage(name, [](const std::string& b) { return flipped(b, b.size() - 3); })});
    out.push_back({"zeros for " + name, Error::format, "checksum",
                   damage(name, [](const std::string& b) { return std::string(b.size(), '\0'); })});
  }
  out.push_back(
      {"an empty state", Error::format, "the state is damaged", raw([](auto) { return ""s; })});
  out.push_back({"a truncated state", Error::format,
                 "the state is damaged; got no checksum at its end",
                 raw([](const std::string& b) { return b.substr(0, b.size() - 1); })});
  out.push_back({"half a state", Error::format, "the state is damaged",
                 raw([](const std::string& b) { return b.substr(0, b.size() / 2); })});
  out.push_back({"a byte behind the state", Error::format, "the state is damaged",
                 raw([](const std::string& b) { return b + " "; })});
  out.push_back({"a flipped bit in the state", Error::format, "a checksum mismatch",
                 raw([](const std::string& b) { return flipped(b, b.size() / 2); })});
  out.push_back({"another checksum of the state", Error::format, "a checksum mismatch",
                 raw([](const std::string& b) { return flipped(b, b.size() - 5); })});
  out.push_back({"a state of zeros", Error::format, "the state is damaged",
                 raw([](const std::string& b) { return std::string(b.size(), '\0'); })});
  out.push_back(
      {"the two files exchanged", Error::format, "is damaged", [](const std::string& step) {
         std::filesystem::rename(step + "/" + kModel, step + "/x");
         std::filesystem::rename(step + "/" + kOptim, step + "/" + kModel);
         std::filesystem::rename(step + "/x", step + "/" + kOptim);
       }});
  return out;
}

// ---- malformed JSON -----------------------------------------------------------------------------

std::vector<Spoilt> json() {
  return {
      {"no JSON", Error::format, "not strict JSON", whole("hello")},
      {"an array", Error::format, "holds an invalid value; got an array", whole("[1")},
      {"an array as a value", Error::format, "got an array", edit("\"step\": 2", "\"step\": [2]")},
      {"null", Error::format, "got null", edit("\"step\": 2", "\"step\": null")},
      {"deep nesting of arrays", Error::format, "got an array",
       edit("\"step\": 2", "\"step\": " + std::string(200000, '['))},
      {"deep nesting of objects", Error::format, "is nested too deeply",
       [](const std::string& step) {
         std::string deep;
         for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
         edit("\"step\": 2", "\"step\": " + deep)(step);
       }},
      {"six levels", Error::format, "is nested too deeply",
       edit("\"step\": 2", "\"step\": {\"a\": {\"a\": {\"a\": {\"a\": {\"a\": 1}}}}}")},
      {"a key twice", Error::format, "a key occurs twice; got \"step\"",
       edit("\"step\": 2", "\"step\": 2, \"step\": 3")},
      {"a key twice, once escaped", Error::format, "a key occurs twice",
       edit("\"step\": 2", "\"step\": 2, \"\\u0073tep\": 3")},
      {"a comment", Error::format, "not strict JSON", edit("\"step\": 2", "\"step\": 2 /* two */")},
      {"NaN", Error::format, "not strict JSON", edit("\"step\": 2", "\"step\": NaN")},
      {"a zero byte", Error::format, "a zero byte", edit("\"step\": 2", "\"step\": 2"s + '\0')},
      {"Latin-1", Error::format, "not UTF-8", edit("\"library\": \"", "\"library\": \"\xE4")},
      {"a byte order mark", Error::format, "byte order mark",
       raw([](const std::string& b) { return sealed("\xEF\xBB\xBF" + without_seal(b)); })},
      {"text behind the object", Error::format, "not strict JSON",
       raw([](const std::string& b) { return sealed(without_seal(b) + "} {\"a\": 1"); })},
      {"a number of 400 digits", Error::format, "not strict JSON",
       edit("\"step\": 2", "\"step\": " + std::string(400, '9'))},
      {"a number beyond any double", Error::format, "not strict JSON",
       edit("\"step\": 2", "\"step\": 1e999")},
      {"an integer beyond 2^53", Error::format, "beyond 2^53 and not as text",
       edit("\"step\": 2", "\"step\": 9007199254740993")},
      {"a negative integer beyond 2^53", Error::format, "beyond 2^53 and not as text",
       edit("\"step\": 2", "\"step\": -9007199254740993")},
      {"megabytes of spaces", Error::format, "too large",
       raw([](const std::string& b) { return b + std::string(40u << 20, ' '); })},
  };
}

// ---- members ------------------------------------------------------------------------------------

std::vector<Spoilt> members() {
  const auto bad_step = [](const std::string& value) {
    return edit("\"step\": 2", "\"step\": " + value);
  };
  return {
      {"another schema", Error::format, "\"schema\" is not supported by this version; got 2",
       edit("\"schema\": 1", "\"schema\": 2")},
      {"a schema as text", Error::format, "\"schema\" is no whole number",
       edit("\"schema\": 1", "\"schema\": \"one\"")},
      {"no schema", Error::format, "lacks a member; expected \"schema\"",
       edit("\"schema\": 1,", "")},
      {"several processes", Error::format, "is not the number of saved ranks; got 2",
       edit("\"world_size\": 1", "\"world_size\": 2")},
      {"no step", Error::format, "lacks a member; expected \"step\"", edit("\"step\": 2,", "")},
      {"no generators", Error::format, "lacks a member; expected \"generators\"",
       edit("\"generators\": {},", "")},
      {"no files", Error::format, "lacks a member", edit("\"files\":", "\"filed\":")},
      {"an unknown member", Error::format, "unknown member; got \"more\"",
       edit("\"step\": 2", "\"step\": 2, \"more\": 1")},
      {"a negative step", Error::format, "\"step\" is no whole number; got -2", bad_step("-2")},
      {"minus zero as a step", Error::format, "no whole number", bad_step("-0.0")},
      {"a fractional step", Error::format, "no whole number; got 2.5", bad_step("2.5")},
      {"a step with an exponent beyond 2^53", Error::format, "no whole number", bad_step("1e300")},
      {"a step as words", Error::format, "no whole number; got \"two\"", bad_step("\"two\"")},
      {"a step with a sign", Error::format, "no whole number", bad_step("\"+2\"")},
      {"a step with a leading zero", Error::format, "no whole number", bad_step("\"02\"")},
      {"a step beyond 64 bits", Error::format, "no whole number",
       bad_step("\"18446744073709551616\"")},
      {"a step beyond 63 bits", Error::format, "too large", bad_step("\"18446744073709551615\"")},
      {"a step that is true", Error::format, "no whole number", bad_step("true")},
      {"a step that is an object", Error::format, "no whole number", bad_step("{}")},
      {"generators as a number", Error::format, "\"generators\" is no object",
       edit("\"generators\": {}", "\"generators\": 1")},
      {"a model's kind as a number", Error::format, "is no text", edit("\"Mlp\"", "7")},
      {"an optimizer without a type", Error::format, "lacks a member; expected \"type\"",
       edit("\"type\": \"Adam\",", "")},
      {"an optimizer with more", Error::format, "unknown member",
       edit("\"type\": \"Adam\",", "\"type\": \"Adam\", \"x\": 1,")},
      {"a learning rate as text", Error::format, "param_groups.0.lr\" is no number",
       member("param_groups.0.lr", "\"a\"")},
      {"a learning rate that is an object", Error::format, "is no number",
       member("param_groups.0.lr", "{}")},
      {"an option as a number", Error::format, "is no text",
       edit("\"opt_level\": \"O2\"", "\"opt_level\": 2")},
      {"a seed that is negative", Error::format, "\"default_generator.seed\" is no whole number",
       edit("\"default_generator\": {\n    \"seed\": 1",
            "\"default_generator\": {\n    \"seed\": -1")},
      {"a generator without a draw", Error::format, "lacks a member; expected \"draw\"",
       edit(",\n    \"draw\": 6", "")},
      {"shuffle as a number", Error::format, "neither true nor false",
       edit("\"shuffle\": true", "\"shuffle\": 1")},
      {"a negative sample", Error::format, "no whole number",
       edit("\"sample\": 8", "\"sample\": -8")},
      {"metadata without a kind", Error::format, "is not a metadata value",
       edit("\"text\": \"hello\"", "")},
      {"metadata of two kinds", Error::format, "is not a metadata value",
       edit("\"text\": \"hello\"", "\"text\": \"hello\", \"whole\": 1")},
      {"metadata of an unknown kind", Error::format, "has an unknown kind",
       edit("\"text\": \"hello\"", "\"date\": \"hello\"")},
      {"metadata below all integers", Error::format, "out of range",
       edit("\"text\": \"hello\"", "\"minus\": \"9223372036854775809\"")},
  };
}

// ---- files named by the state -------------------------------------------------------------------

std::vector<Spoilt> named_files() {
  const std::string model = "\"model.safetensors\": {",
                    entry = ": {\"bytes\": 1, \"crc32c\": \"00000000\"},\n    ";
  std::vector<Spoilt> out;
  for (const std::string name :
       {"../x", "/etc/passwd", "..", ".", "", "a/b", "model.safetensors/", "./model.safetensors",
        "state.json", "..\\\\x", "model.safetensors\\u0000", "MODEL.SAFETENSORS", "rank-1.json"})
    out.push_back({"the file name " + name, Error::format, "names an unknown file",
                   edit(model, "\"" + name + "\"" + entry + model)});
  out.push_back({"the model's file under another path", Error::format, "names an unknown file",
                 edit(model, "\"../step-000001/model.safetensors\": {")});
  out.push_back({"no entry for the model's file", Error::format,
                 "lacks a file; got \"model.safetensors\"", [](const std::string& step) {
                   const std::string path = step + "/" + kState,
                                     body = without_seal(files::read(path));
                   const std::size_t at = body.find("    \"model.safetensors\""),
                                     end = body.find("    \"optim.safetensors\"");
                   files::write(path, sealed(body.substr(0, at) + body.substr(end)));
                 }});
  out.push_back(
      {"a checksum in small letters", Error::format, "is not a checksum",
       [](const std::string& step) {
         const std::string path = step + "/" + kState, body = without_seal(files::read(path));
         const std::size_t at = body.rfind("\"crc32c\": \"") + 11;
         files::write(path, sealed(body.substr(0, at) + "abcdef01" + body.substr(at + 8)));
       }});
  out.push_back({"a checksum as a number", Error::format, "is no text", member("crc32c", "1")});
  out.push_back({"a length of 2^64-1", Error::format, "is damaged",
                 member("bytes", "\"18446744073709551615\"")});
  out.push_back({"a link in the place of a file is followed to other bytes", Error::format,
                 "is damaged", [](const std::string& step) {
                   std::filesystem::remove(step + "/" + kModel);
                   std::filesystem::create_symlink("/proc/self/status", step + "/" + kModel);
                 }});
  return out;
}

// ---- mismatched contents ------------------------------------------------------------------------

std::vector<Spoilt> contents() {
  const auto rename = [](const std::string& name, const std::string& from, const std::string& to) {
    return file(name, [=](const std::string& b) { return replaced(b, from, to); });
  };
  return {
      {"a model file that is no safetensors", Error::format, "model.safetensors): the header",
       file(kModel, [](const std::string& b) { return std::string(b.size(), 'x'); })},
      {"a model file without tensors", Error::value, "missing",
       file(kModel, [](auto) { return files::safetensors("{}"); })},
      {"a weight of another name", Error::value, "\"fc1.wEight\"",
       rename(kModel, "fc1.weight", "fc1.wEight")},
      {"a weight of another shape", Error::value, "of wrong shape",
       rename(kModel, "[12,16]", "[16,12]")},
      {"a weight of another dtype", Error::value, "was saved in i32",
       rename(kModel, "\"fc1.weight\":{\"dtype\":\"F32\"", "\"fc1.weight\":{\"dtype\":\"I32\"")},
      {"a moment of another name", Error::value, "unexpected fc1.weight.exp_avj",
       rename(kOptim, "fc1.weight.exp_avg\"", "fc1.weight.exp_avj\"")},
      {"a moment of another shape", Error::value, "mismatched",
       rename(kOptim, "[12,16]", "[16,12]")},
      {"an optimizer of another kind", Error::value, "the optimizer was \"SGD\" and is Adam now",
       edit("\"Adam\"", "\"SGD\"")},
      {"a negative learning rate", Error::value, "lr",
       edit("param_groups.0.lr\": ", "param_groups.0.lr\": -")},
      {"an infinite learning rate", Error::value, "lr", member("param_groups.0.lr", "\"inf\"")},
      {"a fractional count of steps", Error::value, "fc1.bias.step",
       edit("fc1.bias.step\": 2", "fc1.bias.step\": 2.5")},
      {"a huge count of steps", Error::value, "fc1.bias.step",
       edit("fc1.bias.step\": 2", "fc1.bias.step\": 1e30")},
      {"a number of no parameter", Error::value, "unexpected fc9.bias.step",
       edit("fc1.bias.step", "fc9.bias.step")},
      {"a loss scale of 0", Error::value, "bad loss_scale",
       edit("\"loss_scale\": 1024", "\"loss_scale\": 0")},
      {"a loss scale that is no number", Error::value, "bad loss_scale",
       edit("\"loss_scale\": 1024", "\"loss_scale\": \"nan\"")},
      {"a negative counter", Error::value, "bad unskipped",
       edit("\"unskipped\": ", "\"unskipped\": -")},
      {"a scaler of no known name", Error::value, "unknown entry",
       edit("loss_scaler0", "loss_scaler00")},
      {"a scaler of a second loss", Error::value, "loss_scaler1",
       edit("loss_scaler0", "loss_scaler1")},
      {"a schedule at a fraction of a step", Error::value, "step must be a whole number",
       edit("\"base_lr.0\": 0.01,\n      \"step\": 2",
            "\"base_lr.0\": 0.01,\n      \"step\": 2.5")},
      {"a schedule without a rate", Error::value, "base_lr.0",
       edit("\"base_lr.0\"", "\"base_lr.1\"")},
      {"a sample beyond the data", Error::value, "outside the data set",
       edit("\"sample\": 8", "\"sample\": 23")},
      {"another number of samples", Error::value,
       "number of samples of the loader was 21 and is 22 now",
       edit("\"samples\": 22", "\"samples\": 21")},
      {"another batch size", Error::value, "batch size of the loader was 5 and is 4 now",
       edit("\"batch\": 4", "\"batch\": 5")},
      {"another order", Error::value, "shuffle of the loader was false",
       edit("\"shuffle\": true", "\"shuffle\": false")},
      {"another level", Error::value, "opt_level was \"O3\" and is \"O2\" now",
       edit("\"opt_level\": \"O2\"", "\"opt_level\": \"O3\"")},
      {"another number of losses", Error::value, "num_losses was \"2\" and is \"1\" now",
       edit("\"num_losses\": \"1\"", "\"num_losses\": \"2\"")},
      {"a generator of another name", Error::value,
       "the checkpoint has a generator \"g\" that this training lacks",
       edit("\"generators\": {}", "\"generators\": {\"g\": {\"seed\": 1, \"draw\": 2}}")},
      {"a scaler that is not there", Error::value,
       "the checkpoint has a scaler that this training lacks",
       edit("\"scalers\": {},", "\"scalers\": {\"\": {}},")},
  };
}

std::string thrown(Error error, const std::function<void()>& load) {
  switch (error) {
    case Error::format: return files::thrown<FormatError>(load);
    case Error::io: return files::thrown<IoError>(load);
    case Error::value: break;
  }
  return files::thrown<ValueError>(load);
}

int check_all(const std::vector<Spoilt>& cases) {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "O2", .optimizer = "adam"});
  run.steps(1);
  amp::save_checkpoint(directory.path(), run.parts());
  const auto older = snapshot(run);
  run.steps(1);
  amp::Training parts = run.parts();
  parts.metadata = {{"greeting", "hello"}};
  const std::string step = amp::save_checkpoint(directory.path(), parts);
  const std::string good = directory / "good";
  std::filesystem::rename(step, good);
  run.steps(1);
  const auto before = snapshot(run);
  for (const Spoilt& spoilt : cases) {
    std::filesystem::remove_all(step);
    std::filesystem::copy(good, step);
    spoilt.spoil(step);
    const std::string text = thrown(spoilt.error, [&] { amp::load_checkpoint(step, run.parts()); });
    INFO(spoilt.what << ": " << text);
    CHECK(text.find("load_checkpoint(" + step) == 0);
    CHECK(text.find(spoilt.part) != std::string::npos);
    CHECK(difference(before, snapshot(run)) == "");
    if (spoilt.error == Error::value) continue;
    // Given the parent directory, the older one is loaded, and the log says why.
    nets::LogCapture log;
    Run fresh({.surface = "O2", .optimizer = "adam", .seed = 5});
    CHECK(amp::load_checkpoint(directory.path(), fresh.parts()).step == 1);
    CHECK(difference(older, snapshot(fresh)) == "");
    default_generator() = {};
    const bool gone = !std::filesystem::exists(step);
    CHECK((gone || (log.lines.size() == 1 &&
                    log.lines[0].find("the next older checkpoint is tried") != std::string::npos)));
    run.resumed(amp::load_checkpoint(good, run.parts()));
    run.steps(1);
    CHECK(difference(before, snapshot(run)) == "");
  }
  return static_cast<int>(cases.size());
}

}  // namespace

TEST_CASE("malformed checkpoints are refused and change nothing", "[checkpoint]") {
  int all = 0;
  for (const auto& cases : {missing_and_damaged(), json(), members(), named_files(), contents()})
    all += check_all(cases);
  CHECK(all >= 120);
}

TEST_CASE("every flipped bit and every truncation of a state is detected", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "O1", .optimizer = "sgd"});
  run.steps(1);
  const std::string step = amp::save_checkpoint(directory.path(), run.parts()),
                    path = step + "/" + kState;
  const std::string good = files::read(path);
  const auto before = snapshot(run);
  const auto refused = [&](const std::string& bytes) {
    files::write(path, bytes);
    return files::thrown<FormatError>([&] {
             amp::load_checkpoint(step, run.parts());
           }).find(path) != std::string::npos;
  };
  int survived = 0;
  for (std::size_t i = 0; i < good.size(); ++i) survived += refused(flipped(good, i)) ? 0 : 1;
  for (std::size_t i = 0; i < good.size(); ++i) survived += refused(good.substr(0, i)) ? 0 : 1;
  CHECK(survived == 0);
  CHECK(difference(before, snapshot(run)) == "");
}
