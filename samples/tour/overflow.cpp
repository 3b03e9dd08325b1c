#include "chapters.h"

#include <mezzo.h>

#include <cmath>
#include <functional>

namespace samples::tour {

using namespace mezzo;

namespace {

using Calculation = std::function<Tensor(DType)>;

/** Runs a calculation in f16 without casts, in f16 with the casts of O1, and in f32. */
OpResult run_op(const std::string& text, const std::string& op, const Calculation& run) {
  const Precision tag = amp::effective_tag(*find_op(op));
  OpResult result{.text = text, .op = op, .tag = std::string(name(tag))};
  result.in_f16 = run(f16).item<double>();
  result.in_f32 = run(f32).item<double>();
  const amp::autocast on;
  result.in_o1 = run(f16).item<double>();
  return result;
}

/** Runs ops on inputs of at most 1000. */
std::vector<OpResult> run_ops() {
  const auto number = [](double x) { return [x](DType t) { return full({1}, x, {.dtype = t}); }; };
  const auto x = number(300), power = number(12);
  const auto thousands = [](DType t) { return full({100}, 1000, {.dtype = t}); };
  return {
      run_op("300 * 300", "mul", [&](DType t) { return x(t) * x(t); }),
      run_op("pow(300, 2)", "pow", [&](DType t) { return pow(x(t), 2); }),
      run_op("exp(12)", "exp", [&](DType t) { return exp(power(t)); }),
      run_op("sum of 100 thousands", "sum", [&](DType t) { return sum(thousands(t)); }),
      run_op("mean of 100 thousands", "mean", [&](DType t) { return mean(thousands(t)); }),
  };
}

/** The mean of the squares of a layer's outputs; every output is 300. */
struct MeanOfSquares : nn::Model<MeanOfSquares> {
  nn::Linear layer = add("layer", nn::Linear{4, 4, {.bias = false}});
  MeanOfSquares() { layer.weight().detach().copy_(eye(4)); }
  Tensor forward(const Tensor& x) const {
    const Tensor y = layer(x);
    return mean(y * y);
  }
};

void find_op(OverflowFinding& found) {
  const LogSink before = set_log_sink({});  // the report is printed with the answer
  const MeanOfSquares model;
  const auto session = amp::initialize(model, {.opt_level = "O1", .verbosity = 0});
  const Tensor x = full({1, 4}, 300.0);
  {
    const amp::detect_nonfinite watch;
    found.mean_of_squares = model(x).item<double>();
    if (watch.report()) {
      found.op = watch.report()->op;
      found.message = str(found.op, ": ", watch.report()->output.tensor, " from inputs of ",
                          watch.report()->inputs[0].abs_max);
    }
  }
  const amp::policy_override in_f32{{"mul", Precision::f32}};
  found.with_override = model(x).item<double>();
  set_log_sink(before);
}

void tell_ops(Guide& guide, const OverflowFinding& found) {
  Table table{.header = {"calculation", "op", "tag", "f16", "O1", "f32"}, .rows = {}};
  for (const OpResult& op : found.ops)
    table.rows.push_back(
        {op.text, op.op, op.tag, rounded(op.in_f16), rounded(op.in_o1), rounded(op.in_f32)});
  guide.show(table);
}

}  // namespace

OverflowFinding find_overflow() {
  OverflowFinding found;
  const Tensor whole = arange(65000.0, 66000);
  const Tensor stored = whole.to(f16).to(f32);
  const Tensor finite = isfinite(stored);
  found.largest = max(where(finite, stored, zeros_like(stored))).item<double>();
  found.first_infinite = min(where(finite, full_like(whole, INFINITY), whole)).item<double>();
  found.ops = run_ops();
  find_op(found);
  return found;
}

void tell_overflow(Guide& guide) {
  guide.chapter(3, "Overflow");
  guide.say(
      "The 5 exponent bits of f16 end at 2^15. Larger results become inf, \"infinity\", and inf "
      "spreads: inf - inf and 0 * inf are nan, \"not a number\". This is an overflow.");
  guide.ask("Which is the first whole number that f16 stores as inf: 65505, 65520 or 65536?");
  const OverflowFinding found = find_overflow();
  guide.show(str("largest f16: ", found.largest,
                 "; first whole number that becomes inf: ", found.first_infinite));
  guide.explain(str("The next number would be 65536, and ", found.first_infinite,
                    " is the middle: what is below it is still rounded down to ", found.largest,
                    "."));
  guide.ask(
      "All inputs below are 1000 or less. Which results are inf in f16, and which does level O1, "
      "which chooses f16 or f32 for each op, save?");
  tell_ops(guide, found);
  guide.explain(
      "O1 decides by the op's tag: ops tagged f32 get f32 inputs; mul is tagged promote and runs "
      "in the type of its inputs, here f16; a mean divides before it rounds.");
  guide.ask(
      "At O1, a layer returns 300 everywhere, and the loss is mean(y * y). Which op is to blame "
      "for the inf: the layer, the product or the mean?");
  guide.show(str("the loss is ", rounded(found.mean_of_squares), "; amp::detect_nonfinite says"));
  guide.show(found.message);
  guide.show(str("with policy_override{{\"mul\", Precision::f32}} the loss is ",
                 rounded(found.with_override)));
  guide.explain(
      "detect_nonfinite names the first op that makes inf from finite inputs; everything after "
      "it only passes the inf on.");
}

}  // namespace samples::tour
