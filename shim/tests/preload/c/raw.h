/* What a call looks like to the function that is called. */
#pragma once
#include <stdint.h>

#define STACK_WORDS 16
#define RAW_RESULT 0xfedcba9876543210u

struct registers {
  uint64_t general[6];
  uint64_t vector[8][2];
  uint64_t stack[STACK_WORDS];
  uint64_t return_address;
  uint64_t function;
};
