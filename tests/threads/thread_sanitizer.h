// MZ_THREAD_SANITIZER: 1 in a build under ThreadSanitizer, else 0.
#pragma once

#if defined(__SANITIZE_THREAD__)
#  define MZ_THREAD_SANITIZER 1
#elif defined(__has_feature)
#  if __has_feature(thread_sanitizer)
#    define MZ_THREAD_SANITIZER 1
#  endif
#endif
#ifndef MZ_THREAD_SANITIZER
#  define MZ_THREAD_SANITIZER 0
#endif
