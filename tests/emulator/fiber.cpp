#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>

#include "../../tensor/memory/address_sanitizer.h"
#ifdef MZ_ADDRESS_SANITIZER
#  include <sanitizer/asan_interface.h>
#  include <sanitizer/common_interface_defs.h>
#endif

#if MZ_OWN_SWITCH
// swapcontext also makes a system call and takes twenty times as long.
asm(R"(
.text
.globl mezzo_fiber_switch
.hidden mezzo_fiber_switch
.type mezzo_fiber_switch, @function
mezzo_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size mezzo_fiber_switch, .-mezzo_fiber_switch
)");
#endif

namespace mezzo::emulator {

namespace {

#ifdef MZ_ADDRESS_SANITIZER
constexpr std::size_t kStack = 512 << 10;  // sanitized frames are several times as large
#else
constexpr std::size_t kStack = 128 << 10;
#endif

std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

Context* Context::left = nullptr;
Context* Context::entered = nullptr;

#ifdef MZ_ADDRESS_SANITIZER
const bool Context::notifies_of_host = true;
const bool Context::notifies_always = __asan_get_current_fake_stack() != nullptr;

void Context::announce(const Context& next) {
  __sanitizer_start_switch_fiber(&fake_stack_, next.bottom_, next.size_);
}

void Context::arrived() {
  // The bounds of fibers are known; those that the sanitizer has may be another fiber's.
  if (left->is_fiber_)
    __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
  else
    __sanitizer_finish_switch_fiber(fake_stack_, &left->bottom_, &left->size_);
}
#else
const bool Context::notifies_of_host = false;
const bool Context::notifies_always = false;
void Context::announce(const Context&) {}
void Context::arrived() {}
#endif

struct FiberEntry {
  static void enter() {
    auto* fiber = static_cast<Fiber*>(Context::entered);
    if (Context::notifies(*Context::left, *fiber)) fiber->arrived();
    fiber->body_(fiber->argument_);
    __builtin_unreachable();
  }
};

Fiber::Fiber() : Context(true) {
  // A guard page below the stack turns an overflow into a segmentation fault.
  void* memory = mmap(nullptr, kStack + page(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, page(), PROT_NONE);
  bottom_ = static_cast<char*>(memory) + page();
  size_ = kStack;
}

Fiber::~Fiber() {
#ifdef MZ_ADDRESS_SANITIZER
  // The addresses may be used again. The macro does nothing here: this file is not instrumented.
  __asan_unpoison_memory_region(bottom_, size_);
#endif
  munmap(const_cast<char*>(static_cast<const char*>(bottom_)) - page(), kStack + page());
}

void Fiber::start(void (*body)(void*), void* argument) {
  body_ = body;
  argument_ = argument;
  char* base = const_cast<char*>(static_cast<const char*>(bottom_));
#if MZ_OWN_SWITCH
  // The stack as after a call: a return address on top, and 8 bytes short of a multiple of 16 once
  // it is popped.
  auto* top = reinterpret_cast<void**>(base + size_) - 2;
  *top = reinterpret_cast<void*>(&FiberEntry::enter);
  for (int registers = 0; registers < 6; ++registers) *--top = nullptr;
  stack_pointer_ = top;
#else
  getcontext(&machine_);
  machine_.uc_stack.ss_sp = base;
  machine_.uc_stack.ss_size = size_;
  machine_.uc_link = nullptr;
  makecontext(&machine_, &FiberEntry::enter, 0);
#endif
}

}  // namespace mezzo::emulator
