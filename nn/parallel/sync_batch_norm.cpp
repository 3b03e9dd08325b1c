#include "sync_batch_norm.h"

#include "../../tensor/comm/world.h"
#include "../../tensor/text/text.h"
#include "../norm.h"

namespace mezzo::nn {

namespace {

constexpr const char* kConvert = "convert_sync_batch_norm";

bool is_batch_norm(const Module& module) {
  return module.is<BatchNorm1d>() || module.is<BatchNorm2d>() || module.is<BatchNorm3d>();
}

void check_not_attached(const Module& model) {
  for (const NamedModule& entry : model.named_modules())
    if (entry.module.attached_to())
      fail<StateError>(kConvert, {.what = "mixed precision is attached to the model",
                                  .got = str("\"", entry.name, "\" ", entry.module.kind()),
                                  .hint = "convert before amp::initialize, or close the session"});
}

/** Returns the ranks that share statistics with this one. All ranks call it. */
comm::Communicator group_of(const SyncBatchNormOptions& options) {
  const comm::Communicator all = options.comm ? *options.comm : comm::init().all();
  const int ranks = all.size(), size = options.group_size == 0 ? ranks : options.group_size;
  if (size < 1 || ranks % size != 0)
    fail<ValueError>(kConvert, {.what = "group_size does not divide the number of ranks",
                                .got = str("group_size ", size, " of ", ranks, " ranks"),
                                .expected = "0 for all ranks, or a divisor"});
  return size == ranks ? all : all.split(all.rank() / size);
}

}  // namespace

int convert_sync_batch_norm(const Module& model, const SyncBatchNormOptions& options) {
  check_not_attached(model);
  const comm::Communicator group = group_of(options);
  const auto shared =
      group.size() > 1 ? std::make_shared<const comm::Communicator>(group) : nullptr;
  int count = 0;
  for (const Module& module : model.modules()) {
    if (!is_batch_norm(module)) continue;
    module.state().statistics_group = shared;
    ++count;
  }
  return count;
}

}  // namespace mezzo::nn
