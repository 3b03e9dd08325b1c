// The macros of Mezzo: symbol export, and functions shared by host and device.
// Sees: nothing.
// Read next: dtype.h.
#pragma once

/** Marks what the shared library exports; everything else is hidden.
 *  Needed by: a function or variable defined in a .cpp file and called from outside, a class with such members, every
 *  class that is thrown. Not needed by inline functions and function templates.
 *  An object whose address or content is shared (an op's row, a thread-local, a registry) must be exported when it is an
 *  inline variable or a variable template, and so must the types it is instantiated with, else the program and the
 *  library hold two of them. For all structs of a namespace at once: `namespace op MZ_API { ... }`. */
#define MZ_API __attribute__((visibility("default")))

/** Marks a function that runs on the host and, when nvcc compiles it, on the device as well. */
#if defined(__CUDACC__)
#  define MZ_HD __host__ __device__
#else
#  define MZ_HD
#endif
