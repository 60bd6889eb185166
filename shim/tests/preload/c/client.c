/* Linked with the runtime like any HIP program; argv[1] says what to do. */
#define _GNU_SOURCE
#include "hip.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char kernel;
static void *const MARK = (void *)0xa5a5a5a5a5a5;
static void **modules;

static void unregister(void) { __hipUnregisterFatBinary(modules); }

/* What compiled code does before main. */
__attribute__((constructor)) static void register_kernel(void) {
  modules = __hipRegisterFatBinary("client");
  __hipRegisterFunction(modules, &kernel, "device", "name", ~0u, MARK, MARK, MARK, MARK, MARK);
  atexit(unregister);
}

static uint64_t count_of(const char *name) {
  uint64_t (*count)(const char *) = (uint64_t (*)(const char *))dlsym(RTLD_DEFAULT, "xsched_shim_call_count");
  return count ? count(name) : 0;
}

static hipError_t launch_on(hipStream_t stream) {
  dim3 grid = {1, 2, 3}, block = {4, 5, 6};
  return hipLaunchKernel(&kernel, grid, block, MARK, 7, stream);
}

/* By-value structures, stack arguments and floats, all bits set in odd places. */
static void every_kind_of_argument(void) {
  dim3 grid = {0xfffffffe, 0x80000001, 0x7fffffff}, block = {0xdeadbeef, 0xcafebabe, 0xfeedface};
  hipPitchedPtr place = {MARK, ~(size_t)1, 0x8000000000000001, 0x123456789abcdef0};
  hipExtent extent = {0xfffffffffffffffe, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa};
  hipMemLocation location = {0x7ffffffe, -2};
  hipIpcMemHandle_t handle;
  for (int i = 0; i < 64; i++) handle.reserved[i] = (unsigned char)(i * 37 + 11);
  hipStream_t stream = (hipStream_t)0x555500001111;
  for (int round = 0; round < 3; round++) {
    printf("%d\n", hipLaunchKernel(&kernel, grid, block, MARK, ~(size_t)2, stream));
    printf("%d\n", hipLaunchKernel(MARK, grid, block, MARK, ~(size_t)2, NULL));
    printf("%d\n", hipLaunchKernel_spt(&kernel, grid, block, MARK, ~(size_t)2, NULL));
    printf("%d\n", hipExtLaunchKernel(&kernel, grid, block, MARK, ~(size_t)2, stream, MARK, (void *)-1, -9));
    printf("%d\n", hipModuleLaunchKernel(MARK, 1, -2, 3, -4, 5, -6, 0x80000000, (hipStream_t)2, MARK, NULL));
    printf("%d\n", hipMemset3DAsync(place, -3, extent, (hipStream_t)1));
    printf("%d\n", hipMemPrefetchAsync_v2(MARK, ~(size_t)3, location, 0x80000001, stream));
    printf("%d\n", hipMalloc3DArray(MARK, (void *)-1, extent, 0x87654321));
    printf("%d\n", hipIpcOpenMemHandle(MARK, handle, 0xfedcba98));
    printf("%d\n", hipTexRefSetMipmapLevelClamp(MARK, -0x1.fffffep+127f, 0x1p-149f));
    hipChannelFormatDesc desc = hipCreateChannelDesc(0x7ffffffe, -5, 8, -7, 3);
    printf("%x %x %x %x %x\n", desc.x, desc.y, desc.z, desc.w, desc.f);
    puts(hipGetErrorString(98));
  }
}

static void *launch_in_thread(void *arg) {
  for (int i = 0; i < 1000; i++) {
    hipError_t error = hipMemcpyAsync(NULL, NULL, 0, 0, arg);
    if (error) printf("error %d\n", error);
  }
  return NULL;
}

static void calls_of_many_threads(void) {
  pthread_t threads[4];
  if (!freopen("/dev/null", "w", stdout)) abort();
  for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, launch_in_thread, (void *)(0x1000 * (i + 1)));
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  fprintf(stderr, "%llu\n", (unsigned long long)count_of("hipMemcpyAsync"));
}

static pthread_key_t last_call;

static void *few_calls(void *arg) {
  launch_on(arg);
  launch_on(arg);
  /* Its destructor makes one more. */
  pthread_setspecific(last_call, arg);
  return NULL;
}

