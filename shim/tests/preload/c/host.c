/* A program that knows no HIP, like an interpreter. Arguments: a library to load, prefixed by
 *   l: RTLD_LOCAL and run it, g: RTLD_GLOBAL and run it, G: RTLD_GLOBAL only, c: load, run and close it. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    char how = argv[i][0];
    void *library = dlopen(argv[i] + 2, RTLD_NOW | (how == 'g' || how == 'G' ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!library) {
      printf("%s\n", dlerror());
      return 1;
    }
    if (how == 'G') continue;
    void (*run)(int) = (void (*)(int))dlsym(library, "plugin_run");
    run(3);
    if (how == 'c') dlclose(library);
  }
  return 0;
}
