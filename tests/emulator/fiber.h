// Fiber: a stack of its own that runs until it switches away; the threads of an emulated block are fibers of one host thread.
// Sees: the standard library only.
// Read next: executor.h (who switches between them).
#pragma once

#include <cstddef>

// The switch is a dozen instructions where we have them; ucontext, which works everywhere, makes a system call each time.
#if defined(__x86_64__) && !defined(MZ_EMULATOR_UCONTEXT)
#  define MZ_OWN_SWITCH 1
#else
#  define MZ_OWN_SWITCH 0
#  include <ucontext.h>
#endif

namespace mezzo::emulator {

/** Where an execution is while it does not run: the host's own stack, or a fiber's. */
class Context {
 public:
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /** Leaves the running context, which is this one, and goes on where `other` left; returns when someone switches back. */
  void switch_to(Context& other);

 protected:
  /** Tells AddressSanitizer that this context runs again. */
  void arrived();

#if MZ_OWN_SWITCH
  void* stack_pointer_ = nullptr;
#else
  ucontext_t machine_{};
#endif
  void* fake_stack_ = nullptr;  // AddressSanitizer's
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
};

/** A context with its own stack. `body(argument)` must not return: it switches away for good. */
class Fiber : public Context {
 public:
  Fiber();
  ~Fiber();

  /** Makes the next switch to this fiber call body(argument) on an empty stack. What was on it is forgotten without unwinding; deeper in calls than
   *  the body itself it may not have been left. */
  void start(void (*body)(void*), void* argument);

 private:
  friend struct FiberEntry;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
};

}  // namespace mezzo::emulator
