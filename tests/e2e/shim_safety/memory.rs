//! The system has no memory for the shim.

use std::process::Command;

use xsched_harness::needs;
use xsched_tests::artifacts::{app, shim};
use xsched_tests::tracer::run;

use crate::{SUSPENDED, compiled};

/// The C library's memory and the system's, which fail for the shim: at every nth request, or at all requests after the nth.
const REFUSING: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static uintptr_t begin, end;
static unsigned every, after;
static atomic_uint asked, refused;

static int find(struct dl_phdr_info *info, size_t size, void *known) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + header->p_vaddr;
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) continue;
        if ((uintptr_t)known - start < header->p_memsz) { begin = start; end = start + header->p_memsz; }
    }
    return 0;
}

/* The shim's own dlsym would allocate before it is found. */
extern uint64_t xsched_shim_call_count(const char *) __attribute__((weak));

/* The C library itself may not have begun yet. */
static unsigned number(char **environment, const char *name) {
    size_t len = strlen(name);
    for (; *environment; environment++)
        if (!strncmp(*environment, name, len) && (*environment)[len] == '=') return atoi(*environment + len + 1);
    return 0;
}

__attribute__((constructor)) static void look(int count, char **arguments, char **environment) {
    void *known = xsched_shim_call_count;
    every = number(environment, "REFUSE_EVERY");
    after = number(environment, "REFUSE_AFTER");
    if (known) dl_iterate_phdr(find, known);
}

__attribute__((destructor)) static void say(void) { fprintf(stderr, "refused %u\n", refused); }

static int refuses(void *caller) {
    if ((uintptr_t)caller - begin >= end - begin) return 0;
    unsigned number = atomic_fetch_add(&asked, 1) + 1;
    if (!(every && number % every == 0) && !(after && number > after)) return 0;
    atomic_fetch_add(&refused, 1);
    errno = ENOMEM;
    return 1;
}

#define REFUSE if (refuses(__builtin_return_address(0))) return NULL
void *malloc(size_t size) { REFUSE; return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { REFUSE; return __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { REFUSE; return __libc_realloc(old, size); }
void *aligned_alloc(size_t align, size_t size) { REFUSE; return __libc_memalign(align, size); }
int posix_memalign(void **out, size_t align, size_t size) {
    if (refuses(__builtin_return_address(0))) return ENOMEM;
    *out = __libc_memalign(align, size);
    return *out ? 0 : ENOMEM;
}
void *mmap(void *at, size_t size, int access, int flags, int file, off_t offset) {
    if ((flags & MAP_ANONYMOUS) && refuses(__builtin_return_address(0))) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, access, flags, file, offset);
}
void *mmap64(void *at, size_t size, int access, int flags, int file, off_t offset) {
    if ((flags & MAP_ANONYMOUS) && refuses(__builtin_return_address(0))) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, access, flags, file, offset);
}
int mprotect(void *at, size_t size, int access) {
    if (refuses(__builtin_return_address(0))) return -1;
    return syscall(SYS_mprotect, at, size, access);
}
"#;

/// A program of several threads and libraries.
const ARGUMENTS: [&str; 4] = ["--launches", "2000", "--threads", "3"];

/// Runs it suspended and without memory, by a variable; it must do what it does alone. Returns what it has said on standard error.
fn suspended(preload: &str, variable: &str, value: &str) -> String {
    let alone = run(Command::new(app("two_libraries")).args(ARGUMENTS));
    let with = run(Command::new(app("two_libraries"))
        .args(ARGUMENTS)
        .env("LD_PRELOAD", preload)
        .env(variable, value)
        .env("XSCHED_LOG", "stderr")
        .env("XSCHED_TEST_SUSPEND", SUSPENDED));
    let said = (with.code, with.stdout.as_str());
    assert_eq!(said, (0, alone.stdout.as_str()), "{variable}={value}: {}", with.stderr);
    with.stderr
}

fn assert_refused(said: &str, how: &str, prefix: &str) {
    let refused =
        said.lines().find_map(|line| line.strip_prefix(prefix)?.split(' ').next()?.parse::<u32>().ok());
    assert!(refused.is_some_and(|refused| refused > 0), "{how}: {said}");
}

#[needs(nothing)]
fn allocations_of_the_shim_fail() {
    let preload = shim().display().to_string();
    for value in ["every:1", "every:2", "every:3", "every:17", "after:100", "after:1000"] {
        let said = suspended(&preload, "XSCHED_TEST_MEMORY", value);
        assert_refused(&said, value, "xsched-shim: memory was refused ");
    }
}

#[needs(nothing)]
fn the_system_and_the_c_library_refuse_the_shim_memory() {
    let folder = tempfile::tempdir().unwrap();
    // Its constructor runs before any that needs memory of the shim's.
    let flags = ["-shared", "-fPIC", "-Wl,-z,initfirst"];
    let refusing = compiled(folder.path(), "librefusing.so", REFUSING, &flags);
    let preload = format!("{}:{}", shim().display(), refusing.display());
    for (variable, value) in
        [("REFUSE_EVERY", "1"), ("REFUSE_EVERY", "2"), ("REFUSE_AFTER", "1"), ("REFUSE_AFTER", "2")]
    {
        let said = suspended(&preload, variable, value);
        assert_refused(&said, &format!("{variable}={value}"), "refused ");
    }
}
