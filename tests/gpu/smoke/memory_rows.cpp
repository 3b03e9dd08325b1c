// Rows: copies, conversions, events and streams.
#include "row.h"

#include <stdexcept>

namespace smoke {

namespace {

std::int64_t elements(const Maker& make) { return make.pick(4000, 1 << 18, 1 << 26); }

template <class F>
void add(std::vector<Row>& rows, const std::string& name, double passes, F f, DType dtype = f32) {
  const auto cases = [=](const Maker& make) {
    return forward_case({make.normal({elements(make)}, dtype)}, passes, f);
  };
  rows.push_back({name, cases, 0, Expected::same});
}

/** A copy of a matrix in another layout. */
template <class F>
void add_layout(std::vector<Row>& rows, const std::string& name, DType dtype, F f) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t n = make.pick(8, 64, 256);
    return forward_case({make.normal({n, 16, n / 2, n / 2}, dtype)}, 2, f);
  };
  rows.push_back({name, cases, 0, Expected::same});
}

/** Copies host memory to the device and back. The rate is that of the copy to the device. */
void add_transfer(std::vector<Row>& rows, bool pinned) {
  const auto cases = [=](const Maker& make) {
    Case c;
    const std::int64_t n = make.pick(4000, 1 << 18, 1 << 24);
    c.operands = {make.normal({n})};
    c.bytes = 2 * size_of(c.operands[0]);
    c.prepare = [=](const Tensors& x) -> Step {
      const Device device = x[0].device();
      Tensor source = x[0].to(cpu).clone();
      if (pinned && device != cpu) source = source.pin_memory();
      return [=] {
        const Tensor there = source.to(device, {.non_blocking = pinned});
        const Tensor back = (there + 1).to(cpu, {.non_blocking = pinned});
        if (device != cpu) gpu::synchronize(device);
        return Tensors{back};
      };
    };
    return c;
  };
  rows.push_back({pinned ? "host to device and back, pinned" : "host to device and back", cases, 0,
                  Expected::same});
}

/** Runs work in a second stream that waits for the first, which then waits for the second. */
Tensor through_streams(const Tensor& x) {
  const Device device = x.device();
  if (device == cpu) return x * 2 + 1;
  const Tensor doubled = x * 2;
  const gpu::Stream side(device);
  side.wait_stream(gpu::Stream::current(device));
  Tensor y;
  {
    const gpu::StreamScope scope(side);
    y = doubled + 1;
  }
  gpu::record_stream(doubled, side);
  gpu::Stream::current(device).wait_stream(side);
  gpu::record_stream(y, gpu::Stream::current(device));
  return y;
}

/** Checks that an event after the work is reached and the elapsed time is not negative. */
Tensor between_events(const Tensor& x) {
  const Device device = x.device();
  if (device == cpu) return x + 1;
  gpu::Event begin({.enable_timing = true}), end({.enable_timing = true});
  begin.record(gpu::Stream::current(device));
  const Tensor y = x + 1;
  end.record(gpu::Stream::current(device));
  end.synchronize();
  if (!end.query()) throw std::runtime_error("an event that was waited for counts as not reached");
  if (!(begin.elapsed_time(end) >= 0))
    throw std::runtime_error("the time between two events is negative");
  return y;
}

}  // namespace

void add_memory_rows(std::vector<Row>& rows) {
  add(rows, "copy f32", 2, [](const Tensors& x) { return x[0].clone(); });
  add(rows, "fill f32", 1, [](const Tensors& x) { return full_like(x[0], 2.5); });
  for (const DType dtype : {f16, bf16, i32}) {
    const double size = static_cast<double>(item_size(dtype)) / 4;  // in f32
    add(rows, "cast f32 to " + std::string(name(dtype)), 1 + size,
        [=](const Tensors& x) { return x[0].to(dtype); });
    add(
        rows, "cast " + std::string(name(dtype)) + " to f32", 1 + 1 / size,
        [](const Tensors& x) { return x[0].to(f32); }, dtype);
  }
  for (const DType dtype : {f32, bf16, u8}) {
    const std::string what = " " + std::string(name(dtype));
    add_layout(rows, "transpose" + what, dtype,
               [](const Tensors& x) { return x[0].flatten(1).t().contiguous(); });
    add_layout(rows, "NCHW to NHWC" + what, dtype,
               [](const Tensors& x) { return x[0].contiguous(MemoryFormat::channels_last); });
  }
  add_transfer(rows, false);
  add_transfer(rows, true);
  add(rows, "events", 2, [](const Tensors& x) { return between_events(x[0]); });
  add(rows, "streams", 4, [](const Tensors& x) { return through_streams(x[0]); });
}

}  // namespace smoke
