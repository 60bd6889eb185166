//! Display names of kernels: names of template instances can be many lines long.

use std::collections::HashMap;
use std::sync::Arc;

use xsched_symbols::fold_templates;

/// How kernels are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelNames {
    /// Whole names.
    #[default]
    Full,
    /// With `<…>` for template arguments, and without return types and parameters.
    Folded,
}

/// Limit on remembered names; when it is reached, all are dropped and made again.
const NAMES_MAX: usize = 16_384;

/// Folded names by whole names, each made once.
#[derive(Default)]
pub struct FoldedNames(HashMap<Arc<str>, Arc<str>>);

impl FoldedNames {
    /// The folded name of a kernel.
    pub fn of(&mut self, kernel: &Arc<str>) -> &Arc<str> {
        if self.0.len() >= NAMES_MAX && !self.0.contains_key(kernel) {
            self.0.clear();
        }
        self.0.entry(Arc::clone(kernel)).or_insert_with(|| fold_templates(kernel).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_folded_however_many_there_are() {
        let mut folded = FoldedNames::default();
        for number in 0..NAMES_MAX + 2 {
            let name = format!("void fill_{number}<{number}>(int)").into();
            assert_eq!(**folded.of(&name), format!("fill_{number}<…>"));
            assert!(folded.0.len() <= NAMES_MAX);
        }
    }
}
