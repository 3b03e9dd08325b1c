// The objects of a report file, and their JSON. README.md describes the format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../../amp/diagnose/trace.h"

namespace mezzo::amp::report {

/** The version of the format, in the first line of a run. */
inline constexpr int kFormat = 1;

/** Counts of magnitudes: counts[i] elements have floor(log2(|x|)) = lowest + i. */
struct Histogram {
  std::int64_t elements = 0, zeros = 0, infinities = 0, nans = 0;
  int lowest = 0;
  std::vector<std::int64_t> counts = {};
  double largest = 0;  // largest finite magnitude
};

/** What a histogram is of. */
enum class Kind : std::uint8_t { activation, activation_grad, weight, weight_grad, update };
inline constexpr std::string_view kKindNames[] = {"activation", "activation_grad", "weight",
                                                  "weight_grad", "update"};

/** One histogram of a sampled step. */
struct SampleRow {
  Kind kind = Kind::activation;
  std::string name;     // of the parameter, or "module op", with "#2" if it occurs again
  std::string module;   // dotted path
  std::string op = {};  // of activations and their gradients
  DType dtype = f32;    // as the program holds the tensor
  Histogram histogram = {};
  double scale = 1;  // the loss scale that the values contain
  /** Of an update: magnitudes of update / weight. Zeros: elements whose weight stayed the same. */
  std::optional<Histogram> ratio = {};
};

struct RunLine {
  std::string title, group, level, started, version, commit, device, hardware;
  std::int64_t every = 0;
  std::string loss_scale;  // "dynamic" or a number; empty without mixed precision
  std::string cast_dtype;  // the 16-bit dtype of the level; empty if there is none
  std::vector<std::pair<std::string, std::string>> options = {};
  bool emulated = false;     // products in cast_dtype are computed in f32 on this device
  std::int64_t samples = 0;  // of a step, in all processes; 0: not known
};

struct ModelLine {
  struct Module {
    std::string path, type;
  };
  struct Parameter {
    std::string name, module;
    std::vector<std::int64_t> shape;
    DType dtype;
    bool master;
  };
  std::int64_t number = 0;
  std::string name;
  std::vector<Module> modules = {};
  std::vector<Parameter> parameters = {};
};

struct StepLine {
  std::int64_t step = 0;
  std::vector<double> losses = {}, scales = {}, lrs = {};
  std::vector<std::string> results = {};
  double ms = 0;
  bool sampled = false;
  std::string first_nonfinite = {};
  std::int64_t casts = 0, cast_bytes = 0, memory = 0;
};

/** An op of the forward pass and where its operands come from. */
struct GraphOp {
  struct Operand {
    std::int64_t from = -1;  // index of the op that made it
    std::string name = {};   // of a parameter
    DType dtype = f32;
    std::vector<std::int64_t> shape = {};
  };
  std::string op, module, tag;
  std::string row = {};  // name of its activations in samples; empty if they have none
  std::vector<Operand> in = {}, out = {};
};

/** Memory in use by category, after an op. */
struct MemoryPoint {
  std::string at, phase;
  std::vector<std::int64_t> bytes;
};

/** A sentence of the verdict. */
struct Finding {
  std::string kind;      // "underflow", "overflow", ...
  std::string severity;  // "problem", "hint" or "good"
  std::string text;
  std::vector<std::string> names = {};
  std::string level = {};                 // the suggested level, if one is
  std::optional<double> loss_scale = {};  // the suggested scale, if one is
};

/** A number of the program. */
struct LogLine {
  std::int64_t step = 0;
  std::string name;
  double value = 0;
};

/** Each returns one line of JSON, without the line's end, for run number `run` of the file. */
std::string json_line(std::int64_t run, const RunLine& line);
std::string json_line(std::int64_t run, const ModelLine& line);
std::string json_line(std::int64_t run, const StepLine& line);
std::string json_line(std::int64_t run, const LogLine& line);
std::string json_line(std::int64_t run, std::int64_t step, const std::vector<SampleRow>& rows);
std::string json_line(std::int64_t run, std::int64_t step, const std::vector<CastEntry>& entries);
std::string json_line(std::int64_t run, std::int64_t step, const std::vector<GraphOp>& ops);
std::string json_line(std::int64_t run, std::int64_t step, const std::vector<MemoryPoint>& points);
std::string json_line(std::int64_t run, const Finding& finding);
/** The last line of a run. */
std::string end_line(std::int64_t run, std::int64_t steps, double seconds);
/** The table of ops: what each level does to the inputs of each. */
std::string policy_line();

}  // namespace mezzo::amp::report
