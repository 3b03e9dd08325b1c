// Evidence: what the verdict reads of a run, and which of its numbers are in 16 bits.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "gradient_window.h"
#include "run_data.h"

namespace mezzo::amp::report {

/** A row of a sampled step. */
struct JudgedRow {
  const SampleRow* row = nullptr;
  std::int64_t step = 0;
  int step_scale = 0;   // exponent of the loss scale of the step
  bool is_low = false;  // in 16 bits; of a run in f32: would be if ops were cast
  /** True for a gradient that is the rounding error of terms that cancel out, like that of a bias
   *  before a batch norm: it underflows without harm. */
  bool is_noise = false;
};

/** The rows of a run that the verdict judges, and facts about them. */
struct Evidence {
  explicit Evidence(const RunData& run);

  const RunData& run;
  /** Dtype of the 16-bit numbers, "f16" or "bf16"; empty for a run in f32. */
  std::string low;
  /** Rows of the sampled steps before first_bad_loss but the first, which is not typical, or else
   *  of the first. */
  std::vector<JudgedRow> rows;
  /** Tags of ops by the name of their rows, and the parameters of ops in 16 bits. */
  std::map<std::string, Precision> tags;
  std::set<std::string> low_parameters;
  /** Names of the activations that products in 16 bits read. */
  std::set<std::string> operands;
  /** Of the biases of products in 16 bits: the name of the product's rows. */
  std::map<std::string, std::string> products_of_biases;
  /** Index in run.steps of the first step whose loss is NaN or infinite; -1 if there is none. */
  std::int64_t first_bad_loss = -1;

  /** Returns the tag of the op of an activation. */
  Precision tag_of(const SampleRow& row) const;
  /** Returns true if a row is a gradient that is, or would be, in 16 bits. */
  static bool is_low_gradient(const JudgedRow& judged) {
    const Kind kind = judged.row->kind;
    return judged.is_low && !judged.is_noise &&
           (kind == Kind::activation_grad || kind == Kind::weight_grad);
  }
  /** Returns the loss scales that suit all gradients in f16. */
  ScaleWindow window() const;
  /** Returns true if an optimizer skipped the step with this index. */
  bool was_skipped(std::int64_t index) const;

 private:
  /** Sets tags and low_parameters. Returns the names of rows in 16 bits. */
  std::set<std::string> read_graph();
  void add_rows(const Sample& sample, int step_scale, const std::set<std::string>& low_rows);
  bool is_in_16_bits(const SampleRow& row, const std::set<std::string>& low_rows) const;
};

}  // namespace mezzo::amp::report
