/* A library with a kernel of its own, as an application loads them. NAME names it. */
#include "hip.h"
#include <stdio.h>

static char kernel;
static void **modules;

__attribute__((constructor)) static void load(void) {
  modules = __hipRegisterFatBinary(NAME);
  __hipRegisterFunction(modules, &kernel, "device", NAME, 0, NULL, NULL, NULL, NULL, NULL);
}

__attribute__((destructor)) static void unload(void) { __hipUnregisterFatBinary(modules); }

/* Launches the plugin's kernel, as its own code would. */
void plugin_run(int times) {
  void *pointer;
  dim3 one = {1, 1, 1};
  for (int i = 0; i < times; i++) {
    printf(NAME ": %s\n", hipGetErrorString(hipLaunchKernel(&kernel, one, one, NULL, 0, NULL)));
    hipMalloc(&pointer, 1);
  }
}
