//! A program under ptrace: its registers, its memory, and single steps.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use xsched_abi::unwind::Registers;

/// Why the program is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// At a breakpoint in its code, or after a single step.
    Trap,
    /// A signal is about to be delivered.
    Signal(i32),
    Exited(i32),
}

/// When the loader binds functions, including those of system libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// At their first calls.
    Lazy,
    /// Before the program begins.
    Now,
}

pub(crate) struct Traced {
    child: Child,
    memory: File,
    has_ended: bool,
}

/// An executable mapping of a file, or of the vDSO, which has the path `[vdso]`.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) file_offset: u64,
    pub(crate) path: String,
}

impl Traced {
    /// Starts a program, stopped before its first instruction.
    pub(crate) fn start(program: &Path, binding: Binding) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        match binding {
            Binding::Lazy => command.env_remove("LD_BIND_NOW"),
            Binding::Now => command.env("LD_BIND_NOW", "1"),
        };
        // SAFETY: ptrace is safe between fork and exec.
        unsafe {
            command.pre_exec(|| {
                if libc::ptrace(libc::PTRACE_TRACEME) == -1 {
                    Err(io::Error::last_os_error())
                } else {
                    Ok(())
                }
            });
        }
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?} is not traced: {error}"));
        let memory = File::open(format!("/proc/{}/mem", child.id())).expect("its memory");
        let mut traced = Self { child, memory, has_ended: false };
        assert_eq!(traced.wait(), Halt::Trap, "stopped by exec");
        traced
    }

    /// Continues the program, and delivers a signal unless it is 0.
    pub(crate) fn go_on(&mut self, signal: i32) -> Halt {
        self.resume(libc::PTRACE_CONT, signal)
    }

    /// Executes one instruction, and delivers a signal unless it is 0.
    pub(crate) fn step(&mut self, signal: i32) -> Halt {
        self.resume(libc::PTRACE_SINGLESTEP, signal)
    }

    fn resume(&mut self, request: libc::c_uint, signal: i32) -> Halt {
        // SAFETY: the requests take no pointer; the child is stopped.
        let done = unsafe { libc::ptrace(request, self.child.id(), 0, signal) };
        assert_ne!(done, -1, "{}", io::Error::last_os_error());
        self.wait()
    }

    fn wait(&mut self) -> Halt {
        let mut status = 0;
        // SAFETY: `status` is valid for writing.
        let pid = unsafe { libc::waitpid(self.child.id() as i32, &raw mut status, 0) };
        assert_eq!(pid, self.child.id() as i32, "{}", io::Error::last_os_error());
        if libc::WIFSTOPPED(status) {
            match libc::WSTOPSIG(status) {
                libc::SIGTRAP => Halt::Trap,
                signal => Halt::Signal(signal),
            }
        } else {
            self.has_ended = true;
            Halt::Exited(status)
        }
    }

    pub(crate) fn registers(&self) -> Registers {
        // SAFETY: the struct has only plain numbers, for which all zeros is a valid value.
        let mut all: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: the request writes to `all`, which is valid for that; the child is stopped.
        let done = unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.child.id(), 0, &raw mut all) };
        assert_ne!(done, -1, "{}", io::Error::last_os_error());
        Registers { rip: all.rip, rsp: all.rsp, rbp: all.rbp }
    }

    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.memory.read_exact_at(&mut word, address).ok()?;
        Some(u64::from_le_bytes(word))
    }

    /// Bytes from an address to the end of its mapping.
    pub(crate) fn bytes_from(&self, address: u64) -> Vec<u8> {
        let end =
            self.mappings().find(|(start, end, _)| (*start..*end).contains(&address)).expect("mapped").1;
        let mut bytes = vec![0; (end - address) as usize];
        self.memory.read_exact_at(&mut bytes, address).expect("its memory");
        bytes
    }

    pub(crate) fn code(&self) -> Vec<Code> {
        let executable =
            self.mappings().filter(|(_, _, rest)| rest.split(' ').next().is_some_and(|it| it.contains('x')));
        executable
            .filter_map(|(start, end, rest)| {
                let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
                let file_offset = u64::from_str_radix(fields[1], 16).expect("an offset");
                let path = (*fields.get(4)?).to_owned();
                (path.starts_with('/') || path == "[vdso]").then_some(Code { start, end, file_offset, path })
            })
            .collect()
    }

    fn mappings(&self) -> impl Iterator<Item = (u64, u64, String)> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.child.id())).expect("its mappings");
        let lines: Vec<String> = maps.lines().map(str::to_owned).collect();
        lines.into_iter().map(|line| {
            let (range, rest) = line.split_once(' ').expect("a line of mappings");
            let (start, end) = range.split_once('-').expect("a range");
            let number = |text| u64::from_str_radix(text, 16).expect("an address");
            (number(start), number(end), rest.to_owned())
        })
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if !self.has_ended {
            // The program must end also after a failed assertion.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
