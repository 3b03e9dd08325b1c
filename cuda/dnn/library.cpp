#include "library.h"

#include "../../tensor/core/error.h"
#include "../../tensor/text/text.h"

namespace mezzo::gpu::dnn {

Library::Library() : file_(str("libcudnn.so.", CUDNN_MAJOR)) {
#define MZ_LOAD(function) file_.load(function, #function);
  MZ_CUDNN_FUNCTIONS(MZ_LOAD)
#undef MZ_LOAD
  if (usable() && cudnnGetVersion() / 10000 != CUDNN_MAJOR)
    file_.refuse(
        str("cuDNN ", version(), " does not have the major version of the build, ", CUDNN_MAJOR));
}

const Library& Library::get() {
  static const Library only;
  return only;
}

std::string Library::version() const {
  const auto number = static_cast<std::int64_t>(cudnnGetVersion());
  return str(number / 10000, ".", number / 100 % 100, ".", number % 100);
}

namespace {

[[noreturn]] void refuse(cudnnStatus_t status, const char* call, CallPlace place) {
  char words[512] = "";
  Library::get().cudnnGetLastErrorString(words, sizeof words);
  fail<CudaError>(call, {.what = "cuDNN returned an error",
                         .got = str("status ", static_cast<int>(status), " ", words),
                         .hint = str(place.file, ":", place.line)});
}

}  // namespace

void check(cudnnStatus_t status, const char* call, CallPlace place) {
  if (status != CUDNN_STATUS_SUCCESS) refuse(status, call, place);
}

bool supported(cudnnStatus_t status, const char* call, CallPlace place) {
  if (status == CUDNN_STATUS_SUCCESS) return true;
  // Status codes are grouped by thousands; this group means "not supported".
  if (status / 1000 * 1000 != CUDNN_STATUS_NOT_SUPPORTED) refuse(status, call, place);
  return false;
}

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f16: return CUDNN_DATA_HALF;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    case DType::f32: return CUDNN_DATA_FLOAT;
    case DType::f64: return CUDNN_DATA_DOUBLE;
    case DType::boolean:
    case DType::u8:
    case DType::i32:
    case DType::i64: break;
  }
  fail<DtypeError>("cuDNN", {.what = "unsupported dtype",
                             .got = std::string(name(dtype)),
                             .expected = "a floating-point dtype"});
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check(Library::get().cudnnBackendCreateDescriptor(type, &handle_),
        "cudnnBackendCreateDescriptor");
}

Descriptor::~Descriptor() {
  if (handle_) Library::get().cudnnBackendDestroyDescriptor(handle_);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     std::int64_t count, const void* values) {
  check(Library::get().cudnnBackendSetAttribute(handle_, name, type, count, values),
        "cudnnBackendSetAttribute");
}

std::int64_t Descriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                             std::int64_t most, void* values) const {
  std::int64_t count = 0;
  check(Library::get().cudnnBackendGetAttribute(handle_, name, type, most, &count, values),
        "cudnnBackendGetAttribute");
  return std::min(count, most);
}

bool Descriptor::finalize() {
  return supported(Library::get().cudnnBackendFinalize(handle_), "cudnnBackendFinalize");
}

std::vector<Descriptor> Descriptor::get_list(cudnnBackendAttributeName_t name,
                                             cudnnBackendDescriptorType_t type) const {
  std::int64_t count = 0;
  check(Library::get().cudnnBackendGetAttribute(handle_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                                &count, nullptr),
        "cudnnBackendGetAttribute");
  std::vector<Descriptor> list;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < count; ++i) handles.push_back(list.emplace_back(type).handle());
  // The first call returns an upper bound; fewer descriptors may be filled.
  const std::int64_t found =
      count > 0 ? get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, handles.data()) : 0;
  while (static_cast<std::int64_t>(list.size()) > found) list.pop_back();
  return list;
}

}  // namespace mezzo::gpu::dnn
