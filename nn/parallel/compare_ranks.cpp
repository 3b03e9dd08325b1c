#include "compare_ranks.h"

#include <cmath>

#include "../../autograd/gradient_receiver.h"
#include "../../tensor/text/text.h"
#include "broadcast_state.h"

namespace mezzo::nn {

namespace {

constexpr std::string_view kOp = "DistributedDataParallel";

/** Returns name, dtype, shape and order in memory: elements are sent in the order of memory. */
std::string text_of(const NamedTensor& entry) {
  const Tensor& x = entry.tensor;
  return str(entry.name, " ", x.dtype(), str(x.shape()),
             x.is_contiguous() ? "" : str(", strides ", x.strides()));
}

std::string text_of(const DistributedDataParallelOptions& o) {
  constexpr std::string_view kReduceDtypes[] = {"automatic", "same", "f32"};
  constexpr std::string_view kOrders[] = {"fast", "ranks"};
  constexpr std::string_view kBroadcasts[] = {"at_construction", "each_forward"};
  constexpr std::string_view kUnused[] = {"allow", "refuse"};
  const auto name = [](const auto& names, auto value) {
    return names[static_cast<std::size_t>(value)];
  };
  const auto number = [](const std::optional<double>& value) {
    return value ? str(*value) : std::string("none");
  };
  return str("bucket_mib = ", number(o.bucket_mib), "\nfirst_bucket_mib = ", o.first_bucket_mib,
             "\noverlap = ", o.overlap, "\nreduce_dtype = ", name(kReduceDtypes, o.reduce_dtype),
             "\naverage = ", o.average, "\npredivide_factor = ", number(o.predivide_factor),
             "\norder = ", o.order ? name(kOrders, *o.order) : "none",
             "\nbroadcast_buffers = ", name(kBroadcasts, o.broadcast_buffers),
             "\nunused = ", name(kUnused, o.unused), "\nstatic_graph = ", o.static_graph, "\n");
}

}  // namespace

void check(const DistributedDataParallelOptions& options) {
  const auto require_positive = [](std::string_view name, double value) {
    if (!std::isfinite(value) || value <= 0)
      fail<ValueError>(kOp, {.what = str(name, " is out of range"),
                             .got = str(value),
                             .expected = "a finite number > 0"});
  };
  require_positive("bucket_mib", options.bucket_mib.value_or(1));
  require_positive("first_bucket_mib", options.first_bucket_mib);
  require_positive("predivide_factor", options.predivide_factor.value_or(1));
  if (options.triggers.empty()) return;
  if (options.bucket_mib)
    fail<ValueError>(kOp, {.what = "triggers and bucket_mib are both given",
                           .hint = "triggers decide the buckets alone"});
  if (!options.overlap)
    fail<ValueError>(kOp, {.what = "triggers need overlap", .got = "overlap = false"});
}

void compare_ranks(const Module& model, const comm::Communicator& ranks,
                   const DistributedDataParallelOptions& options) {
  std::string text;
  if (const AttachedSession* session = model.attached_to())
    text += session->description();
  else
    text += "no session of mixed precision\n";
  for (const NamedTensor& entry : model.named_parameters())
    text += str(text_of(entry), entry.tensor.requires_grad() ? "" : ", frozen", "\n");
  for (const NamedTensor& entry : model.named_buffers()) text += str(text_of(entry), ", buffer\n");
  text += text_of(options);
  require_same_lines(ranks, kOp, std::move(text));
}

comm::Communicator training_ranks(std::string_view op,
                                  std::span<const optim::NamedTensor> parameters) {
  comm::Communicator ranks;
  for (const optim::NamedTensor& parameter : parameters)
    if (const GradientReceiver* const receiver = gradient_receiver(parameter.tensor)) {
      if (ranks.size() > 1 && receiver->ranks().size() != ranks.size())
        fail<ValueError>(op, {.what = "the models are trained by different ranks",
                              .got = str(ranks.size(), " and ", receiver->ranks().size(), " ranks"),
                              .hint = "save each model in a checkpoint of its own"});
      ranks = receiver->ranks();
    }
  return ranks;
}

}  // namespace mezzo::nn
