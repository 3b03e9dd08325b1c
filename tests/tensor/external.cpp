// from_blob and DLPack: shared memory, lifetimes, refused sources.
#include <mezzo.h>

#include <limits>

#include "../../tensor/memory/dlpack_layout.h"
#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

TEST_CASE("from_blob shares memory and releases it once", "[external]") {
  std::vector<float> memory{1, 2, 3, 4, 5, 6};
  int released = 0;
  const auto before = memory_stats().total.current;
  {
    Tensor row;
    {
      const Tensor x = from_blob(memory.data(), {2, 3}, {.release = [&] { ++released; }});
      CHECK(memory_stats().total.current == before);
      CHECK(x.raw_data() == memory.data());
      memory[1] = 20;
      CHECK(x[{0, 1}].item() == 20);
      x[1] = 0.5;
      row = x[0];
    }
    CHECK(released == 0);
    CHECK(row.sum().item() == 24);
  }
  CHECK(released == 1);
  CHECK(memory == std::vector<float>{1, 20, 3, 0.5F, 0.5F, 0.5F});
}

TEST_CASE("from_blob takes strides, dtypes and gradients", "[external]") {
  std::vector<std::int64_t> memory{0, 1, 2, 3, 4, 5};
  const Tensor columns = from_blob(memory.data(), {3, 2}, {.dtype = i64, .strides = Strides{1, 3}});
  CHECK(columns.to_vector<double>() == std::vector<double>{0, 3, 1, 4, 2, 5});
  CHECK(from_blob(nullptr, {0, 4}).numel() == 0);
  std::vector<double> weights{1, 2};
  const Tensor w = from_blob(weights.data(), {2}, {.dtype = f64}).requires_grad_();
  (w * w).sum().backward();
  CHECK(w.grad().to_vector<double>() == std::vector<double>{2, 4});
}

TEST_CASE("from_blob refuses memory that does not fit", "[external]") {
  alignas(8) char bytes[64] = {};
  int released = 0;
  const auto release = [&] { ++released; };
  CHECK_THROWS_WITH_AS_TEXT(from_blob(nullptr, {1}, {.release = release}), ValueError, "null");
  CHECK_THROWS_WITH_AS_TEXT(from_blob(bytes + 1, {1}, {.release = release}), ValueError,
                            "a multiple of 4");
  CHECK_THROWS_WITH_AS_TEXT(from_blob(bytes, {-1}, {.release = release}), ValueError, "negative");
  CHECK_THROWS_WITH_AS_TEXT(from_blob(bytes, {2}, {.strides = Strides{-1}, .release = release}),
                            ValueError, "negative");
  CHECK_THROWS_WITH_AS_TEXT(from_blob(bytes, {2}, {.strides = Strides{1, 1}, .release = release}),
                            ShapeError, "a stride for each size");
  CHECK_THROWS_AS(from_blob(bytes, {std::int64_t{1} << 62, 8}, {.release = release}), Error);
  CHECK_THROWS_AS(from_blob(bytes, {4}, {.strides = Strides{std::int64_t{1} << 62}}), ValueError);
  CHECK(released == 0);
}

TEST_CASE("DLPack shows a tensor's memory and keeps it alive", "[external]") {
  DLManagedTensor* shown = nullptr;
  {
    const Tensor x = arange(12.0).reshape({3, 4}).to(f64);
    shown = to_dlpack(x[{Slice(), Slice(1, None, 2)}]);
    CHECK(shown->dl_tensor.data == x.data<double>() + 1);
  }
  const dlpack::TensorLayout& layout = shown->dl_tensor;
  CHECK(layout.ndim == 2);
  CHECK(layout.shape[1] == 2);
  CHECK(layout.strides[0] == 4);
  CHECK(layout.strides[1] == 2);
  CHECK(layout.dtype == dlpack::DataType{dlpack::TypeCode::floating, 64, 1});
  CHECK(static_cast<double*>(layout.data)[layout.strides[0] + layout.strides[1]] == 7);
  const Tensor back = from_dlpack(shown);  // now owns it
  CHECK(back.to_vector<double>() == std::vector<double>{1, 3, 5, 7, 9, 11});
  CHECK(back.dtype() == f64);
}

