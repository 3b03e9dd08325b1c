#include "recurrent.h"

#include <cstdlib>
#include <mutex>
#include <string_view>

#include "../../tensor/core/numerics.h"
#include "../runtime/device.h"
#include "library.h"

namespace mezzo::gpu::dnn {

namespace {

using op::CellKind;
using Parameter = op::RecurrentLayerBackward::Parameter;

/** A descriptor of the library's non-graph interface; destroyed with its scope. */
template <class Handle, auto Library::* create, auto Library::* destroy> class Described {
 public:
  Described() { check((Library::get().*create)(&handle_), "cudnnCreateDescriptor"); }
  ~Described() { (Library::get().*destroy)(handle_); }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
  operator Handle() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using Layer = Described<cudnnRNNDescriptor_t, &Library::cudnnCreateRNNDescriptor,
                        &Library::cudnnDestroyRNNDescriptor>;
using Steps = Described<cudnnRNNDataDescriptor_t, &Library::cudnnCreateRNNDataDescriptor,
                        &Library::cudnnDestroyRNNDataDescriptor>;
using TensorDescription = Described<cudnnTensorDescriptor_t, &Library::cudnnCreateTensorDescriptor,
                                    &Library::cudnnDestroyTensorDescriptor>;

cudnnRNNMode_t mode_of(CellKind kind) {
  switch (kind) {
    case CellKind::rnn_tanh: return CUDNN_RNN_TANH;
    case CellKind::rnn_relu: return CUDNN_RNN_RELU;
    case CellKind::gru: return CUDNN_GRU;
    case CellKind::lstm: break;
  }
  return CUDNN_LSTM;
}

/** Returns the math mode: f32 without Tensor Cores unless they are allowed, accumulation in f32. */
cudnnMathType_t math_of(DType dtype) {
  if (is_low(dtype)) return CUDNN_TENSOR_OP_MATH;
  return allow_tf32() ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

int narrowed_size(std::int64_t n) { return static_cast<int>(n); }

/** All descriptors of a layer. */
class Description {
 public:
  explicit Description(const Recurrent& r) {
    const Library& library = Library::get();
    const cudnnDataType_t type = data_type(r.dtype);
    usable_ = supported(
        library.cudnnSetRNNDescriptor_v8(
            layer, r.persistent ? CUDNN_RNN_ALGO_PERSIST_STATIC : CUDNN_RNN_ALGO_STANDARD,
            mode_of(r.kind), CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, type,
            r.dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT, math_of(r.dtype),
            narrowed_size(r.features), narrowed_size(r.hidden), narrowed_size(r.size), 1, nullptr,
            CUDNN_RNN_PADDED_IO_ENABLED),
        "cudnnSetRNNDescriptor_v8");
    std::vector<int> lengths(r.lengths.begin(), r.lengths.end());
    if (lengths.empty()) lengths.assign(static_cast<std::size_t>(r.batch), narrowed_size(r.steps));
    const auto describe = [&](const Steps& rows, std::int64_t width) {
      double zero = 0;  // of any dtype
      check(library.cudnnSetRNNDataDescriptor(rows, type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                                              narrowed_size(r.steps), narrowed_size(r.batch),
                                              narrowed_size(width), lengths.data(), &zero),
            "cudnnSetRNNDataDescriptor");
    };
    describe(x, r.features);
    describe(y, r.size);
    const auto describe_state = [&](const TensorDescription& state, std::int64_t width) {
      const int sizes[] = {1, narrowed_size(r.batch), narrowed_size(width)},
                strides[] = {narrowed_size(r.batch * width), narrowed_size(width), 1};
      check(library.cudnnSetTensorNdDescriptor(state, type, 3, sizes, strides),
            "cudnnSetTensorNdDescriptor");
    };
    describe_state(h, r.size);
    describe_state(c, r.hidden);
  }

  bool usable() const { return usable_; }

  Layer layer;
  Steps x, y;
  TensorDescription h, c;

 private:
  bool usable_;
};

/** The library's handle for a device's recurrent layers; used by one call at a time. */
class RecurrentSession {
 public:
  RecurrentSession() { check(Library::get().cudnnCreate(&handle_), "cudnnCreate"); }

  /** Calls f(handle) after setting the handle's stream. */
  template <class F> auto with(runtime::Stream stream, F&& f) {
    const std::lock_guard lock(mutex_);
    check(Library::get().cudnnSetStream(handle_, static_cast<cudaStream_t>(stream)),
          "cudnnSetStream");
    return f(handle_);
  }

 private:
  cudnnHandle_t handle_ = nullptr;
  std::mutex mutex_;
};

/** The offsets of a layer's parameters in the library's weight memory. */
class WeightPlaces {
 public:
  WeightPlaces(cudnnHandle_t handle, const Recurrent& r, const Description& described,
               std::int64_t bytes)
      : handle_(handle), described_(described), bytes_(bytes), item_(item_size(r.dtype)) {
    const int gates = narrowed_size(op::gates_of(r.kind));
    const auto gate_bytes = [&](std::int64_t columns) {
      return r.hidden * columns * static_cast<std::int64_t>(item_);
    };
    places_[Parameter::kDwih] = place(0, gates, gate_bytes(r.features), false);
    places_[Parameter::kDwhh] = place(gates, gates, gate_bytes(r.size), false);
    places_[Parameter::kDbih] = place(0, gates, gate_bytes(1), true);
    places_[Parameter::kDbhh] = place(gates, gates, gate_bytes(1), true);
    if (r.size != r.hidden) places_[Parameter::kDwhr] = place(2 * gates, 1, 0, false);
  }

  /** Returns the offsets, or nothing if the gates of a parameter are not adjacent in Mezzo's order;
   *  each gate would then need its own copy. */
  std::optional<std::array<std::optional<std::int64_t>, 5>> places() const {
    if (!adjoin_) return std::nullopt;
    return places_;
  }

 private:
  std::int64_t place(int first, int count, std::int64_t gate_bytes, bool bias) {
    const std::int64_t begin = offset(first, bias);
    for (int i = 1; i < count; ++i)
      adjoin_ = adjoin_ && offset(first + i, bias) == begin + i * gate_bytes;
    return begin;
  }

  /** Gates are numbered in Mezzo's order: those of the input, those of h, then the projection. */
  std::int64_t offset(int number, bool bias) {
    alignas(16) static char base[16];  // only its address is used
    const TensorDescription matrix_shape, bias_shape;
    void *matrix = nullptr, *vector = nullptr;
    check(Library::get().cudnnGetRNNWeightParams(handle_, described_.layer, 0,
                                                 static_cast<std::size_t>(bytes_), base, number,
                                                 matrix_shape, &matrix, bias_shape, &vector),
          "cudnnGetRNNWeightParams");
    return static_cast<const char*>(bias ? vector : matrix) - base;
  }

  cudnnHandle_t handle_;
  const Description& described_;
  std::int64_t bytes_;
  std::size_t item_;
  std::array<std::optional<std::int64_t>, 5> places_;
  bool adjoin_ = true;
};

std::size_t bytes(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

std::optional<RecurrentSpaces> recurrent_spaces(const Recurrent& r, Device device) {
  const Library& library = Library::get();
  if (!library.usable()) return std::nullopt;
  const Description described(r);
  if (!described.usable()) return std::nullopt;
  return per_device<RecurrentSession>(device).with(
      current_stream(device), [&](cudnnHandle_t handle) -> std::optional<RecurrentSpaces> {
        std::size_t weights = 0, work = 0, reserve = 0;
        if (!supported(library.cudnnGetRNNWeightSpaceSize(handle, described.layer, &weights),
                       "cudnnGetRNNWeightSpaceSize") ||
            !supported(library.cudnnGetRNNTempSpaceSizes(
                           handle, described.layer,
                           r.training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
                           described.x, &work, &reserve),
                       "cudnnGetRNNTempSpaceSizes"))
          return std::nullopt;
        const auto size = static_cast<std::int64_t>(weights);
        const auto places = WeightPlaces(handle, r, described, size).places();
        if (!places) return std::nullopt;
        return RecurrentSpaces{.weights = size,
                               .work = static_cast<std::int64_t>(work),
                               .reserve = r.training ? static_cast<std::int64_t>(reserve) : 0,
                               .places = *places};
      });
}

bool run(const Recurrent& r, const RecurrentSpaces& s, const RecurrentArrays& a, Device device,
         runtime::Stream stream) {
  const Description d(r);
  return per_device<RecurrentSession>(device).with(stream, [&](cudnnHandle_t handle) {
    return supported(
        Library::get().cudnnRNNForward(
            handle, d.layer, r.training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
            nullptr, d.x, a.x, d.y, a.y, d.h, a.h0, a.h, d.c, a.c0, a.c, bytes(s.weights),
            a.weights, bytes(s.work), a.work, bytes(s.reserve), a.reserve),
        "cudnnRNNForward");
  });
}

bool differentiate(const Recurrent& r, const RecurrentSpaces& s, const RecurrentArrays& a,
                   const RecurrentGradients& g, Device device, runtime::Stream stream) {
  const Description d(r);
  const Library& library = Library::get();
  return per_device<RecurrentSession>(device).with(stream, [&](cudnnHandle_t handle) {
    if (!supported(library.cudnnRNNBackwardData_v8(handle, d.layer, nullptr, d.y, a.y, g.gy, d.x,
                                                   g.x, d.h, a.h0, g.gh, g.h0, d.c, a.c0, g.gc,
                                                   g.c0, bytes(s.weights), a.weights, bytes(s.work),
                                                   a.work, bytes(s.reserve), a.reserve),
                   "cudnnRNNBackwardData_v8"))
      return false;
    // The library supports only accumulation for the weight gradients.
    return !g.weights || supported(library.cudnnRNNBackwardWeights_v8(
                                       handle, d.layer, CUDNN_WGRAD_MODE_ADD, nullptr, d.x, a.x,
                                       d.h, a.h0, d.y, a.y, bytes(s.weights), g.weights,
                                       bytes(s.work), a.work, bytes(s.reserve), a.reserve),
                                   "cudnnRNNBackwardWeights_v8");
  });
}

bool recurrent_is_deterministic() {
  const char* const config = std::getenv("CUBLAS_WORKSPACE_CONFIG");
  return config && (config == std::string_view(":16:8") || config == std::string_view(":4096:2"));
}

}  // namespace mezzo::gpu::dnn
