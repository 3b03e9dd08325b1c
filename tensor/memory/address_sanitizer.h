// MZ_ADDRESS_SANITIZER: defined in a build with AddressSanitizer. Also the macros that mark memory
// as inaccessible to it, which are empty in other builds. For .cpp files only.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#  define MZ_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define MZ_ADDRESS_SANITIZER 1
#  endif
#endif

#ifdef MZ_ADDRESS_SANITIZER
#  include <sanitizer/asan_interface.h>
#else
#  define ASAN_POISON_MEMORY_REGION(address, bytes) static_cast<void>(0)
#  define ASAN_UNPOISON_MEMORY_REGION(address, bytes) static_cast<void>(0)
#endif
