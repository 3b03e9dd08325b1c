// A stub of the CUDA driver that loads kernels for any device and runs none. cuDNN engines that
// compile kernels need a driver even for a described device, and a real one would need that device.
#define MZ_EXPORTED extern "C" __attribute__((visibility("default")))

namespace {
constexpr int kStub = 34;  // CUDA_ERROR_STUB_LIBRARY
int loaded = 0;            // the target of returned handles
int give(void** handle) {
  *handle = &loaded;
  return 0;
}
}  // namespace

MZ_EXPORTED int cuLibraryLoadData(void** library) { return give(library); }
MZ_EXPORTED int cuLibraryGetKernel(void** kernel) { return give(kernel); }

// Further functions that cuDNN looks up.
#define MZ_STUB(name) \
  MZ_EXPORTED int name() { return kStub; }
MZ_STUB(cuCtxGetCurrent)
MZ_STUB(cuCtxGetLimit)
MZ_STUB(cuCtxPopCurrent)
MZ_STUB(cuCtxPushCurrent)
MZ_STUB(cuDeviceGet)
MZ_STUB(cuDeviceGetCount)
MZ_STUB(cuDriverGetVersion)
MZ_STUB(cuGetErrorName)
MZ_STUB(cuGetErrorString)
MZ_STUB(cuKernelGetAttribute)
MZ_STUB(cuKernelSetAttribute)
MZ_STUB(cuLaunchCooperativeKernel)
MZ_STUB(cuLaunchKernel)
MZ_STUB(cuLaunchKernelEx)
MZ_STUB(cuLibraryLoadFromFile)
MZ_STUB(cuLibraryUnload)
MZ_STUB(cuLinkAddData)
MZ_STUB(cuLinkComplete)
MZ_STUB(cuLinkCreate)
MZ_STUB(cuLinkDestroy)
MZ_STUB(cuOccupancyMaxPotentialClusterSize)
MZ_STUB(cuStreamGetCtx)
