// The macros of Mezzo: symbol export, and functions shared by host and device.
#pragma once

/** Marks what the shared library exports; everything else is hidden. Needed by a function or
 *  variable that is defined in a .cpp file and used from outside, by a class with such members, and
 *  by every class that is thrown. Not needed by inline functions and function templates. An inline
 *  variable or variable template whose address or content is shared (an op's OpInfo, a
 *  thread-local, a registry) must be exported, together with the types it is instantiated with;
 *  otherwise the program and the library each have their own. For all structs of a namespace at
 *  once: `namespace op MZ_API { ... }`. */
#define MZ_API __attribute__((visibility("default")))

/** Marks a function that runs on the host and, when nvcc compiles it, on the device as well. */
#if defined(__CUDACC__)
#  define MZ_HD __host__ __device__
#else
#  define MZ_HD
#endif

/** Marks a function that is always inlined, so that the compiler vectorises loops over it. */
#define MZ_ALWAYS_INLINE inline __attribute__((always_inline))

/** Marks a loop with independent iterations: what it writes does not overlap what it reads, or is
 *  the same memory, element for element. */
#ifdef __clang__
#  define MZ_INDEPENDENT_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#  define MZ_INDEPENDENT_LOOP _Pragma("GCC ivdep")
#endif
