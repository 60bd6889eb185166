//! The system has no memory for the shim.

use std::process::Command;

use xsched_harness::needs;
use xsched_tests::artifacts::{app, shim};
use xsched_tests::tracer::run;

use crate::{SUSPENDED, compiled};

/// The C library's allocator, which fails for the shim: at every nth request, or at all requests after the nth.
const REFUSING: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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

__attribute__((constructor)) static void look(void) {
    void *known = dlsym(RTLD_DEFAULT, "xsched_shim_call_count");
    const char *each = getenv("REFUSE_EVERY"), *later = getenv("REFUSE_AFTER");
    every = each ? atoi(each) : 0;
    after = later ? atoi(later) : 0;
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
"#;

#[needs(nothing)]
fn allocations_of_the_shim_fail() {
    let folder = tempfile::tempdir().unwrap();
    let refusing = compiled(folder.path(), "librefusing.so", REFUSING, &["-shared", "-fPIC", "-ldl"]);
    let preload = format!("{}:{}", shim().display(), refusing.display());
    let arguments = ["--launches", "2000", "--threads", "3"];
    let alone = run(Command::new(app("two_libraries")).args(arguments));
    for (variable, value) in [
        ("REFUSE_EVERY", "1"),
        ("REFUSE_EVERY", "2"),
        ("REFUSE_EVERY", "3"),
        ("REFUSE_EVERY", "17"),
        ("REFUSE_AFTER", "100"),
        ("REFUSE_AFTER", "1000"),
    ] {
        let with = run(Command::new(app("two_libraries"))
            .args(arguments)
            .env("LD_PRELOAD", &preload)
            .env(variable, value)
            .env("XSCHED_TEST_SUSPEND", SUSPENDED));
        let said = (with.code, with.stdout.as_str());
        assert_eq!(said, (0, alone.stdout.as_str()), "{variable}={value}: {}", with.stderr);
        let refused = with.stderr.trim().strip_prefix("refused ").and_then(|count| count.parse::<u32>().ok());
        assert!(refused.is_some_and(|refused| refused > 0), "{variable}={value}: {}", with.stderr);
    }
}
