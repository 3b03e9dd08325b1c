#include "collate.h"

#include <cstring>
#include <numeric>

#include "../../tensor/text/text.h"
#include "plain_work.h"

namespace mezzo::data {

namespace {

std::string form(const Tensor& t) { return t.defined() ? str(t) : "none"; }

/** Requires that x and y of a sample are like those of the first. */
void require_like(const Tensor& got, const Tensor& first, const char* part,
                  const std::string& subject) {
  if (got.defined() && !(got.device() == cpu))
    fail<DeviceError>(subject, {.what = str(part, " of the sample is not on the CPU"),
                                .got = str(got),
                                .hint = "BatchOptions::device moves batches to a device"});
  const Complaint differs{.what = str(part, " differs from that of the first sample of its batch"),
                          .got = form(got),
                          .expected = form(first),
                          .hint = "crop or pad samples to one shape, or give a collate function"};
  if (got.defined() != first.defined()) fail<ValueError>(subject, differs);
  if (!got.defined()) return;
  if (got.dtype() != first.dtype()) fail<DtypeError>(subject, differs);
  if (got.shape() != first.shape()) fail<ShapeError>(subject, differs);
}

Tensor stack_of(const std::vector<Sample>& samples, Tensor Sample::* part, bool pinned) {
  const Tensor& first = samples[0].*part;
  if (!first.defined()) return {};
  Shape shape{static_cast<std::int64_t>(samples.size())};
  for (const std::int64_t size : first.shape()) shape.push_back(size);
  const Tensor out = empty_tensor(shape, first.dtype(), cpu, pinned);
  const std::size_t bytes = static_cast<std::size_t>(first.numel()) * item_size(first.dtype());
  char* to = static_cast<char*>(out.raw_data());
  for (std::size_t i = 0; i < samples.size() && bytes > 0; ++i)
    std::memcpy(to + i * bytes, (samples[i].*part).contiguous().raw_data(), bytes);
  return out;
}

}  // namespace

Batch detail::stacked(const std::vector<Sample>& samples, std::string_view op,
                      std::span<const std::int64_t> names, bool pinned) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::string subject = str(op, "(sample ", names[i], ")");
    if (!samples[i].x.defined())
      fail<ValueError>(subject, {.what = "x of the sample is an undefined tensor"});
    require_like(samples[i].x, samples[0].x, "x", subject);
    require_like(samples[i].y, samples[0].y, "y", subject);
  }
  return {stack_of(samples, &Sample::x, pinned), stack_of(samples, &Sample::y, pinned)};
}

Batch collate(const std::vector<Sample>& samples) {
  if (samples.empty())
    fail<ValueError>("collate", {.what = "no samples", .expected = "at least one"});
  const PlainWork plain;
  std::vector<std::int64_t> names(samples.size());
  std::iota(names.begin(), names.end(), std::int64_t{0});
  return detail::stacked(samples, "collate", names, false);
}

}  // namespace mezzo::data
