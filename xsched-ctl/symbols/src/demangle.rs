//! Demangles names, and removes the prefixes and suffixes that HIP adds.
//!
//! A kernel has several symbols, and `kernel_name` gives the same text for all of them:
//!
//! * the host stub: `__device_stub__scale`, inside the mangled name (`_ZN4demo22__device_stub__scale...`);
//! * the handle object and the device function, with the mangled name of the kernel itself;
//! * the kernel descriptor, which adds `.kd` (<https://llvm.org/docs/AMDGPUUsage.html#symbols>).

use std::fmt::Write;

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

/// The longest text that is returned. With substitutions a short mangled name can stand for an exponentially long one.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// The prefix that clang adds to the name of a kernel for its host stub.
const STUB_PREFIX: &str = "__device_stub__";

/// The full C++ or Rust name, or `mangled` itself if it is not a mangled name.
pub fn demangle(mangled: &str) -> String {
    demangle_as(mangled, DemangleOptions::new())
}

/// The full name of a kernel, from the name of its stub, handle, device function or descriptor.
pub fn kernel_name(mangled: &str) -> String {
    without_stub_prefix(demangle(kernel_symbol(mangled)))
}

/// The name for display: no return type, no parameter list, template arguments kept (`demo::scale<float>`).
/// For all symbols of a kernel, and for other functions.
pub fn short_name(mangled: &str) -> String {
    without_stub_prefix(demangle_as(
        kernel_symbol(mangled),
        DemangleOptions::new().no_params().no_return_type(),
    ))
}

/// Removes the suffix after the mangled name of a kernel.
fn kernel_symbol(mangled: &str) -> &str {
    let symbol = mangled.strip_suffix(".kd").unwrap_or(mangled);
    // clang makes internal kernels unique across translation units with such a suffix and a hash.
    let end = [".static.", ".intern."].iter().filter_map(|mark| symbol.find(mark)).min();
    &symbol[..end.unwrap_or(symbol.len())]
}

fn demangle_as(mangled: &str, options: DemangleOptions) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(mangled) {
        let mut text = Bounded::default();
        // `{:#}` omits the hash.
        if write!(text, "{rust:#}").is_ok() {
            return text.0;
        }
        return mangled.to_owned();
    }
    if !mangled.starts_with("_Z") {
        return mangled.to_owned();
    }
    let Ok(symbol) = BorrowedSymbol::new(mangled.as_bytes()) else { return mangled.to_owned() };
    let mut text = Bounded::default();
    match symbol.structured_demangle(&mut text, &options) {
        Ok(()) => text.0,
        Err(_) => mangled.to_owned(),
    }
}

fn without_stub_prefix(name: String) -> String {
    if name.contains(STUB_PREFIX) { name.replace(STUB_PREFIX, "") } else { name }
}

/// Text with a limited length.
#[derive(Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > TEXT_BYTES_MAX {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: &str = "_ZN4demo5scaleIfEEvPT_S1_i";
    const SCALE_STUB: &str = "_ZN4demo20__device_stub__scaleIfEEvPT_S1_i";

    #[test]
    fn all_symbols_of_a_kernel_give_one_name() {
        let full = "void demo::scale<float>(float*, float, int)";
        for symbol in
            [SCALE.to_owned(), SCALE_STUB.to_owned(), format!("{SCALE}.kd"), format!("{SCALE}.intern.0a1b2c")]
        {
            assert_eq!(kernel_name(&symbol), full, "{symbol}");
            assert_eq!(short_name(&symbol), "demo::scale<float>", "{symbol}");
        }
    }

    #[test]
    fn c_names_lose_only_the_stub_prefix() {
        assert_eq!(kernel_name("__device_stub__saxpy"), "saxpy");
        assert_eq!(kernel_name("saxpy.kd"), "saxpy");
        assert_eq!(short_name("main"), "main");
        assert_eq!(demangle("rocblas_sgemm"), "rocblas_sgemm");
    }

    #[test]
    fn rust_names_of_both_manglings() {
        assert_eq!(demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"), "core::fmt::Formatter::pad");
        assert_eq!(demangle("_RNvC6_123foo3bar"), "123foo::bar");
    }

    #[test]
    fn names_that_cannot_be_demangled_are_returned_unchanged() {
        for odd in ["", "_Z", "_ZN", "_ZNSt", "_R", "_RNv", "_Z3fo", "\u{1F600}", "?foo@@YAXXZ"] {
            assert_eq!(demangle(odd), odd);
            let _ = (kernel_name(odd), short_name(odd));
        }
    }

    #[test]
    fn long_names_are_demangled() {
        let identifier = "a".repeat(10_000);
        let mangled = format!("_Z{}{identifier}v", identifier.len());
        assert_eq!(demangle(&mangled), format!("{identifier}()"));
        assert_eq!(short_name(&mangled), identifier);
    }

    /// Each further parameter is a pair of the previous one, twice: 2^rounds words in full.
    fn doubling(rounds: usize) -> String {
        const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let mut mangled = String::from("_Z1fSt4pairIiiE");
        for &digit in &DIGITS[..rounds] {
            let last = char::from(digit);
            write!(mangled, "S_IS{last}_S{last}_E").unwrap();
        }
        mangled
    }

    #[test]
    fn exponentially_long_names_stay_mangled() {
        let pair = "std::pair<int, int>";
        assert_eq!(demangle(&doubling(1)), format!("f({pair}, std::pair<{pair}, {pair} >)"));
        assert_eq!(demangle(&doubling(30)), doubling(30));
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        let mangled = format!("_Z1f{}i", "P".repeat(100_000));
        assert_eq!(demangle(&mangled), mangled);
    }
}
