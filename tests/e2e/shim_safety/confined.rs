//! Programs with few rights: seccomp, set-user-id.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use xsched_harness::needs;
use xsched_tests::artifacts::shim;
use xsched_tests::needs::{OTHER_USERS, SET_USER_ID};
use xsched_tests::tracer::run;

use crate::{compiled, python, suspended, with_runtime};

/// Forbids this thread to start threads, once those of runtime and test run.
const NO_THREADS: &str = "
import struct, time
def forbid(*calls):
    lines = [(0x20, 0, 0, 0)]
    lines += [(0x15, len(calls) - at, 0, call) for at, call in enumerate(calls)]
    lines += [(0x06, 0, 0, 0x7fff0000), (0x06, 0, 0, 0x00050000 | 11)]
    code = ctypes.create_string_buffer(b''.join(struct.pack('=HBBI', *line) for line in lines))
    program = ctypes.create_string_buffer(struct.pack('=HxxxxxxQ', len(lines), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, program) == 0, ctypes.get_errno()
CLONE, CLONE3 = 56, 435
stream, memory = new(hip.hipStreamCreate), new(hip.hipMalloc, size)
# Copies that wait for themselves start the runtime's threads; an operation that can be deferred might start the shim's.
ok(hip.hipMemcpyWithStream(memory, b'x' * SIZE, size, 1, stream))
contents(memory)
forbid(CLONE, CLONE3)
try:
    threading.Thread(target=print).start()
    print('threads')
except RuntimeError:
    print('no threads')
for round in range(3000):
    ok(hip.hipMemsetAsync(memory, round % 256, size, stream))
    # The thread that suspends needs time, too.
    if round % 10 == 0: time.sleep(.001)
ok(hip.hipStreamSynchronize(stream))
print(contents(memory))
";

#[needs(nothing)]
fn the_shim_works_where_no_thread_can_be_started() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let alone = run(&mut python(NO_THREADS));
    assert!(alone.stdout.starts_with("no threads\n"), "{}{}", alone.stdout, alone.stderr);
    let with = run(&mut suspended(python(NO_THREADS), log.path()));
    assert_eq!((with.code, &with.stdout, &with.stderr), (0, &alone.stdout, &alone.stderr));
    let summary = fs::read_to_string(log.path()).unwrap();
    assert!(summary.contains("waited in place"), "nothing was suspended: {summary}");
    assert!(!summary.contains("  deferred"), "no thread could have launched it: {summary}");
}

/// Calls HIP while only the system calls of the program itself are allowed. With `STRICT` any other one ends the program; else
/// others fail, and the program calls HIP from one new call site.
const CONFINED: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int hipMalloc(void **, size_t);
int hipMemsetAsync(void *, int, size_t, void *);
int hipStreamCreate(void **);
int hipStreamQuery(void *);

#ifdef STRICT
#define OTHERS SECCOMP_RET_KILL_PROCESS
#else
#define OTHERS (SECCOMP_RET_ERRNO | EPERM)
#endif

static void confine(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, OTHERS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(3);
}

int main(void) {
    void *memory, *stream;
    int errors = 0;
    if (hipMalloc(&memory, 4096) || hipStreamCreate(&stream)) return 2;
    for (int i = 0; i < 10000; i++) {
        if (i == 10) confine();
        errors += hipMemsetAsync(memory, i, 4096, stream) != 0;
        errors += hipStreamQuery(stream) != 0;
    }
#ifndef STRICT
    for (int i = 0; i < 10; i++) errors += hipMemsetAsync(memory, i, 64, stream) != 0;
#endif
    write(1, errors ? "bad\n" : "ok\n", errors ? 4 : 3);
    _exit(0);
}
"#;

#[needs(nothing)]
fn calls_make_no_system_calls_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let [runtime, path] = with_runtime();
    for (name, flag) in [("strict", "-DSTRICT"), ("lenient", "-DLENIENT")] {
        let program = compiled(folder.path(), name, CONFINED, &[&runtime, &path, flag]);
        let mut alone = Command::new(&program);
        // The null mode's calls do nothing, so that the runtime itself makes no system calls.
        alone.env("HIP_SIM_NULL", "1");
        let outcome = run(&mut alone);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "ok\n"), "{name} alone: {}", outcome.stderr);
        for variable in ["LD_PRELOAD", "ROCPROFILER_REGISTER_LIBRARY"] {
            let outcome = run(Command::new(&program).env("HIP_SIM_NULL", "1").env(variable, shim()));
            let said = (outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str());
            assert_eq!(said, (0, "ok\n", ""), "{name} by {variable}");
        }
    }
}

const PROGRAM: &str = r#"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/auxv.h>

int hipStreamCreate(void **);
uint64_t xsched_shim_call_count(const char *) __attribute__((weak));

int main(void) {
    void *stream;
    int code = hipStreamCreate(&stream);
    long count = xsched_shim_call_count ? (long)xsched_shim_call_count("hipStreamCreate") : -1;
    printf("%d, secure %lu, counted %ld\n", code, getauxval(AT_SECURE), count);
}
"#;

/// A user other than the file's owner.
const NOBODY: u32 = 65534;

#[needs(OTHER_USERS, SET_USER_ID)]
fn in_a_set_user_id_program_the_environment_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let [runtime, path] = with_runtime();
    let shim = shim().display().to_string();
    let log = folder.path().join("log");
    // The loader preloads no file by its path into such a program; a linked shim is loaded.
    for (name, linked, counted) in [("preloaded", &[][..], -1), ("linked", &["-Wl,--no-as-needed", &shim], 1)]
    {
        let flags: Vec<&str> = [&runtime as &str, &path].into_iter().chain(linked.iter().copied()).collect();
        let program = compiled(folder.path(), name, PROGRAM, &flags);
        chown(&program, Some(0), Some(0)).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        let outcome = run(Command::new(&program)
            .uid(NOBODY)
            .gid(NOBODY)
            .env("HIP_SIM_SHARED", "off")
            .env("LD_PRELOAD", &shim)
            .env("XSCHED_LOG", &log)
            .env("XSCHED_TEST_SUSPEND", crate::SUSPENDED));
        let said = (outcome.code, outcome.stdout);
        assert_eq!(said, (0, format!("0, secure 1, counted {counted}\n")), "{name}: {}", outcome.stderr);
        assert!(!log.exists(), "{name}: the shim wrote a file that another user named");
    }
}
