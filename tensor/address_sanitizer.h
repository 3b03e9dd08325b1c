// Whether this is a build under AddressSanitizer (MZ_ADDRESS_SANITIZER), and its marks for memory that may not be touched, which are nothing else.
// Sees: the sanitizer's own header. Private to .cpp files.
// Read next: allocator.cpp (who marks).
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
