#include "registry.h"

#include <algorithm>
#include <vector>

#include "../elementwise/loss_terms.h"
#include "../ops/addmm.h"
#include "../ops/arg_reduce.h"
#include "../ops/attention.h"
#include "../ops/batch_norm.h"
#include "../ops/classes.h"
#include "../ops/contraction.h"
#include "../ops/conv.h"
#include "../ops/copy.h"
#include "../ops/cross.h"
#include "../ops/cross_entropy.h"
#include "../ops/ctc_loss.h"
#include "../ops/distance.h"
#include "../ops/embedding.h"
#include "../ops/exponents.h"
#include "../ops/gather.h"
#include "../ops/glu.h"
#include "../ops/grid_sample.h"
#include "../ops/group_norm.h"
#include "../ops/index.h"
#include "../ops/interpolate.h"
#include "../ops/join.h"
#include "../ops/layer_norm.h"
#include "../ops/linalg.h"
#include "../ops/linear_chain.h"
#include "../ops/local_response_norm.h"
#include "../ops/loss.h"
#include "../ops/margin_loss.h"
#include "../ops/matmul.h"
#include "../ops/overwrite.h"
#include "../ops/pair_distance.h"
#include "../ops/place.h"
#include "../ops/pool.h"
#include "../ops/prelu.h"
#include "../ops/random.h"
#include "../ops/rearrange.h"
#include "../ops/recurrent.h"
#include "../ops/reduce.h"
#include "../ops/renorm.h"
#include "../ops/running_extreme.h"
#include "../ops/scan.h"
#include "../ops/softmax.h"
#include "../ops/sort.h"
#include "../ops/statistics.h"
#include "../ops/sync_batch_norm.h"
#include "../ops/triangle.h"
#include "../ops/unfold.h"
#include "../ops/unpool.h"
#include "../ops/view.h"
#include "elementwise.h"
#include "elementwise_info.h"

namespace mezzo {

namespace {

template <class... Ops> void append_ops(std::vector<OpInfo*>& ops, type_list<Ops...>) {
  (ops.push_back(&op_info<Ops>), ...);
}

template <class... Ops> bool contains(type_list<Ops...>, const OpInfo& info) {
  return ((&info == &op_info<Ops>) || ...);
}

std::vector<OpInfo*> collect() {
  std::vector<OpInfo*> ops;
  append_ops(ops, op::ActivationOps{});
  append_ops(ops, op::AddmmOps{});
  append_ops(ops, op::ArgReduceOps{});
  append_ops(ops, op::ArithmeticOps{});
  append_ops(ops, op::AttentionOps{});
  append_ops(ops, op::BatchNormOps{});
  append_ops(ops, op::ClassesOps{});
  append_ops(ops, op::CompareOps{});
  append_ops(ops, op::ContractionOps{});
  append_ops(ops, op::ConvOps{});
  append_ops(ops, op::CopyOps{});
  append_ops(ops, op::CrossEntropyOps{});
  append_ops(ops, op::CrossOps{});
  append_ops(ops, op::CtcLossOps{});
  append_ops(ops, op::DistanceOps{});
  append_ops(ops, op::EmbeddingOps{});
  append_ops(ops, op::ExponentOps{});
  append_ops(ops, op::FunctionOps{});
  append_ops(ops, op::GatherOps{});
  append_ops(ops, op::GluOps{});
  append_ops(ops, op::GridSampleOps{});
  append_ops(ops, op::GroupNormOps{});
  append_ops(ops, op::IndexOps{});
  append_ops(ops, op::InterpolateOps{});
  append_ops(ops, op::JoinOps{});
  append_ops(ops, op::LayerNormOps{});
  append_ops(ops, op::LinalgOps{});
  append_ops(ops, op::LinearChainOps{});
  append_ops(ops, op::LocalResponseNormOps{});
  append_ops(ops, op::LossOps{});
  append_ops(ops, op::LossTermOps{});
  append_ops(ops, op::MarginLossOps{});
  append_ops(ops, op::MatmulOps{});
  append_ops(ops, op::OverwriteOps{});
  append_ops(ops, op::PairDistanceOps{});
  append_ops(ops, op::PlaceOps{});
  append_ops(ops, op::PoolOps{});
  append_ops(ops, op::PowerOps{});
  append_ops(ops, op::PreluOps{});
  append_ops(ops, op::RandomOps{});
  append_ops(ops, op::RearrangeOps{});
  append_ops(ops, op::RecurrentOps{});
  append_ops(ops, op::ReduceOps{});
  append_ops(ops, op::RenormOps{});
  append_ops(ops, op::RoundingOps{});
  append_ops(ops, op::RunningExtremeOps{});
  append_ops(ops, op::ScanOps{});
  append_ops(ops, op::SelectionOps{});
  append_ops(ops, op::SoftmaxOps{});
  append_ops(ops, op::SortOps{});
  append_ops(ops, op::StatisticsOps{});
  append_ops(ops, op::SyncBatchNormOps{});
  append_ops(ops, op::TriangleOps{});
  append_ops(ops, op::UnfoldOps{});
  append_ops(ops, op::UnpoolOps{});
  append_ops(ops, op::ViewOps{});
  std::sort(ops.begin(), ops.end(),
            [](const OpInfo* a, const OpInfo* b) { return a->traits.name < b->traits.name; });
  return ops;
}

}  // namespace

std::span<OpInfo* const> all_ops() {
  static const std::vector<OpInfo*> ops = collect();
  return ops;
}

OpInfo* find_op(std::string_view name) {
  for (OpInfo* info : all_ops())
    if (info->traits.name == name) return info;
  return nullptr;
}

bool takes(const OpInfo& info, DType dtype) {
  const OpTraits& traits = info.traits;
  if (is_low(dtype) && contains(op::LinalgOps{}, info)) return false;
  if (is_floating(dtype)) return traits.integers != Integers::only;
  // Structured ops accept floating dtypes only, unless they state more. Elementwise ops compute in
  // f32 where they do not keep integers.
  const bool kept = traits.integers == Integers::keep || traits.integers == Integers::only;
  const bool integers = kept || (info.elementwise && traits.integers == Integers::to_float);
  if (dtype != DType::boolean) return integers;
  return integers && (traits.booleans || traits.integers != Integers::keep);
}

}  // namespace mezzo
