// The chapters of the tour: what each calculates and claims, and the small net that some of them
// train.
#pragma once

#include <mezzo.h>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "guide.h"

namespace samples::tour {

/** A function that prints a chapter. */
using Chapter = void (*)(Guide& guide);

/** Returns the chapters; chapter 1 comes first. */
std::vector<Chapter> chapters();

/** A number above 0 as a dtype stores it. */
struct Stored {
  double wanted = 0;            // the number before it was stored
  std::uint16_t bits = 0;       // of the stored number
  double value = 0;             // the stored number
  double below = 0, above = 0;  // the numbers of the dtype next to it
  double relative_error = 0;    // |value - wanted| / wanted
};

/** Stores a number above 0 in f16. */
Stored store_f16(double wanted);
/** Returns the 16 bits of an f16 in three groups: sign, exponent, fraction. */
std::string bits_text(std::uint16_t bits);

/** What chapter 1 claims. */
struct NumberFinding {
  std::vector<Stored> numbers;  // in f16
  double f32_error = 0;         // relative error of the first number in f32
};

/** Stores the numbers of chapter 1. */
NumberFinding find_number();
/** Prints chapter 1. */
void tell_number(Guide& guide);

/** An addition in f16. */
struct Addition {
  double a = 0, b = 0;  // the operands
  double result = 0;    // a + b in f16
};

/** What a number of f16 does not notice. */
struct Spacing {
  double at = 0;       // a number of f16
  double spacing = 0;  // distance to the next larger one
  double lost = 0;     // the largest power of two p with at + p == at in f16
};

/** What chapter 2 claims. */
struct RoundingFinding {
  std::vector<Addition> additions;
  std::vector<Spacing> spacings;
  int ones = 0;        // how many ones are added up
  double counted = 0;  // their total when each sum is rounded to f16
  double summed = 0;   // their total by sum()
};

/** Calculates the numbers of chapter 2. */
RoundingFinding find_rounding();
/** Prints chapter 2. */
void tell_rounding(Guide& guide);

/** The result of one op on inputs that f16 can store. */
struct OpResult {
  std::string text;                          // "300 * 300"
  std::string op;                            // its name in the op table
  std::string tag;                           // its precision tag
  double in_f16 = 0, in_o1 = 0, in_f32 = 0;  // without casts, with the casts of O1, in f32
};

/** What chapter 3 claims. */
struct OverflowFinding {
  double largest = 0;         // the largest finite f16
  double first_infinite = 0;  // the first whole number that f16 stores as inf
  std::vector<OpResult> ops;
  double mean_of_squares = 0;  // of a layer's outputs at O1
  std::string op, message;     // the op that detect_nonfinite names, and its report
  double with_override = 0;    // the same mean with that op in f32
};

/** Calculates the numbers of chapter 3. */
OverflowFinding find_overflow();
/** Prints chapter 3. */
void tell_overflow(Guide& guide);

/** One gradient, stored in f16 with and without a loss scale. */
struct SmallGradient {
  double exact = 0;      // the gradient
  double in_f16 = 0;     // stored in f16
  double scale = 0;      // the loss scale
  double scaled = 0;     // exact * scale, stored in f16
  double recovered = 0;  // scaled / scale, calculated in f32
};

/** A backward pass of the small net at O1 with the loss scale 2^exponent. */
struct ScaleTrial {
  int exponent = 0;
  double zero = 0;      // share of the weight gradients that are 0 and are not in f32
  double infinite = 0;  // share that are inf or nan
  double error = 0;     // largest error, as a share of the largest gradient; inf if one is inf
};

/** What chapter 4 claims. */
struct UnderflowFinding {
  double smallest = 0;  // the smallest f16 above 0
  SmallGradient gradient;
  double loss_factor = 0;                   // the loss of the small net is multiplied by it
  std::vector<ScaleTrial> trials;           // ascending exponents
  int first_complete = 0, last_finite = 0;  // exponents of the window: nothing is 0, nothing inf
  int first_exact = 0;                      // from here to last_finite the error is the same
  double start = 0, settled = 0;            // the dynamic scale before and after it fell
  int skipped = 0;                          // steps that it skipped meanwhile
};

/** Returns the gradients of all weights of the small net, its loss multiplied by `factor`, at a
 *  level with a static loss scale; they are unscaled. */
std::vector<double> small_net_gradients(const char* level, double scale, double factor);
/** Returns the share of gradients that are 0 where those of `reference` are not. */
double share_lost(const std::vector<double>& gradients, const std::vector<double>& reference);

/** Calculates the numbers of chapter 4. */
UnderflowFinding find_underflow();
/** Prints chapter 4. */
void tell_underflow(Guide& guide);

/** A weight of 1 after steps that add the same update to it. */
struct SteppedWeight {
  std::string level;
  std::string dtype;   // of the model's weight
  double weight = 0;   // the model's
  double updated = 0;  // the number that the optimizer updates: the master, or the weight itself
};

/** Takes `steps` steps of SGD that each add `update` to a weight of 1. `masters` is the option
 *  master_weights of a level that converts the model. */
SteppedWeight step_weight(const std::string& level, double update, int steps, bool masters);

/** One step of Adam on 64 weights at O2 or O3. */
struct AdamStep {
  std::vector<double> before, after;  // the numbers that the optimizer updates
  /** Returns how many numbers changed. */
  std::int64_t changed() const;
};

/** What chapter 5 claims. */
struct MastersFinding {
  double update = 0;
  int steps = 0;
  std::vector<SteppedWeight> weights;  // at O0, O3 and O2
  double lr = 0;                       // of Adam: the size of its first update
  AdamStep bare, with_masters;         // at O3 and O2
};

/** Calculates the numbers of chapter 5. */
MastersFinding find_masters();
/** Prints chapter 5. */
void tell_masters(Guide& guide);

/** An op of the small block, and the dtype in which it runs at a level: that of its first input
 *  after casts. */
struct OpRun {
  std::string op, tag;
  mezzo::DType at_o1 = mezzo::f32, at_o2 = mezzo::f32;
};

/** What chapter 6 claims. */
struct CastsFinding {
  std::map<std::string, int> public_ops;      // tag -> number of ops
  std::vector<OpRun> ops;                     // in the order in which they run
  std::vector<mezzo::amp::CastEntry> o1, o2;  // the casts of a forward pass, by amp::trace
  std::string banned;                         // the error of a banned op at O1
  double loss_f32 = 0;                        // of the banned op in f32
  double loss_o1 = 0;                         // of the op that replaces it, at O1
  double probability = 0;                     // a small one
  double slope_f32 = 0, slope_f16 = 0;        // the gradient of log(p) there
};

/** Runs the block of chapter 6. */
CastsFinding find_casts();
/** Prints chapter 6. */
void tell_casts(Guide& guide);

/** A number stored in both 16-bit types. */
struct InBoth {
  double wanted = 0, in_f16 = 0, in_bf16 = 0;
};

/** What the small net does at O1 or O4, compared with f32. */
struct NetInType {
  double gradients_lost = 0;  // share that is 0 with loss scale 1 and the loss times 1e-8
  double large_output = 0;    // its first output for inputs times 1e6
  double output_error = 0;    // largest error of its outputs over the largest output
};

/** What chapter 7 claims. */
struct BfloatFinding {
  std::vector<InBoth> numbers;
  double large_output = 0;  // of the small net in f32, for inputs times 1e6
  NetInType o1, o4;
  double update = 0;                  // of the weights below
  int steps = 0;                      // number of updates
  SteppedWeight half, bare, masters;  // at O3, and at O5 without and with masters
};

/** Calculates the numbers of chapter 7. */
BfloatFinding find_bfloat();
/** Prints chapter 7. */
void tell_bfloat(Guide& guide);

/** What a report recorded of a training at one level. */
struct RecordedRun {
  std::string level;
  std::int64_t steps = 0, skipped = 0;
  double first_loss = 0, last_loss = 0;
  double last_scale = 0;                    // loss scale of the last step
  std::int64_t updates = 0, no_effect = 0;  // of weights in sampled steps; without a change
};

/** What chapter 8 claims. */
struct ReportFinding {
  double lr = 0;           // of Adam
  std::int64_t every = 0;  // steps from one sample to the next
  std::vector<RecordedRun> runs;
};

/** Trains the small net at O0, O2 and O3 with one report, whose page is written to `page`, a path
 *  that ends in ".html". Returns what the report recorded. Errors: those of amp::ReportFile. */
ReportFinding find_report(const std::string& page);
/** Prints chapter 8. */
void tell_report(Guide& guide);

/** Two linear layers with a tanh between them: 8 numbers in, 1 out. */
struct SmallNet : mezzo::nn::Model<SmallNet> {
  mezzo::nn::Linear fc1 = add("fc1", mezzo::nn::Linear{8, 16});
  mezzo::nn::Linear fc2 = add("fc2", mezzo::nn::Linear{16, 1});
  mezzo::Tensor forward(const mezzo::Tensor& x) const { return fc2(mezzo::tanh(fc1(x))); }
};

/** A net and what it learns: the sum of its inputs. */
struct SmallTask {
  SmallNet net;
  mezzo::Tensor x, y;  // f32 [32,8] and [32,1]

  /** Returns the mean squared error of the net, 0-dim. */
  mezzo::Tensor loss() const { return mezzo::mse_loss(net(x), y); }
};

/** Returns the task with its first weights. They are the same at every call: the default generator
 *  is seeded with 1. */
inline SmallTask make_small_task() {
  mezzo::manual_seed(1);
  SmallTask task;
  task.x = mezzo::randn({32, 8});
  task.y = mezzo::sum(task.x, {1}, {.keepdim = true});
  return task;
}

}  // namespace samples::tour
