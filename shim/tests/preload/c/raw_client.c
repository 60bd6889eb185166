/* Calls every function with all argument registers and a piece of stack full of marks, and compares what arrived.
 * The functions' names come as arguments. */
#define _GNU_SOURCE
#include "raw.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

uint64_t raw_call(void *function, const struct registers *registers);
struct registers raw_arrived;

/* Loads every argument register and STACK_WORDS of stack from a `struct registers` and calls. */
__asm__(".globl raw_call\n"
        "raw_call:\n"
        "  push %rbp\n"
        "  mov %rsp, %rbp\n"
        "  mov %rdi, %r11\n"
        "  mov %rsi, %r10\n"
        "  mov $16, %ecx\n" /* STACK_WORDS */
        "1:\n"
        "  push 176-8(%r10,%rcx,8)\n"
        "  dec %ecx\n"
        "  jnz 1b\n"
        "  movups 48(%r10), %xmm0\n"
        "  movups 64(%r10), %xmm1\n"
        "  movups 80(%r10), %xmm2\n"
        "  movups 96(%r10), %xmm3\n"
        "  movups 112(%r10), %xmm4\n"
        "  movups 128(%r10), %xmm5\n"
        "  movups 144(%r10), %xmm6\n"
        "  movups 160(%r10), %xmm7\n"
        "  mov 0(%r10), %rdi\n"
        "  mov 8(%r10), %rsi\n"
        "  mov 16(%r10), %rdx\n"
        "  mov 24(%r10), %rcx\n"
        "  mov 32(%r10), %r8\n"
        "  mov 40(%r10), %r9\n"
        "  call *%r11\n"
        ".globl raw_return_address\n"
        "raw_return_address:\n"
        "  leave\n"
        "  ret\n");
extern char raw_return_address[];

int main(int argc, char **argv) {
  int failures = 0;
  struct registers sent;
  for (int i = 1; i < argc; i++) {
    void *function = dlsym(RTLD_DEFAULT, argv[i]);
    for (int round = 0; round < 3; round++) {
      uint64_t *words = (uint64_t *)&sent;
      for (size_t w = 0; w < sizeof sent / 8; w++) words[w] = 0x9e3779b97f4a7c15u * (w + 1) + (unsigned)i * 977u;
      sent.return_address = (uint64_t)raw_return_address;
      sent.function = (uint64_t)i;
      memset(&raw_arrived, 0, sizeof raw_arrived);
      uint64_t result = raw_call(function, &sent);
      if (memcmp(&sent, &raw_arrived, sizeof sent) || result != RAW_RESULT) {
        failures++;
        printf("%s, call %d: result %llx\n", argv[i], round, (unsigned long long)result);
        for (size_t w = 0; w < sizeof sent / 8; w++)
          if (words[w] != ((uint64_t *)&raw_arrived)[w])
            printf("  word %zu: sent %llx, arrived %llx\n", w, (unsigned long long)words[w],
                   (unsigned long long)((uint64_t *)&raw_arrived)[w]);
      }
    }
  }
  printf("%d functions, %d failures\n", argc - 1, failures);
  return failures != 0;
}
