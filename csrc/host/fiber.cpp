// SPDX-License-Identifier: BSD-3-Clause
// Fibers: hand-written switches for x86-64 and AArch64, which enter no system call; ucontext
// elsewhere.
#include <host/fiber.h>

#include <host/sanitizers.h>

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <new>

#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(NVF_FIBER_UCONTEXT)
#define NVF_FIBER_UCONTEXT
#endif
#ifdef NVF_FIBER_UCONTEXT
#include <ucontext.h>
#endif

namespace nvfuser {

namespace {

// Room for a kernel's registers and local arrays; only touched pages cost memory.
constexpr size_t kStackBytes = size_t{256} * 1024;

// A guard page splits a mapping in two, and Linux allows a process 65530 of them. Stacks beyond
// this number go without.
constexpr unsigned kMostGuards = 16384;
std::atomic<unsigned> guards{0};

} // namespace

#ifndef NVF_FIBER_UCONTEXT

// Saves the callee-saved registers on the current stack, stores the stack pointer in *save, and
// continues on the stack `load` (System V ABI for x86-64, AAPCS64).
extern "C" void nvfuserSwitchStack(void** save, void* load);

#if defined(__x86_64__)
asm(R"(
.text
.hidden nvfuserSwitchStack
.globl nvfuserSwitchStack
.type nvfuserSwitchStack, @function
nvfuserSwitchStack:
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
.size nvfuserSwitchStack, .-nvfuserSwitchStack
)");
#else
asm(R"(
.text
.hidden nvfuserSwitchStack
.globl nvfuserSwitchStack
.type nvfuserSwitchStack, %function
nvfuserSwitchStack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size nvfuserSwitchStack, .-nvfuserSwitchStack
)");
#endif
#endif

struct Fiber::Context {
  char* mapping = nullptr; // a guard page, then the stack
  size_t guard_bytes = 0;
  bool has_guard = false;
  void (*entry)(void*) = nullptr;
  void* argument = nullptr;
  void* sanitizer_fiber = nullptr;
  void* sanitizer_caller = nullptr;
  const void* caller_bottom = nullptr;
  size_t caller_size = 0;
  void* tsan_fiber = nullptr;
  void* tsan_caller = nullptr;
#ifdef NVF_FIBER_UCONTEXT
  ucontext_t fiber, caller;
#else
  void* fiber_stack = nullptr;
  void* caller_stack = nullptr;
#endif

  char* stackBottom() const {
    return mapping + guard_bytes;
  }
  char* stackTop() const {
    return stackBottom() + kStackBytes;
  }

  void switchToFiber() {
    if (__sanitizer_start_switch_fiber != nullptr) {
      __sanitizer_start_switch_fiber(&sanitizer_caller, stackBottom(), kStackBytes);
    }
    if (tsan_fiber != nullptr) {
      tsan_caller = __tsan_get_current_fiber();
      __tsan_switch_to_fiber(tsan_fiber, 0);
    }
#ifdef NVF_FIBER_UCONTEXT
    swapcontext(&caller, &fiber);
#else
    nvfuserSwitchStack(&caller_stack, fiber_stack);
#endif
    if (__sanitizer_finish_switch_fiber != nullptr) {
      __sanitizer_finish_switch_fiber(sanitizer_caller, nullptr, nullptr);
    }
  }

  void switchToCaller() {
    if (__sanitizer_start_switch_fiber != nullptr) {
      __sanitizer_start_switch_fiber(&sanitizer_fiber, caller_bottom, caller_size);
    }
    if (tsan_fiber != nullptr) {
      __tsan_switch_to_fiber(tsan_caller, 0);
    }
#ifdef NVF_FIBER_UCONTEXT
    swapcontext(&fiber, &caller);
#else
    nvfuserSwitchStack(&fiber_stack, caller_stack);
#endif
    arriveOnFiber(sanitizer_fiber);
  }

  void arriveOnFiber(void* saved) {
    if (__sanitizer_finish_switch_fiber != nullptr) {
      __sanitizer_finish_switch_fiber(saved, &caller_bottom, &caller_size);
    }
  }

  // The first function on a fiber's stack; it finds its fiber here, as a return address cannot pass
  // arguments.
  static thread_local Context* starting;
  static void trampoline() {
    Context* context = starting;
    context->arriveOnFiber(nullptr);
    context->entry(context->argument);
    __builtin_trap(); // entry ends in suspend()
  }
};

thread_local Fiber::Context* Fiber::Context::starting = nullptr;

Fiber::Fiber() : context_(new Context) {
  context_->guard_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mapping = mmap(nullptr, context_->guard_bytes + kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    delete context_;
    throw std::bad_alloc();
  }
  context_->mapping = static_cast<char*>(mapping);
  if (__tsan_create_fiber != nullptr) {
    context_->tsan_fiber = __tsan_create_fiber(0);
  }
  context_->has_guard = guards.fetch_add(1) < kMostGuards;
  if (context_->has_guard) {
    mprotect(mapping, context_->guard_bytes, PROT_NONE);
  } else {
    --guards;
  }
}

Fiber::~Fiber() {
  guards -= context_->has_guard ? 1 : 0;
  munmap(context_->mapping, context_->guard_bytes + kStackBytes);
  if (context_->tsan_fiber != nullptr) {
    __tsan_destroy_fiber(context_->tsan_fiber);
  }
  delete context_;
}

void Fiber::start(void (*entry)(void*), void* argument) {
  context_->entry = entry;
  context_->argument = argument;
#if defined(NVF_FIBER_UCONTEXT)
  getcontext(&context_->fiber);
  context_->fiber.uc_stack.ss_sp = context_->stackBottom();
  context_->fiber.uc_stack.ss_size = kStackBytes;
  context_->fiber.uc_link = nullptr;
  makecontext(&context_->fiber, &Context::trampoline, 0);
#else
  // The frame that nvfuserSwitchStack restores, with the trampoline as the address to return to.
  auto* top = reinterpret_cast<void**>(context_->stackTop());
#if defined(__x86_64__)
  // At a function's entry the stack pointer is 8 below a multiple of 16: one empty slot on top.
  void** frame = top - 8;
  for (int i = 0; i < 8; ++i) {
    frame[i] = nullptr;
  }
  frame[6] = reinterpret_cast<void*>(&Context::trampoline);
#else
  void** frame = top - 20;
  for (int i = 0; i < 20; ++i) {
    frame[i] = nullptr;
  }
  frame[11] = reinterpret_cast<void*>(&Context::trampoline); // x30
#endif
  context_->fiber_stack = static_cast<void*>(frame);
#endif
}

void Fiber::resume() {
  Context::starting = context_;
  context_->switchToFiber();
}

void Fiber::suspend() {
  context_->switchToCaller();
}

} // namespace nvfuser
