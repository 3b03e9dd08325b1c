// Operands of the smoke test's lines, which several rows share.
#pragma once

#include "../row.h"

namespace rows {

using mezzo::DType, mezzo::MemoryFormat;

inline constexpr auto kSame = smoke::Expected::same, kClose = smoke::Expected::close;

inline const std::vector<DType> kShortFloats{mezzo::f32, mezzo::f16, mezzo::bf16};

/** A line on `count` operands with the same number of elements. */
inline Smoke smoke_map(const std::string& name, int count, std::vector<DType> dtypes) {
  const auto operands = [=](const Maker& make, DType dtype) {
    Tensors x;
    for (int i = 0; i < count; ++i)
      x.push_back(make.normal({make.pick(3000, 1 << 18, 1 << 26)}, dtype));
    return x;
  };
  return {name, std::move(dtypes), operands, count + 1.0};
}

/** A line on a matrix whose rows have 70 to 4096 elements. */
inline Smoke smoke_rows(const std::string& name, std::vector<DType> dtypes,
                        smoke::Expected expected) {
  const auto operands = [](const Maker& make, DType dtype) {
    return Tensors{make.normal({make.pick(6, 50, 4096), make.pick(70, 1000, 4096)}, dtype)};
  };
  return {name, std::move(dtypes), operands, 2, 1, expected};
}

/** A line of a reduction of a matrix of positive numbers, so that sums do not cancel and have a
 *  large element to compare with. */
inline Smoke smoke_reduction(const std::string& name, std::vector<DType> dtypes,
                             smoke::Expected expected = smoke::Expected::close) {
  const auto operands = [](const Maker& make, DType dtype) {
    const Shape shape{make.pick(30, 600, 16384), make.pick(50, 500, 4096)};
    return Tensors{square(make.normal(shape, dtype)) * 0.01};
  };
  return {name, std::move(dtypes), operands, 1, 1, expected};
}

/** A line on a matrix x[rows, columns] and indices of its rows, `count` operands in all; the third
 *  is x again. */
inline Smoke smoke_indexed(const std::string& name, smoke::Expected expected, std::size_t count = 2,
                           bool one_per_row = false) {
  const auto operands = [=](const Maker& make, DType dtype) {
    const std::int64_t n = make.pick(40, 500, 8192), columns = make.pick(24, 100, 2048);
    const Tensor x = make.normal({n, columns}, dtype);
    Tensors all{x, make.indices(n, one_per_row ? Shape{n} : Shape{n, columns}), x};
    all.resize(count);
    return all;
  };
  return {name, {mezzo::f32}, operands, 2, 1, expected};
}

inline Smoke smoke_embedding(bool backward) {
  const auto operands = [](const Maker& make, DType dtype) {
    const std::int64_t entries = make.pick(30, 1000, 50304);
    return Tensors{make.indices(entries, {make.pick(50, 2000, 16384)}),
                   make.normal({entries, make.pick(16, 64, 768)}, dtype)};
  };
  return {.name = backward ? "embedding % backward" : "embedding % forward",
          .dtypes = {mezzo::f32, mezzo::bf16},
          .operands = operands,
          .backward = backward,
          .bytes = [](const Tensors& x) {
            return 2 * static_cast<double>(x[0].numel()) * smoke::size_of(x[1].select(0, 0));
          }};
}

/** Lines on rows of a matrix, with `vectors` weights and biases; of the gradients where
 *  `backward`. */
inline Smoke smoke_normalized(const std::string& op, int vectors, bool backward) {
  const auto operands = [=](const Maker& make, DType dtype) {
    const std::int64_t columns = make.pick(40, 1000, 4096);
    Tensors x{make.normal({make.pick(6, 300, 16384), columns}, dtype)};
    for (int i = 0; i < vectors; ++i) x.push_back(make.normal({columns}, dtype));
    return x;
  };
  return {.name = op + (backward ? " % backward" : " % forward"),
          .dtypes = kShortFloats,
          .operands = operands,
          .passes = backward ? 3.0 : 2.0,
          .factor = backward ? 2.0 : 1.0,
          .backward = backward};
}

/** Lines on images. */
inline Smoke smoke_images(const std::string& op, std::vector<DType> dtypes, MemoryFormat format,
                          bool backward) {
  const auto operands = [=](const Maker& make, DType dtype) {
    const std::int64_t pixels = make.pick(8, 28, 112);
    return Tensors{make.normal({make.pick(1, 4, 64), make.pick(3, 16, 64), pixels, pixels}, dtype)};
  };
  return {.name = op + (format == MemoryFormat::contiguous ? " % NCHW" : " % NHWC") +
                  (backward ? " backward" : " forward"),
          .dtypes = std::move(dtypes),
          .operands = operands,
          .passes = backward ? 2 : 1.5,
          .factor = 2,
          .backward = backward,
          .format = format};
}

/** Lines on images with a weight and a bias for each channel. */
inline Smoke smoke_channels(const std::string& op, MemoryFormat format, bool backward) {
  const auto operands = [=](const Maker& make, DType dtype) {
    const std::int64_t channels = make.pick(8, 32, 128), pixels = make.pick(4, 14, 56);
    return Tensors{make.normal({make.pick(3, 8, 128), channels, pixels, pixels}, dtype),
                   make.normal({channels}), make.normal({channels})};
  };
  return {.name = op + (format == MemoryFormat::contiguous ? " % NCHW" : " % NHWC") +
                  (backward ? " backward" : " forward"),
          .dtypes = kShortFloats,
          .operands = operands,
          .passes = backward ? 3.0 : 2.0,
          .factor = backward ? 4.0 : 2.0,
          .backward = backward,
          .format = format};
}

}  // namespace rows
