// The functions of cuDNN in use, and the descriptors of its graph interface as values.
#pragma once

#include <cudnn_adv.h>
#include <cudnn_graph.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../tensor/core/dtype.h"
#include "../runtime/failed_call.h"
#include "../runtime/shared_library.h"

namespace mezzo::gpu::dnn {

/** The loaded cuDNN. A library of another major version than that of the headers counts as
 *  missing. */
class Library {
 public:
  static const Library& get();

  bool usable() const { return file_.usable(); }
  const std::string& missing() const { return file_.missing(); }
  /** Returns the version of the loaded library, for example "9.19.0". */
  std::string version() const;

#define MZ_CUDNN_FUNCTIONS(F)      \
  F(cudnnBackendCreateDescriptor)  \
  F(cudnnBackendDestroyDescriptor) \
  F(cudnnBackendExecute)           \
  F(cudnnBackendFinalize)          \
  F(cudnnBackendGetAttribute)      \
  F(cudnnBackendSetAttribute)      \
  F(cudnnCreate)                   \
  F(cudnnCreateRNNDataDescriptor)  \
  F(cudnnCreateRNNDescriptor)      \
  F(cudnnCreateTensorDescriptor)   \
  F(cudnnDestroyRNNDataDescriptor) \
  F(cudnnDestroyRNNDescriptor)     \
  F(cudnnDestroyTensorDescriptor)  \
  F(cudnnGetLastErrorString)       \
  F(cudnnGetRNNTempSpaceSizes)     \
  F(cudnnGetRNNWeightParams)       \
  F(cudnnGetRNNWeightSpaceSize)    \
  F(cudnnGetVersion)               \
  F(cudnnRNNBackwardData_v8)       \
  F(cudnnRNNBackwardWeights_v8)    \
  F(cudnnRNNForward)               \
  F(cudnnSetRNNDataDescriptor)     \
  F(cudnnSetRNNDescriptor_v8)      \
  F(cudnnSetStream)                \
  F(cudnnSetTensorNdDescriptor)
#define MZ_DECLARE(name) decltype(&::name) name = nullptr;
  MZ_CUDNN_FUNCTIONS(MZ_DECLARE)
#undef MZ_DECLARE

 private:
  Library();
  SharedLibrary file_;
};

/** Throws CudaError, with cuDNN's message, unless the status is success. */
void check(cudnnStatus_t status, const char* call, CallPlace place = CallPlace::current());
/** Returns false if the status is "not supported". Throws CudaError for any other failure. */
bool supported(cudnnStatus_t status, const char* call, CallPlace place = CallPlace::current());

/** Returns the library's constant for a floating dtype. */
cudnnDataType_t data_type(DType dtype);

template <class T> constexpr cudnnBackendAttributeType_t attribute_type() {
  if constexpr (std::is_same_v<T, std::int64_t>) return CUDNN_TYPE_INT64;
  if constexpr (std::is_same_v<T, bool>) return CUDNN_TYPE_BOOLEAN;
  if constexpr (std::is_same_v<T, float>) return CUDNN_TYPE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return CUDNN_TYPE_DOUBLE;
  if constexpr (std::is_same_v<T, char>) return CUDNN_TYPE_CHAR;
  if constexpr (std::is_same_v<T, void*>) return CUDNN_TYPE_VOID_PTR;
  if constexpr (std::is_same_v<T, cudnnHandle_t>) return CUDNN_TYPE_HANDLE;
  if constexpr (std::is_same_v<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if constexpr (std::is_same_v<T, cudnnConvolutionMode_t>) return CUDNN_TYPE_CONVOLUTION_MODE;
  if constexpr (std::is_same_v<T, cudnnPointwiseMode_t>) return CUDNN_TYPE_POINTWISE_MODE;
  if constexpr (std::is_same_v<T, cudnnReduceTensorOp_t>) return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
  if constexpr (std::is_same_v<T, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendTensorReordering_t>)
    return CUDNN_TYPE_TENSOR_REORDERING_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendNumericalNote_t>) return CUDNN_TYPE_NUMERICAL_NOTE;
}

/** A descriptor of the library; destroyed with its scope. Descriptors passed to set() must outlive
 *  it. */
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  template <class T> void set(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    set(name, attribute_type<T>(), static_cast<std::int64_t>(values.size()), values.data());
  }
  template <class T> void set(cudnnBackendAttributeName_t name, const T& value) {
    set(name, attribute_type<T>(), 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle_);
  }
  /** Sets several descriptors by their handles. A separate function, because handles are void*, as
   *  any address is. */
  void set_list(cudnnBackendAttributeName_t name,
                const std::vector<cudnnBackendDescriptor_t>& values) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(values.size()),
        values.data());
  }
  /** Finalises the descriptor. Returns false if the library does not support what it describes. */
  bool finalize();

  template <class T> T get(cudnnBackendAttributeName_t name) const {
    T value{};
    get(name, attribute_type<T>(), 1, &value);
    return value;
  }
  template <class T>
  std::vector<T> get_all(cudnnBackendAttributeName_t name, std::int64_t most) const {
    std::vector<T> values(static_cast<std::size_t>(most));
    values.resize(static_cast<std::size_t>(get(name, attribute_type<T>(), most, values.data())));
    return values;
  }
  /** Reads into an existing descriptor. */
  void get_into(cudnnBackendAttributeName_t name, Descriptor& value) const {
    get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle_);
  }
  /** Returns a list of descriptors of one type. */
  std::vector<Descriptor> get_list(cudnnBackendAttributeName_t name,
                                   cudnnBackendDescriptorType_t type) const;

  cudnnBackendDescriptor_t handle() const { return handle_; }

 private:
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   std::int64_t most, void* values) const;

  cudnnBackendDescriptor_t handle_ = nullptr;
};

}  // namespace mezzo::gpu::dnn
