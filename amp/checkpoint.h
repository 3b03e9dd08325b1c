// Checkpoints of a whole training: one call saves all that the next step depends on, another puts it back, bit for bit.
// Sees: session.h, grad_scaler.h; nn, optim.
// Read next: checkpoint_save.cpp, checkpoint_load.cpp, checkpoint_state.h (what is in state.json).
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "../nn/data/batches.h"
#include "../nn/module.h"
#include "../optim/optimizer.h"
#include "../optim/schedule.h"
#include "../tensor/generator.h"
#include "grad_scaler.h"
#include "session.h"

namespace mezzo::amp {

/** One object, or several by name: `.model = net`, `.model = {{"generator", g}, {"discriminator", d}}`. Refers to them: they must outlive it. */
template <class T> class MZ_API Parts {
 public:
  struct Entry {
    Entry(std::string its_name, T& it) : name(std::move(its_name)), object(&it) {}
    std::string name;  // empty for one alone
    T* object;
  };

  Parts();
  Parts(const Parts& other);
  Parts(Parts&& other) noexcept;
  Parts& operator=(const Parts& other);
  Parts& operator=(Parts&& other) noexcept;
  ~Parts();
  template <std::derived_from<T> U>
  Parts(U& one) : entries_{Entry({}, one)} {}  // NOLINT: conversion is the point
  Parts(std::initializer_list<Entry> several) : entries_(several) {}

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

 private:
  std::vector<Entry> entries_;
};

/** What a program wants to find again in its checkpoint, by name: text, numbers, whole numbers. A type of its own, whose copies are not inline,
 *  because the structs below would otherwise cost every program 3 MB of the compiler's memory. */
struct MZ_API CheckpointMetadata : std::map<std::string, std::variant<std::string, double, std::int64_t>> {
  using map::map;
  CheckpointMetadata();
  CheckpointMetadata(const CheckpointMetadata& other);
  CheckpointMetadata(CheckpointMetadata&& other) noexcept;
  CheckpointMetadata& operator=(const CheckpointMetadata& other);
  CheckpointMetadata& operator=(CheckpointMetadata&& other) noexcept;
  ~CheckpointMetadata();
};

/** What a training consists of. The calling thread's default generator always takes part. */
struct Training {
  Parts<const nn::Module> model = {};
  Parts<optim::Optimizer> optimizer = {};
  Parts<Session> session = {};    // with initialize() and scale_loss()
  Parts<GradScaler> scaler = {};  // with autocast
  Parts<optim::Scheduler> schedule = {};
  Parts<data::Batches> loader = {};
  Parts<Generator> generator = {};   // besides the thread's own
  std::int64_t step = 0;             // for saving: names the checkpoint
  std::int64_t epoch = 0;            // for saving
  CheckpointMetadata metadata = {};  // for saving
};

struct SaveCheckpointOptions {
  std::int64_t keep = 0;  // how many checkpoints stay, this one included; 0: all
};

struct LoadCheckpointOptions {
  bool allow_other_level = false;  // convert a checkpoint of another level, or of other options of initialize
};

/** What load_checkpoint() found. */
struct LoadedCheckpoint {
  std::string path;  // of the step's directory
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  CheckpointMetadata metadata = {};
  std::vector<std::string> passed_over = {};  // why better ones were not taken, as logged
};

/** Saves a training as DIRECTORY/step-NNNNNN, makes DIRECTORY/latest name it, and returns its path. DIRECTORY is made where it is missing.
 *  Files: model.safetensors (parameters and buffers, f32 where they are 16-bit, masters where there are masters; opens in Python),
 *  optim.safetensors (the optimizers' tensors), state.json (all else, and length and CRC-32C of the other files). Several models or optimizers
 *  have their names before the keys. A checkpoint of the same step is replaced.
 *  Call it between a step and the next backward pass; gradients are not saved. A backward pass outside of scale_loss and GradScaler is not seen.
 *  The checkpoint appears whole or not at all, whenever the process or the machine stops; on any failure the older ones stay as they are.
 *  Errors: StateError amid an iteration (open scope, scaled gradients or a skip that wait for a step, GradScaler without update()), saying what to
 *  do; ValueError for a negative step, names that cannot be keys, an optimizer or model whose session takes no part, and parameters of
 *  no model; IoError naming path and cause; Unsupported in a build without JSON. */
MZ_API std::string save_checkpoint(const std::string& directory, const Training& training,
                                   const SaveCheckpointOptions& options = {});

/** Puts a saved training back: the models, optimizers, sessions and the rest that `training` names go on as if they had never stopped, with
 *  identical bits. `path` is a step's directory, or one of steps: then the one that `latest` names
 *  is taken. Links are followed. Where it is missing or damaged, or `latest` names none, the newest
 *  good one before it is taken; the log and `passed_over` of the result say so. Build and
 *  initialise everything as it was before; gradients, scaled ones and skips that wait are dropped.
 *  Errors: ValueError that lists all that differs: names, shapes, types, optimizers, losses, data set, level (unless allowed: then the log
 *  says what was converted or dropped); FormatError and IoError naming file and reason for a damaged checkpoint, or where there is none;
 *  StateError inside an open scope; Unsupported in a build without JSON. Nothing has changed then. */
MZ_API LoadedCheckpoint load_checkpoint(const std::string& path, const Training& training,
                                        const LoadCheckpointOptions& options = {});

}  // namespace mezzo::amp
