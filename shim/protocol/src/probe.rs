//! The only table of probed functions.
//!
//! The programs are the same for every function; a [`Cookie`], attached to each probe, selects what they read.
//! User space decodes the argument words by the table. `tests/apis` checks the signatures against those of HIP and CUDA.

mod function;
mod table;

pub use function::{Category, Param, ParamKind, Pointee, Probe, Return, Runtime};
pub use table::PROBES;

/// Argument words that a record carries.
pub const WORD_COUNT: usize = 11;

/// The argument words of a call under the System V AMD64 ABI.
///
/// ```text
/// word   0    1    2    3    4    5    6 .. 9            10
///        rdi  rsi  rdx  rcx  r8   r9   stack arguments   0
///                                      6 .. 10: the first 40 bytes of the struct behind an argument,
///                                      where the probe's cookie asks for it
/// ```
///
/// A struct of up to 16 bytes that is passed by value (`dim3`) lies in two consecutive words, so its fields are
/// contiguous here as they are in memory.
pub type Words = [u64; WORD_COUNT];

/// The 64 bits that the kernel passes to the program with every hit of a probe.
///
/// ```text
/// bits  0..16  index into PROBES
///      16..20  text argument + 1, or 0
///      20..24  out argument + 1, or 0
///      24..28  pointee argument + 1, or 0; 15: the stack
///      28..40  pointee offset, in units of eight bytes
///      40      starts kernels
///      41      names kernels
///      42      its calls have no chain
///      43      the text argument points to where a pointer to the text is returned
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie(pub u64);

impl Cookie {
    /// Cookie of the function at `index` in [`PROBES`].
    ///
    /// # Panics
    ///
    /// If `index` is beyond the table.
    pub const fn of(index: usize) -> Self {
        let probe = &PROBES[index];
        Self(
            index as u64
                | Self::field(probe.text) << 16
                | Self::field(probe.out) << 20
                | match probe.pointee {
                    Some(Pointee { argument, offset }) => {
                        assert!(
                            offset.is_multiple_of(8) && offset / 8 < 1 << 12,
                            "the offset fits its field"
                        );
                        Self::field(Some(argument)) << 24 | (offset as u64 / 8) << 28
                    }
                    None => 0,
                }
                | (matches!(probe.category, Category::Launch) as u64) << 40
                | (probe.category.names_kernels() as u64) << 41
                | (matches!(probe.category, Category::Register) as u64) << 42
                | (probe.is_text_returned as u64) << 43,
        )
    }

    const fn field(argument: Option<u8>) -> u64 {
        match argument {
            Some(index) => index as u64 + 1,
            None => 0,
        }
    }

    const fn argument(self, shift: u32) -> Option<usize> {
        match (self.0 >> shift) & 0xf {
            0 => None,
            n => Some(n as usize - 1),
        }
    }

    /// Index into [`PROBES`].
    pub const fn probe(self) -> u32 {
        (self.0 & 0xffff) as u32
    }

    /// Argument that points to a name.
    pub const fn text(self) -> Option<usize> {
        self.argument(16)
    }

    /// Whether it points to where a pointer to the name is returned.
    pub const fn is_text_returned(self) -> bool {
        self.0 & 1 << 43 != 0
    }

    /// Argument that points to where a handle is returned.
    pub const fn out(self) -> Option<usize> {
        self.argument(20)
    }

    /// Argument that points to a struct to keep, or [`Pointee::STACK`].
    pub const fn pointee(self) -> Option<usize> {
        self.argument(24)
    }

    /// Where to begin there, in bytes.
    pub const fn pointee_offset(self) -> u64 {
        ((self.0 >> 28) & 0xfff) * 8
    }

    /// Whether the function starts kernels.
    pub const fn is_launch(self) -> bool {
        self.0 & 1 << 40 != 0
    }

    /// Whether the function names kernels: then its calls are always recorded.
    pub const fn names_kernels(self) -> bool {
        self.0 & 1 << 41 != 0
    }

    /// Whether the call chain of its calls is recorded. Not for registration: thousands of kernels are registered from
    /// an instruction each, all by their library's constructor.
    pub const fn has_chain(self) -> bool {
        self.0 & 1 << 42 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_carry_the_table() {
        for (index, probe) in PROBES.iter().enumerate() {
            let cookie = Cookie::of(index);
            assert_eq!(cookie.probe() as usize, index);
            assert_eq!(cookie.text(), probe.text.map(usize::from), "{}", probe.name);
            assert_eq!(cookie.is_text_returned(), probe.is_text_returned, "{}", probe.name);
            assert_eq!(cookie.out(), probe.out.map(usize::from), "{}", probe.name);
            let pointee = cookie.pointee().map(|argument| (argument as u8, cookie.pointee_offset() as u16));
            let expected = probe.pointee.map(|pointee| (pointee.argument, pointee.offset));
            assert_eq!(pointee, expected, "{}", probe.name);
            assert_eq!(cookie.is_launch(), probe.category == Category::Launch, "{}", probe.name);
            assert_eq!(cookie.names_kernels(), probe.category.names_kernels(), "{}", probe.name);
            assert_eq!(cookie.has_chain(), probe.category != Category::Register, "{}", probe.name);
        }
    }

    #[test]
    fn functions_that_do_the_same_have_one_stem() {
        let found = [
            "hipModuleGetFunction",
            "cuModuleGetFunction",
            "hipStreamEndCapture_spt",
            "cuStreamEndCapture_ptsz",
            "cuMemcpyDtoH_v2_ptds",
            "__hipRegisterFunction",
        ]
        .map(|name| PROBES.iter().find(|probe| probe.name == name).map(|probe| (probe.runtime, probe.stem)));
        let (hip, cuda) = (|stem| Some((Runtime::Hip, stem)), |stem| Some((Runtime::Cuda, stem)));
        let expected = [
            hip("ModuleGetFunction"),
            cuda("ModuleGetFunction"),
            hip("StreamEndCapture"),
            cuda("StreamEndCapture"),
            cuda("MemcpyDtoH"),
            hip("RegisterFunction"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn arguments_read_by_the_programs_are_in_registers() {
        for probe in PROBES {
            let pointee = probe.pointee.map(|pointee| pointee.argument);
            for argument in [probe.text, probe.out, pointee].into_iter().flatten() {
                assert!(argument < 6 || Some(Pointee::STACK) == pointee, "{}", probe.name);
            }
        }
    }

    #[test]
    fn params_lie_within_the_words() {
        for probe in PROBES {
            for param in probe.params {
                let end = usize::from(param.offset) + param.kind.size();
                assert!(end <= size_of::<Words>(), "{} {}", probe.name, param.name);
            }
        }
    }
}
