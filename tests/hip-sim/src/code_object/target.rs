//! The target of a code object, and whether a device can run it.
//!
//! A target is a processor with settings of its two switchable features, `gfx942:sramecc+:xnack-`. Code
//! without a setting runs with either; code with a setting runs only on a device with the same one.

use core::fmt;
use core::str::FromStr;

/// A feature's setting: on, off, or none for code that runs with either.
type Setting = Option<bool>;

/// A processor with settings of its features.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    processor: String,
    sramecc: Setting,
    xnack: Setting,
}

/// How well code fits a device; the last is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// Compiled for the device's whole family, such as `gfx9-4-generic`.
    Generic,
    /// Compiled for the device's processor.
    Exact,
}

/// Processors that have error-correcting memory as a switchable feature.
const WITH_SRAMECC: [&str; 7] = ["gfx906", "gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"];
/// Processors that can retry memory accesses after a page fault, as a switchable feature.
const WITH_XNACK: [&str; 16] = [
    "gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909", "gfx90a", "gfx90c", "gfx940", "gfx941",
    "gfx942", "gfx950", "gfx1010", "gfx1011", "gfx1012", "gfx1013",
];

/// Generic processors and the processors that run their code: LLVM's [User Guide for AMDGPU
/// Backend](https://llvm.org/docs/AMDGPUUsage.html).
const GENERIC: [(&str, &[&str]); 6] = [
    ("gfx9-generic", &["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"]),
    ("gfx9-4-generic", &["gfx940", "gfx941", "gfx942", "gfx950"]),
    ("gfx10-1-generic", &["gfx1010", "gfx1011", "gfx1012", "gfx1013"]),
    ("gfx10-3-generic", &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"]),
    (
        "gfx11-generic",
        &["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"],
    ),
    ("gfx12-generic", &["gfx1200", "gfx1201"]),
];

/// `EF_AMDGPU_MACH` of the processors known here.
const MACHINES: [(u32, &str); 37] = [
    (0x2c, "gfx900"),
    (0x2d, "gfx902"),
    (0x2e, "gfx904"),
    (0x2f, "gfx906"),
    (0x30, "gfx908"),
    (0x31, "gfx909"),
    (0x32, "gfx90c"),
    (0x33, "gfx1010"),
    (0x34, "gfx1011"),
    (0x35, "gfx1012"),
    (0x36, "gfx1030"),
    (0x37, "gfx1031"),
    (0x38, "gfx1032"),
    (0x39, "gfx1033"),
    (0x3d, "gfx1035"),
    (0x3e, "gfx1034"),
    (0x3f, "gfx90a"),
    (0x40, "gfx940"),
    (0x41, "gfx1100"),
    (0x42, "gfx1013"),
    (0x43, "gfx1150"),
    (0x44, "gfx1103"),
    (0x45, "gfx1036"),
    (0x46, "gfx1101"),
    (0x47, "gfx1102"),
    (0x48, "gfx1200"),
    (0x4a, "gfx1151"),
    (0x4b, "gfx941"),
    (0x4c, "gfx942"),
    (0x4e, "gfx1201"),
    (0x4f, "gfx950"),
    (0x51, "gfx9-generic"),
    (0x52, "gfx10-1-generic"),
    (0x53, "gfx10-3-generic"),
    (0x54, "gfx11-generic"),
    (0x59, "gfx12-generic"),
    (0x5f, "gfx9-4-generic"),
];

impl FromStr for Target {
    type Err = ();

    /// `gfx90a:xnack-`
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split(':');
        let processor = parts.next().filter(|name| name.starts_with("gfx")).ok_or(())?.to_owned();
        let mut target = Self { processor, sramecc: None, xnack: None };
        for feature in parts {
            match feature.split_at_checked(feature.len().saturating_sub(1)) {
                Some(("sramecc", setting)) => target.sramecc = Some(is_on(setting)?),
                Some(("xnack", setting)) => target.xnack = Some(is_on(setting)?),
                _ => return Err(()),
            }
        }
        Ok(target)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.processor)?;
        for (feature, setting) in [("sramecc", self.sramecc), ("xnack", self.xnack)] {
            if let Some(is_on) = setting {
                write!(f, ":{feature}{}", if is_on { '+' } else { '-' })?;
            }
        }
        Ok(())
    }
}

fn is_on(setting: &str) -> Result<bool, ()> {
    match setting {
        "+" => Ok(true),
        "-" => Ok(false),
        _ => Err(()),
    }
}