static void one_more_call(void *stream) { launch_on(stream); }

static long resident_pages(void) {
  long size = 0, resident = 0;
  FILE *statm = fopen("/proc/self/statm", "r");
  if (!statm || fscanf(statm, "%ld %ld", &size, &resident) != 2) abort();
  fclose(statm);
  return resident;
}

/* Says how many calls are counted, and how much memory the second half of the threads takes. */
static void calls_of_short_threads(void) {
  enum { ROUNDS = 100, TOGETHER = 30 };
  pthread_t threads[TOGETHER];
  long half = 0;
  if (!freopen("/dev/null", "w", stdout)) abort();
  pthread_key_create(&last_call, one_more_call);
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < TOGETHER; i++) pthread_create(&threads[i], NULL, few_calls, (void *)0x1000);
    for (int i = 0; i < TOGETHER; i++) pthread_join(threads[i], NULL);
    if (round == ROUNDS / 2) half = resident_pages();
  }
  fprintf(stderr, "%llu %ld\n", (unsigned long long)count_of("hipLaunchKernel"), resident_pages() - half);
}

static void call_in_destructor(void *stream) { printf("late %d\n", launch_on(stream)); }

static void *thread_that_calls_while_it_ends(void *key) {
  pthread_setspecific(*(pthread_key_t *)key, (void *)0x9000);
  return NULL;
}

static void calls_while_threads_end(void) {
  pthread_key_t key;
  pthread_t thread;
  pthread_key_create(&key, call_in_destructor);
  for (int i = 0; i < 3; i++) {
    pthread_create(&thread, NULL, thread_that_calls_while_it_ends, &key);
    pthread_join(thread, NULL);
  }
}

static void counts(void) {
  for (int i = 0; i < 5; i++) launch_on((hipStream_t)0x1000);
  printf("%llu %llu %llu %d\n", (unsigned long long)count_of("hipLaunchKernel"),
         (unsigned long long)count_of("hipMalloc"), (unsigned long long)count_of("__hipRegisterFunction"),
         count_of("hipNoSuchThing") == UINT64_MAX);
}

static void forked(void) {
  for (int i = 0; i < 5; i++) launch_on(NULL);
  fflush(stdout);
  pid_t child = fork();
  launch_on(NULL);
  launch_on(NULL);
  printf("%s %llu\n", child ? "parent" : "child", (unsigned long long)count_of("hipLaunchKernel"));
  if (!child) {
    fflush(stdout);
    exit(0);
  }
  waitpid(child, NULL, 0);
}

static void errno_stays(void) {
  void *pointer;
  for (int i = 0; i < 3; i++) {
    errno = 4242;
    hipMalloc(&pointer, 64);
    printf("errno %d\n", errno);
  }
}

/* Functions that this runtime does not have: absent without the shim, an error with it. */
static void missing(void) {
  hipError_t (*launch)(void *, void *, void **) =
      (hipError_t(*)(void *, void *, void **))dlsym(RTLD_DEFAULT, "hipLaunchKernelExC");
  const char *(*name)(uint32_t) = (const char *(*)(uint32_t))dlsym(RTLD_DEFAULT, "hipApiName");
  int (*device)(hipStream_t) = (int (*)(hipStream_t))dlsym(RTLD_DEFAULT, "hipGetStreamDeviceId");
  if (!launch || !name || !device) {
    puts("absent");
    return;
  }
  printf("%d %s %d\n", launch(NULL, NULL, NULL), name(1), device(NULL));
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOFBF, 1 << 16);
  const char *what = argc > 1 ? argv[1] : "";
  if (!strcmp(what, "arguments")) every_kind_of_argument();
  else if (!strcmp(what, "threads")) calls_of_many_threads();
  else if (!strcmp(what, "short-threads")) calls_of_short_threads();
  else if (!strcmp(what, "ending")) calls_while_threads_end();
  else if (!strcmp(what, "counts")) counts();
  else if (!strcmp(what, "fork")) forked();
  else if (!strcmp(what, "errno")) errno_stays();
  else if (!strcmp(what, "missing")) missing();
  else return 2;
  return 0;
}
