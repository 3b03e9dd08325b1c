#include "chapters.h"

namespace samples::tour {

using namespace mezzo;

namespace {

/** A block like those of a transformer: two linear layers, a sum and a norm. */
struct Block : nn::Model<Block> {
  nn::Linear fc1 = add("fc1", nn::Linear{8, 8});
  nn::LayerNorm norm = add("norm", nn::LayerNorm{8});
  nn::Linear fc2 = add("fc2", nn::Linear{8, 4});
  Tensor forward(const Tensor& x) const { return fc2(norm(x + relu(fc1(x)))); }
};

/** Records the ops that the program itself calls: without casts and the inner ops of others. */
struct OpLog : NestedTrace {
  std::vector<std::pair<const OpInfo*, DType>> runs;  // op and dtype of its first input

  void enter_forward(const OpInfo& info) override {
    ++depth_;
    NestedTrace::enter_forward(info);
  }
  void trace(const OpInfo& info, Inputs in, Outputs out) override {
    if (depth_ == 1 && info.traits.name != "to") runs.emplace_back(&info, in[0].dtype());
    NestedTrace::trace(info, in, out);
  }
  void leave_forward(const OpInfo& info) noexcept override {
    --depth_;
    NestedTrace::leave_forward(info);
  }

 private:
  int depth_ = 0;
};

struct Pass {
  std::vector<std::pair<const OpInfo*, DType>> runs;
  std::vector<amp::CastEntry> casts;
};

/** Runs the block forward at a level, with a loss behind it. */
Pass run_block(const char* level) {
  manual_seed(1);
  const Block block;
  const auto session = amp::initialize(block, {.opt_level = level, .verbosity = 0});
  const Tensor x = randn({2, 8}), y = tensor({0, 3}, {.dtype = i64});
  const amp::trace casts;
  const OpLog log;
  cross_entropy(block(x), y);
  return {.runs = log.runs, .casts = casts.entries()};
}

/** Calls binary_cross_entropy and what replaces it, on probabilities of f16. */
void call_banned(CastsFinding& found) {
  const Tensor logits = tensor({-2., 3}), y = tensor({0., 1});
  found.loss_f32 = binary_cross_entropy(sigmoid(logits), y).item<double>();
  const amp::autocast on;
  const Tensor half = logits.to(f16);
  try {
    binary_cross_entropy(sigmoid(half), y);
  } catch (const DtypeError& e) {
    found.banned = e.what();
  }
  found.loss_o1 = binary_cross_entropy_with_logits(half, y).item<double>();
}

/** Returns the gradient of log(p) for a probability p, stored in its dtype. */
double gradient_of_log(const Tensor& probability) {
  const Tensor p = probability.detach().requires_grad_();
  const amp::autocast on;
  log(p).backward();
  return p.grad().item<double>();
}

void tell_trace(Guide& guide, const std::string& level, const std::vector<amp::CastEntry>& casts) {
  Table table{.header = {level + ": module", "op", "tag", "cast", "count", "bytes"}, .rows = {}};
  for (const amp::CastEntry& e : casts)
    table.rows.push_back({e.module.empty() ? "-" : e.module, e.op, e.tag, str(e.from, " -> ", e.to),
                          str(e.count), str(e.bytes)});
  guide.show(table);
}

void tell_ops(Guide& guide, const std::vector<OpRun>& ops) {
  Table table{.header = {"op", "tag", "O1", "O2"}, .rows = {}};
  for (const OpRun& run : ops)
    table.rows.push_back(
        {run.op, run.tag, std::string(name(run.at_o1)), std::string(name(run.at_o2))});
  guide.show(table);
}

}  // namespace

CastsFinding find_casts() {
  CastsFinding found;
  for (const OpInfo* op : all_ops())
    if (!op->traits.internal) ++found.public_ops[std::string(name(op->traits.precision))];
  const Pass o1 = run_block("O1"), o2 = run_block("O2");
  for (std::size_t i = 0; i < o1.runs.size(); ++i) {
    const OpInfo& op = *o1.runs[i].first;
    found.ops.push_back({.op = std::string(op.traits.name),
                         .tag = std::string(name(amp::effective_tag(op))),
                         .at_o1 = o1.runs[i].second,
                         .at_o2 = o2.runs.at(i).second});
  }
  found.o1 = o1.casts;
  found.o2 = o2.casts;
  call_banned(found);
  const Tensor p = sigmoid(tensor(-12.0));
  found.probability = p.item<double>();
  found.slope_f32 = gradient_of_log(p);
  found.slope_f16 = gradient_of_log(p.to(f16));
  return found;
}

void tell_casts(Guide& guide) {
  guide.chapter(6, "Which op runs in which type, and why");
  guide.say(
      "Changing a number from one type to another is a cast. At O1 the weights stay in f32, and "
      "each op casts its inputs by its tag: low (matrix products: f16 is fast, and sums are kept "
      "in f32), f32 (exponentials, sums, losses: f16 would overflow or lose digits), promote (the "
      "widest type among the inputs), match (as they come). At O2 the net itself is f16; there "
      "are casts at its entrance and exit only.");
  guide.ask(
      "A block calculates fc2(norm(x + relu(fc1(x)))), then a cross entropy; x is f32. In which "
      "type does each op run at O1? And at O2?");
  const CastsFinding found = find_casts();
  tell_ops(guide, found.ops);
  guide.explain(
      "At O1 a low op returns f16, a match op passes it on, and the sum meets the f32 of x and is "
      "promoted; at O2 the net runs in f16 (batch norms would stay in f32) and returns f32.");
  guide.ask("How many casts does one forward pass make at O1, and how many at O2?");
  tell_trace(guide, "O1", found.o1);
  guide.show("");
  tell_trace(guide, "O2", found.o2);
  guide.explain(
      "At O1 each linear layer casts its input, weight and bias; at O2 only what enters and leaves "
      "the net is cast; amp::trace counts both.");
  guide.ask(
      "One tag is left: banned. binary_cross_entropy on probabilities in f16 at O1: slow, "
      "inaccurate, or an error?");
  std::string tags;
  for (const auto& [tag, count] : found.public_ops)
    tags += str(tags.empty() ? "" : ", ", count, " ", tag);
  guide.show("number of ops: " + tags);
  guide.show("the error: " + found.banned);
  guide.show(str("slope of log(p) at p = ", rounded(found.probability, 3), ": ",
                 rounded(found.slope_f32), ", in f16 ", rounded(found.slope_f16)));
  guide.show(str("the loss in f32: ", rounded(found.loss_f32),
                 "; binary_cross_entropy_with_logits at O1: ", rounded(found.loss_o1)));
  guide.explain(
      "This loss takes log(p), whose slope is 1/p and overflows for a small probability p, so "
      "Mezzo "
      "refuses and names an op that starts from the logits and never divides by p.");
}

}  // namespace samples::tour
