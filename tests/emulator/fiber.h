// Fiber: a separate stack that runs until it switches away. The threads of an emulated block are
// fibers of one host thread.
#pragma once

#include <cstddef>

// The switch is a dozen instructions of assembly on x86-64. Elsewhere it is ucontext, which makes a
// system call each time.
#if defined(__x86_64__) && !defined(MZ_EMULATOR_UCONTEXT)
#  define MZ_OWN_SWITCH 1
#else
#  define MZ_OWN_SWITCH 0
#  include <ucontext.h>
#endif

namespace mezzo::emulator {

#if MZ_OWN_SWITCH
/** Saves the callee-saved registers on the old stack, whose pointer goes to *from, and restores
 *  them from the new one. */
extern "C" void mezzo_fiber_switch(void** from, void* to);
#endif

/** A suspended execution, on the host's own stack or on a fiber's. */
class Context {
 public:
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /** Suspends this context, which is the running one, and resumes `other`. Returns when another
   *  context switches back. AddressSanitizer is notified of switches from and to the host's stack,
   *  and of others only if it keeps variables off the stack (detect_stack_use_after_return): two
   *  notifications take much longer than a switch, and all that depends on them is how it describes
   *  a variable in a report. */
  void switch_to(Context& other) {
    left = this;
    entered = &other;
    if (notifies(*this, other)) announce(other);
#if MZ_OWN_SWITCH
    mezzo_fiber_switch(&stack_pointer_, other.stack_pointer_);
#else
    swapcontext(&machine_, &other.machine_);
#endif
    if (notifies(*left, *this)) arrived();
  }

 protected:
  friend struct FiberEntry;
  explicit Context(bool is_fiber) : is_fiber_(is_fiber) {}
  /** Returns whether AddressSanitizer is notified of a switch. */
  static bool notifies(const Context& from, const Context& to) {
    return notifies_always || (notifies_of_host && !(from.is_fiber_ && to.is_fiber_));
  }
  /** Notifies AddressSanitizer that this context will be suspended, or runs again. */
  void announce(const Context& next);
  void arrived();

  // The two contexts of the current switch. Launches hold a lock, so there is one at a time.
  static Context* left;
  static Context* entered;
  static const bool notifies_of_host, notifies_always;

#if MZ_OWN_SWITCH
  void* stack_pointer_ = nullptr;
#else
  ucontext_t machine_{};
#endif
  bool is_fiber_ = false;
  void* fake_stack_ = nullptr;  // for AddressSanitizer
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
};

/** A context with its own stack. `body(argument)` must not return; it must switch away for good. */
class Fiber : public Context {
 public:
  Fiber();
  ~Fiber();

  /** Makes the first switch to this fiber call body(argument). Call it once. */
  void start(void (*body)(void*), void* argument);

 private:
  friend struct FiberEntry;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
};

}  // namespace mezzo::emulator
