#include "graph.h"

namespace mezzo::gpu::dnn {

namespace {

struct Notes {
  bool repeats = true, keeps_precision = true, tensor_cores = false;
  bool is_direct = false;  // engine 0
};

Notes notes_of(const Descriptor& config) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  config.get_into(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  Notes notes;
  notes.is_direct = engine.get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == 0;
  for (const auto note : engine.get_all<cudnnBackendNumericalNote_t>(
           CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT))
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: notes.tensor_cores = true; break;
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC: notes.repeats = false; break;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: notes.keeps_precision = false; break;
      default: break;
    }
  return notes;
}

bool keeps_to(const EngineLimits& limits, const Notes& notes) {
  return (notes.repeats || !limits.repeats) && notes.keeps_precision &&
         (!notes.tensor_cores || limits.tensor_cores);
}

std::optional<Plan> plan_of(const Descriptor& config, const Target& target,
                            const EngineLimits& limits) {
  Plan plan{Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)};
  if (target.handle) plan.engine.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
  if (target.properties) plan.engine.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
  plan.engine.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (!plan.engine.finalize()) return std::nullopt;
  plan.workspace = plan.engine.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  if (plan.workspace > limits.workspace) return std::nullopt;
  return plan;
}

void require(bool finalized) {
  check(finalized ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED, "cudnnBackendFinalize");
}

}  // namespace

Graph::Part Graph::add(const Array& array) {
  Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, array.type);
  d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, array.sizes);
  d.set(CUDNN_ATTR_TENSOR_STRIDES, array.strides);
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, array.name);
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, array.alignment);
  d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, array.place == Array::Place::engine);
  d.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, array.place == Array::Place::host);
  if (array.in_tiles) d.set(CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TENSOR_REORDERING_F16x16);
  require(d.finalize());
  parts_.push_back(std::move(d));
  return parts_.size() - 1;
}

Graph::Part Graph::add(Descriptor description) {
  supported_ = supported_ && description.finalize();
  parts_.push_back(std::move(description));
  return parts_.size() - 1;
}

void Graph::add_operation(Descriptor operation) {
  operations_.push_back(parts_[add(std::move(operation))].handle());
}

std::optional<Descriptor> Graph::descriptor(const Target& target) const {
  if (!supported_) return std::nullopt;
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (target.handle) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  graph.set_list(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
  if (!graph.finalize()) return std::nullopt;
  return graph;
}

std::optional<Plan> choose_engine(const Graph& graph, const Target& target,
                                  const EngineLimits& limits, int first) {
  const std::optional<Descriptor> operations = graph.descriptor(target);
  if (!operations) return std::nullopt;
  std::vector<Descriptor> configs;
  std::vector<Notes> notes;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    Descriptor choices(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    choices.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *operations);
    choices.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    if (target.properties) choices.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
    if (!choices.finalize()) continue;
    for (Descriptor& config :
         choices.get_list(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)) {
      const Notes its_notes = notes_of(config);
      if (!keeps_to(limits, its_notes)) continue;
      configs.push_back(std::move(config));
      notes.push_back(its_notes);
    }
  }
  int index = -1;
  for (const bool last : {false, true})
    for (std::size_t i = 0; i < configs.size(); ++i) {
      if ((limits.puts_off_direct && notes[i].is_direct) != last || ++index < first) continue;
      std::optional<Plan> found = plan_of(configs[i], target, limits);
      if (!found) continue;
      found->tensor_cores = notes[i].tensor_cores;
      found->index = index;
      found->last_resort = last;
      return found;
    }
  return std::nullopt;
}

}  // namespace mezzo::gpu::dnn
