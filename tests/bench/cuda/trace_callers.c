// A library to preload: the calling library of each launch by the compiler's unwinder, a line each in the file that CALLERS names.
//
//     cc -O2 -shared -fPIC -o trace_callers.so trace_callers.c
//
// It stands before the functions that launch, as a shim does. Each notes its caller and then jumps on with the stack as it was, so a
// tracer behind it sees the same caller. `trace.sh` compares the two.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#define FUNCTIONS(X) X(0, cuLaunchKernel) X(1, cuLaunchKernelEx) X(2, cuLaunchCooperativeKernel) X(3, cuGraphLaunch)

// Saves the arguments, notes the call, and jumps on.
#define STUB(number, name)                                                                                            \
    __asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n.cfi_startproc\n"                         \
            "push %rdi\n.cfi_adjust_cfa_offset 8\npush %rsi\n.cfi_adjust_cfa_offset 8\n"                              \
            "push %rdx\n.cfi_adjust_cfa_offset 8\npush %rcx\n.cfi_adjust_cfa_offset 8\n"                              \
            "push %r8\n.cfi_adjust_cfa_offset 8\npush %r9\n.cfi_adjust_cfa_offset 8\n"                                \
            "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n"                                                                \
            "mov $" #number ", %edi\ncall note@PLT\n"                                                                 \
            "add $8, %rsp\n.cfi_adjust_cfa_offset -8\n"                                                               \
            "pop %r9\n.cfi_adjust_cfa_offset -8\npop %r8\n.cfi_adjust_cfa_offset -8\n"                                \
            "pop %rcx\n.cfi_adjust_cfa_offset -8\npop %rdx\n.cfi_adjust_cfa_offset -8\n"                              \
            "pop %rsi\n.cfi_adjust_cfa_offset -8\npop %rdi\n.cfi_adjust_cfa_offset -8\n"                              \
            "jmp *%rax\n.cfi_endproc\n");                                                                             \
    extern char name[];
FUNCTIONS(STUB)

static struct {
    const char *name;
    void *own, *real;
} functions[] = {
#define ENTRY(number, name) {#name, name, NULL},
    FUNCTIONS(ENTRY)};
enum { COUNT = sizeof functions / sizeof *functions };

static void *(*next_dlsym(void))(void *, const char *) {
    static void *(*next)(void *, const char *);
    if (!next) next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return next;
}

static const char *file_of(uintptr_t address) {
    Dl_info info;
    if (!dladdr((void *)address, &info) || !info.dli_fname) return "?";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *found) {
    uintptr_t address = _Unwind_GetIP(context);
    if (!address) return _URC_END_OF_STACK;
    const char *file = file_of(address - 1);
    if (strstr(file, "trace_callers") || !strncmp(file, "libcudart", 9) || !strncmp(file, "libcuda.so", 10))
        return _URC_NO_REASON;
    *(const char **)found = file;
    return _URC_END_OF_STACK;
}

// Called by the stubs; the real function.
void *note(unsigned number) {
    static int file = -1;
    const char *caller = "?";
    char line[512];
    if (file < 0) file = open(getenv("CALLERS") ? getenv("CALLERS") : "/dev/null", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    _Unwind_Backtrace(step, &caller);
    int length = snprintf(line, sizeof line, "%s\n", caller);
    if (write(file, line, length) != length) abort();
    if (!functions[number].real) functions[number].real = next_dlsym()(dlopen("libcuda.so.1", RTLD_LAZY), functions[number].name);
    return functions[number].real;
}

// The stub of a function of the driver's, or the function itself.
static void *stub_of(void *address) {
    for (unsigned i = 0; address && i < COUNT; i++) {
        if (!functions[i].real) functions[i].real = next_dlsym()(dlopen("libcuda.so.1", RTLD_LAZY), functions[i].name);
        if (address == functions[i].real) return functions[i].own;
    }
    return address;
}

typedef int (*First)(const char *, void **, int, uint64_t);
typedef int (*Second)(const char *, void **, int, uint64_t, void *);
static First first;
static Second second;

static int get_first(const char *name, void **out, int version, uint64_t flags);
static int get_second(const char *name, void **out, int version, uint64_t flags, void *status);

static void *given(void *address) {
    if (address && address == (void *)first) return (void *)get_first;
    if (address && address == (void *)second) return (void *)get_second;
    return stub_of(address);
}

static int get_first(const char *name, void **out, int version, uint64_t flags) {
    int code = first(name, out, version, flags);
    if (!code && out) *out = given(*out);
    return code;
}

static int get_second(const char *name, void **out, int version, uint64_t flags, void *status) {
    int code = second(name, out, version, flags, status);
    if (!code && out) *out = given(*out);
    return code;
}

void *dlsym(void *handle, const char *name) {
    void *found = next_dlsym()(handle, name);
    if (strncmp(name, "cu", 2)) return found;
    if (!strcmp(name, "cuGetProcAddress")) first = (First)found;
    if (!strcmp(name, "cuGetProcAddress_v2")) second = (Second)found;
    return given(found);
}
