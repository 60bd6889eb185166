//! The table of probed functions agrees with the signatures of HIP and CUDA (`tests/data`).

#![expect(clippy::unwrap_used, reason = "a test panics with the step that failed")]

mod cuda;
mod hip;

use std::collections::HashMap;

use wildmatch::WildMatch;
use xsched_protocol::probe::{PROBES, ParamKind, Pointee, Probe, Return, Runtime};

/// A function's return type and the types of its parameters.
struct Signature {
    ret: String,
    params: Vec<String>,
}

/// The functions of a runtime.
struct Api {
    runtime: Runtime,
    signatures: fn() -> HashMap<String, Signature>,
    /// What most functions return.
    error: &'static str,
    /// The type of a stream.
    stream: &'static str,
    /// Words of a struct that is passed on the stack because it is larger than 16 bytes.
    words_on_stack: fn(&str) -> Option<usize>,
    fits: fn(ParamKind, &str) -> bool,
    /// Functions that are not probed, with the reason.
    left_out: &'static [(&'static [&'static str], &'static str)],
}

impl Api {
    fn probes(&self) -> impl Iterator<Item = &'static Probe> {
        PROBES.iter().filter(|probe| probe.runtime == self.runtime)
    }

    /// The words in which each parameter is passed: six registers, then the stack; `dim3` takes two of them.
    fn words<'a>(&self, signature: &'a Signature) -> HashMap<usize, &'a str> {
        const REGISTERS: usize = 6;
        let (mut register, mut stack) = (0, REGISTERS);
        let mut words = HashMap::new();
        for param in &signature.params {
            let size = if param == "dim3" { 2 } else { 1 };
            let (at, size) = match (self.words_on_stack)(param) {
                None if register + size <= REGISTERS => (&mut register, size),
                None => (&mut stack, size),
                Some(size) => {
                    for word in 0..size {
                        words.insert(stack + word, "size_t");
                    }
                    (&mut stack, size)
                }
            };
            words.entry(*at).or_insert(param.as_str());
            *at += size;
        }
        words
    }

    fn check(&self, probe: &Probe, signature: &Signature) {
        let name = probe.name;
        let words = self.words(signature);
        for param in probe.params {
            let word = usize::from(param.offset / 8);
            if probe.pointee.is_some() && word >= 6 {
                // A field of a struct, whose layout is not in the list.
                continue;
            }
            let count = if matches!(param.kind, ParamKind::Dims | ParamKind::Threads) { 3 } else { 1 };
            for word in word..word + count {
                let c_type =
                    words.get(&word).unwrap_or_else(|| panic!("{name}: nothing starts at word {word}"));
                assert!(
                    (self.fits)(param.kind, c_type),
                    "{name}: {} is a `{c_type}`, not {:?}",
                    param.name,
                    param.kind
                );
            }
        }
        let argument = |index: Option<u8>| index.map(|index| words[&usize::from(index)]);
        let text = if probe.is_text_returned { "char**" } else { "char*" };
        assert!(argument(probe.text).is_none_or(|c_type| c_type == text), "{name}: text");
        assert!(argument(probe.out).is_none_or(|c_type| c_type.ends_with('*')), "{name}: out");
        let pointee = probe.pointee.map(|pointee| pointee.argument).filter(|&index| index != Pointee::STACK);
        assert!(argument(pointee).is_none_or(|c_type| c_type.ends_with('*')), "{name}: pointee");
        let ret = match probe.ret {
            Return::Error => self.error,
            Return::Pointer => "void**",
            Return::Void => "void",
        };
        assert_eq!(signature.ret, ret, "{name}");
    }

    /// The functions that are neither probed nor left out, and the patterns that match no function.
    fn forgotten(&self) -> (Vec<String>, Vec<&'static str>) {
        let is_probed = |name: &str| self.probes().any(|probe| probe.name == name);
        let patterns = || self.left_out.iter().flat_map(|(patterns, _)| patterns.iter().copied());
        let mut unused: Vec<_> = patterns().collect();
        let mut forgotten = Vec::new();
        for (name, signature) in (self.signatures)().into_iter().filter(|(name, _)| !is_probed(name)) {
            let pattern = patterns().find(|pattern| {
                // A function that takes a stream is left out only by its own name.
                let is_by_name = !pattern.contains('*');
                let is_ordered = signature.params.iter().any(|param| param == self.stream);
                WildMatch::new(pattern).matches(&name) && (is_by_name || !is_ordered)
            });
            match pattern {
                Some(pattern) => unused.retain(|unused| *unused != pattern),
                None => forgotten.push(name),
            }
        }
        forgotten.sort();
        (forgotten, unused)
    }
}

#[test]
fn every_probe_reads_what_its_function_is_passed() {
    for api in [hip::API, cuda::API] {
        let signatures = (api.signatures)();
        for probe in api.probes() {
            let found = signatures.get(probe.name);
            let signature = found.unwrap_or_else(|| panic!("{} has no `{}`", api.runtime.name(), probe.name));
            api.check(probe, signature);
        }
    }
}

#[test]
fn every_function_is_probed_or_left_out_for_a_reason() {
    for api in [hip::API, cuda::API] {
        let (forgotten, unused) = api.forgotten();
        let name = api.runtime.name();
        assert!(forgotten.is_empty(), "neither probed nor left out: {forgotten:#?}");
        assert!(unused.is_empty(), "left out, but {name} has no such function: {unused:?}");
    }
}

#[test]
fn no_function_is_probed_twice() {
    let mut names: Vec<_> =
        PROBES.iter().flat_map(|probe| probe.aliases.iter().copied().chain([probe.name])).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