impl Target {
    /// A device of this name. A feature that the name does not set has the hardware's default: memory
    /// corrects errors, accesses are not retried.
    pub(super) fn of_device(arch: &str) -> Option<Self> {
        let mut device: Self = arch.parse().ok()?;
        if WITH_SRAMECC.contains(&device.processor.as_str()) {
            device.sramecc.get_or_insert(true);
        }
        if WITH_XNACK.contains(&device.processor.as_str()) {
            device.xnack.get_or_insert(false);
        }
        Some(device)
    }

    /// The target that an ELF file states in `e_flags` and `EI_ABIVERSION`; none for processors unknown here.
    pub(super) fn of_elf(flags: u32, abi_version: u8) -> Option<Self> {
        let (_, processor) = MACHINES.iter().find(|(machine, _)| *machine == flags & 0xff)?;
        let (xnack, sramecc) = if abi_version < ABI_VERSION_4 {
            // One bit each; it counts only for processors that have the feature.
            let bit = |mask, having: &[&str]| having.contains(processor).then_some(flags & mask != 0);
            (bit(0x100, &WITH_XNACK), bit(0x200, &WITH_SRAMECC))
        } else {
            // The values are unsupported, any, off, on.
            let field = |shift: u32| match flags >> shift & 3 {
                2 => Some(false),
                3 => Some(true),
                _ => None,
            };
            (field(8), field(10))
        };
        Some(Self { processor: (*processor).to_owned(), sramecc, xnack })
    }

    /// Whether this device runs `code`, and how well it fits.
    pub(super) fn fit(&self, code: &Self) -> Option<Fit> {
        let agrees = |code: Setting, device: Setting| code.is_none() || code == device;
        if !agrees(code.sramecc, self.sramecc) || !agrees(code.xnack, self.xnack) {
            return None;
        }
        if code.processor == self.processor {
            return Some(Fit::Exact);
        }
        let (_, family) = GENERIC.iter().find(|(generic, _)| *generic == code.processor)?;
        family.contains(&self.processor.as_str()).then_some(Fit::Generic)
    }
}

/// `EI_ABIVERSION` of code object version 4; the versions are consecutive.
const ABI_VERSION_4: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn fit(device: &str, code: &str) -> Option<Fit> {
        Target::of_device(device).unwrap().fit(&code.parse().unwrap())
    }

    #[test]
    fn a_setting_must_match_the_devices() {
        assert_eq!(fit("gfx90a", "gfx90a"), Some(Fit::Exact));
        assert_eq!(fit("gfx90a", "gfx90a:sramecc+:xnack-"), Some(Fit::Exact), "the hardware's default");
        assert_eq!(fit("gfx90a", "gfx90a:xnack+"), None);
        assert_eq!(fit("gfx90a:xnack+", "gfx90a:xnack+"), Some(Fit::Exact));
        assert_eq!(fit("gfx90a:sramecc-", "gfx90a:sramecc+"), None);
        assert_eq!(fit("gfx1100", "gfx1100:xnack-"), None, "it does not have the feature");
    }

    #[test]
    fn a_family_runs_its_generic_code() {
        assert_eq!(fit("gfx942", "gfx9-4-generic"), Some(Fit::Generic));
        assert_eq!(fit("gfx942", "gfx9-generic"), None);
        assert_eq!(fit("gfx942", "gfx90a"), None);
        assert!(Fit::Exact > Fit::Generic);
    }

    #[test]
    fn a_device_states_all_settings() {
        let spelled = |arch| Target::of_device(arch).unwrap().to_string();
        assert_eq!(spelled("gfx942"), "gfx942:sramecc+:xnack-");
        assert_eq!(spelled("gfx90a:xnack+"), "gfx90a:sramecc+:xnack+");
        assert_eq!(spelled("gfx1030"), "gfx1030");
    }

    #[test]
    fn names_that_are_no_targets_are_refused() {
        for text in ["", "x86_64", "gfx90a:xnack", "gfx90a:speed+", "gfx90a:"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn flags_of_old_and_new_files_are_read() {
        let target = |text: &str| text.parse::<Target>().ok();
        // gfx90a with any xnack, sramecc on.
        assert_eq!(Target::of_elf(0x3f | 0x100 | 0xc00, ABI_VERSION_4), target("gfx90a:sramecc+"));
        assert_eq!(Target::of_elf(0x3f | 0x200, ABI_VERSION_4), target("gfx90a:xnack-"));
        assert_eq!(Target::of_elf(0x3f | 0x100, 1), target("gfx90a:sramecc-:xnack+"));
        assert_eq!(Target::of_elf(0x41, 1), target("gfx1100"));
        assert_eq!(Target::of_elf(0x00, ABI_VERSION_4), None);
    }
}
