//! The lines of `xsched-ctl doctor --pid` about gates: whether the arbiter stops the process's work on the device.

use xsched_protocol::shim_status::GateCounts;
use xsched_terminal::counted;

use super::shim::{advice, line};

/// What has the gates that were counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    /// Contexts of CUDA.
    Contexts,
    /// Devices, by each copy of a HIP runtime that uses them.
    Devices,
}

impl Of {
    fn counted(self, count: u32) -> String {
        let (one, many) = match self {
            Self::Contexts => ("context", "contexts"),
            Self::Devices => ("device", "devices"),
        };
        counted(u64::from(count), one, many)
    }

    /// What refuses gates, and from which version on it has them.
    fn maker(self) -> (&'static str, &'static str) {
        match self {
            Self::Contexts => ("driver", "a driver of CUDA 11.7 or later has them"),
            Self::Devices => (
                "runtime",
                "with GPU_STREAMOPS_CP_WAIT unset, streams wait with a kernel, which every device can",
            ),
        }
    }

    fn unasked(self) -> &'static str {
        match self {
            Self::Contexts => "no context has needed one yet: no more urgent process has used its device",
            Self::Devices => "none was needed yet: no more urgent process has used a device of this one",
        }
    }
}

/// A line for each kind of gate, and what can be done about it.
pub(super) fn lines(of: Of, counts: &GateCounts) -> String {
    let &GateCounts { shared, own, beyond, none, tried } = counts;
    let (maker, remedy) = of.maker();
    let refused = format!(
        "closed by the process itself, which must be woken first: the {maker} refuses the arbiter's page"
    );
    let none_there = format!("the {maker} refuses gates: what is launched runs, so little is launched ahead");
    let kinds = [
        (shared, "shared", "closed by the arbiter in the moment in which urgent work comes", ""),
        (
            beyond,
            "own",
            "closed by the process itself, which must be woken first: a page has room for 8 contexts on a device",
            "use fewer contexts on a device, or several processes",
        ),
        (own, "own", &*refused, "XSCHED_LOG names a file in which the shim says more when the process ends"),
        (none, "none", &*none_there, remedy),
        (tried, "tried", "not known yet, behind what the device has to do first", ""),
    ];
    let text: String = kinds
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, word, detail, remedy)| {
            let line = line("gates", word, &format!("{}: {detail}", of.counted(count)));
            if remedy.is_empty() { line } else { line + &advice(remedy) }
        })
        .collect();
    if text.is_empty() { line("gates", "unasked", of.unasked()) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_gate_has_a_line_and_what_is_not_as_it_should_be_a_remedy() {
        assert!(lines(Of::Contexts, &GateCounts::default()).starts_with("gates        unasked"));
        let shared = lines(Of::Contexts, &GateCounts { shared: 2, ..GateCounts::default() });
        let expected = "gates        shared   2 contexts: closed by the arbiter in the moment in which urgent work comes\n";
        assert_eq!(shared, expected);
        let all = lines(Of::Contexts, &GateCounts { shared: 8, own: 1, beyond: 2, none: 1, tried: 1 });
        let words: Vec<_> = all.lines().map(|line| line.trim_start().split(' ').next().unwrap()).collect();
        assert_eq!(words, ["gates", "gates", "->", "gates", "->", "gates", "->", "gates"]);
        assert!(
            all.contains("2 contexts: closed by the process itself") && all.contains("1 context: the driver"),
            "{all}"
        );
        let of_hip = lines(Of::Devices, &GateCounts { none: 1, ..GateCounts::default() });
        assert!(of_hip.contains("1 device: the runtime refuses gates"), "{of_hip}");
    }
}