TEST_CASE("every dtype passes through DLPack", "[external]") {
  for (const DType dtype : {boolean, u8, i32, i64, f16, bf16, f32, f64}) {
    INFO(name(dtype));
    const Tensor x = tensor({0, 1, 1}, {.dtype = dtype});
    const Tensor y = from_dlpack(to_dlpack(x));
    CHECK(y.dtype() == dtype);
    CHECK(y.raw_data() == x.raw_data());
    CHECK(y.to_vector<double>() == std::vector<double>{0, 1, 1});
  }
  CHECK(from_dlpack(to_dlpack(tensor(3.0))).item() == 3);
}

TEST_CASE("DLPack strides that no element needs may be any number", "[external]") {
  std::int64_t memory[3]{1, 2, 3};
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max(), kLeast = -kMost - 1;
  for (const std::int64_t any :
       {std::int64_t{-1}, std::int64_t{0}, std::int64_t{7}, kMost, kLeast}) {
    std::int64_t shape[]{1, 3, 1}, strides[]{any, 1, any};
    DLManagedTensor source{.dl_tensor = {.data = memory,
                                         .device = {dlpack::kCpu, 0},
                                         .ndim = 3,
                                         .dtype = {dlpack::TypeCode::integer, 64, 1},
                                         .shape = shape,
                                         .strides = strides,
                                         .byte_offset = 0},
                           .manager_ctx = nullptr,
                           .deleter = nullptr};
    const Tensor x = from_dlpack(&source);
    CHECK(x.to_vector<int>() == std::vector<int>{1, 2, 3});
    CHECK(x.is_contiguous());
    CHECK(x.strides() == Strides{3, 1, 1});
    CHECK(sum(x).item<int>() == 6);
    shape[1] = 0;
    strides[1] = any;
    CHECK(from_dlpack(&source).numel() == 0);
    shape[1] = 3;
    strides[1] = -1;
    CHECK_THROWS_WITH_AS_TEXT(from_dlpack(&source), ValueError, "negative");
  }
}

TEST_CASE("DLPack sources that cannot be shown are refused and stay with the caller",
          "[external]") {
  static int deleted = 0;
  deleted = 0;
  std::int64_t shape[1]{2};
  alignas(8) std::int64_t memory[2]{};
  DLManagedTensor source{.dl_tensor = {.data = memory,
                                       .device = {dlpack::kCpu, 0},
                                       .ndim = 1,
                                       .dtype = {dlpack::TypeCode::integer, 64, 1},
                                       .shape = shape,
                                       .strides = nullptr,
                                       .byte_offset = 0},
                         .manager_ctx = nullptr,
                         .deleter = [](DLManagedTensor*) { ++deleted; }};
  source.dl_tensor.device.type = 2;
  CHECK_THROWS_WITH_AS_TEXT(from_dlpack(&source), DeviceError, "device type 2");
  source.dl_tensor.device.type = dlpack::kCpu;
  source.dl_tensor.dtype.bits = 16;
  CHECK_THROWS_WITH_AS_TEXT(from_dlpack(&source), DtypeError, "16 bits");
  source.dl_tensor.dtype = {dlpack::TypeCode::floating, 32, 4};
  CHECK_THROWS_WITH_AS_TEXT(from_dlpack(&source), DtypeError, "4 lanes");
  source.dl_tensor.dtype = {dlpack::TypeCode::integer, 64, 1};
  source.dl_tensor.ndim = -1;
  CHECK_THROWS_WITH_AS_TEXT(from_dlpack(&source), ValueError, "negative");
  source.dl_tensor.ndim = 1;
  source.dl_tensor.byte_offset = 4;
  CHECK_THROWS_WITH_AS_TEXT(from_dlpack(&source), ValueError, "alignment");
  CHECK_THROWS_WITH_AS_TEXT(from_dlpack(nullptr), ValueError, "null");
  CHECK(deleted == 0);
  source.dl_tensor.byte_offset = 8;
  shape[0] = 1;
  memory[1] = 42;
  CHECK(from_dlpack(&source).item() == 42);
  CHECK(deleted == 1);
  CHECK_THROWS_WITH_AS_TEXT(to_dlpack(zeros({2}).requires_grad_()), StateError, "detach");
  CHECK_THROWS_AS(to_dlpack(Tensor()), ValueError);
}
