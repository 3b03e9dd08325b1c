#include "registry.h"

#include <algorithm>
#include <vector>

#include "elementwise.h"
#include "elementwise/loss_terms.h"
#include "elementwise_row.h"
#include "ops/addmm.h"
#include "ops/arg_reduce.h"
#include "ops/attention.h"
#include "ops/batch_norm.h"
#include "ops/contraction.h"
#include "ops/conv.h"
#include "ops/copy.h"
#include "ops/cross.h"
#include "ops/cross_entropy.h"
#include "ops/ctc_loss.h"
#include "ops/distance.h"
#include "ops/embedding.h"
#include "ops/gather.h"
#include "ops/glu.h"
#include "ops/grid_sample.h"
#include "ops/group_norm.h"
#include "ops/index.h"
#include "ops/interpolate.h"
#include "ops/join.h"
#include "ops/layer_norm.h"
#include "ops/linear_chain.h"
#include "ops/local_response_norm.h"
#include "ops/loss.h"
#include "ops/margin_loss.h"
#include "ops/matmul.h"
#include "ops/overwrite.h"
#include "ops/pair_distance.h"
#include "ops/place.h"
#include "ops/pool.h"
#include "ops/prelu.h"
#include "ops/random.h"
#include "ops/rearrange.h"
#include "ops/recurrent.h"
#include "ops/reduce.h"
#include "ops/renorm.h"
#include "ops/running_extreme.h"
#include "ops/scan.h"
#include "ops/softmax.h"
#include "ops/sort.h"
#include "ops/statistics.h"
#include "ops/triangle.h"
#include "ops/unfold.h"
#include "ops/unpool.h"
#include "ops/view.h"

namespace mezzo {

namespace {

template <class... Ops> void append_rows(std::vector<OpRow*>& rows, type_list<Ops...>) {
  (rows.push_back(&row<Ops>), ...);
}

std::vector<OpRow*> collect() {
  std::vector<OpRow*> rows;
  append_rows(rows, op::ActivationOps{});
  append_rows(rows, op::AddmmOps{});
  append_rows(rows, op::ArgReduceOps{});
  append_rows(rows, op::ArithmeticOps{});
  append_rows(rows, op::AttentionOps{});
  append_rows(rows, op::BatchNormOps{});
  append_rows(rows, op::CompareOps{});
  append_rows(rows, op::ContractionOps{});
  append_rows(rows, op::ConvOps{});
  append_rows(rows, op::CopyOps{});
  append_rows(rows, op::CrossEntropyOps{});
  append_rows(rows, op::CrossOps{});
  append_rows(rows, op::CtcLossOps{});
  append_rows(rows, op::DistanceOps{});
  append_rows(rows, op::EmbeddingOps{});
  append_rows(rows, op::FunctionOps{});
  append_rows(rows, op::GatherOps{});
  append_rows(rows, op::GluOps{});
  append_rows(rows, op::GridSampleOps{});
  append_rows(rows, op::GroupNormOps{});
  append_rows(rows, op::IndexOps{});
  append_rows(rows, op::InterpolateOps{});
  append_rows(rows, op::JoinOps{});
  append_rows(rows, op::LayerNormOps{});
  append_rows(rows, op::LinearChainOps{});
  append_rows(rows, op::LocalResponseNormOps{});
  append_rows(rows, op::LossOps{});
  append_rows(rows, op::LossTermOps{});
  append_rows(rows, op::MarginLossOps{});
  append_rows(rows, op::MatmulOps{});
  append_rows(rows, op::OverwriteOps{});
  append_rows(rows, op::PairDistanceOps{});
  append_rows(rows, op::PlaceOps{});
  append_rows(rows, op::PoolOps{});
  append_rows(rows, op::PowerOps{});
  append_rows(rows, op::PreluOps{});
  append_rows(rows, op::RandomOps{});
  append_rows(rows, op::RearrangeOps{});
  append_rows(rows, op::RecurrentOps{});
  append_rows(rows, op::ReduceOps{});
  append_rows(rows, op::RenormOps{});
  append_rows(rows, op::RoundingOps{});
  append_rows(rows, op::RunningExtremeOps{});
  append_rows(rows, op::ScanOps{});
  append_rows(rows, op::SelectionOps{});
  append_rows(rows, op::SoftmaxOps{});
  append_rows(rows, op::SortOps{});
  append_rows(rows, op::StatisticsOps{});
  append_rows(rows, op::TriangleOps{});
  append_rows(rows, op::UnfoldOps{});
  append_rows(rows, op::UnpoolOps{});
  append_rows(rows, op::ViewOps{});
  std::sort(rows.begin(), rows.end(),
            [](const OpRow* a, const OpRow* b) { return a->traits.name < b->traits.name; });
  return rows;
}

}  // namespace

std::span<OpRow* const> all_ops() {
  static const std::vector<OpRow*> rows = collect();
  return rows;
}

OpRow* find_op(std::string_view name) {
  for (OpRow* row : all_ops())
    if (row->traits.name == name) return row;
  return nullptr;
}

bool takes(const OpRow& row, DType dtype) {
  const OpTraits& traits = row.traits;
  if (is_floating(dtype)) return traits.integers != Integers::only;
  // Structured ops are floating only unless they say more; elementwise ones compute in f32 what they do not keep.
  const bool kept = traits.integers == Integers::keep || traits.integers == Integers::only;
  const bool integers = kept || (row.elementwise && traits.integers == Integers::to_float);
  if (dtype != DType::boolean) return integers;
  return integers && (traits.booleans || traits.integers != Integers::keep);
}

}  // namespace mezzo
