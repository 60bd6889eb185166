//! Definitions of a sequence by number.

use std::{cmp::Ordering, collections::HashMap};

use foldhash::fast::RandomState;

use crate::schema::InternedString;

/// Texts, or other definitions, by number. Writers mostly count from one, so most entries are found by their index.
#[derive(Debug)]
pub(super) struct Table<T> {
    in_order: Vec<T>,
    others: HashMap<u64, T, RandomState>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { in_order: Vec::new(), others: HashMap::default() }
    }
}

impl<T> Table<T> {
    /// The entry with this number; `None` if it was not defined.
    #[inline]
    pub(super) fn get(&self, iid: u64) -> Option<&T> {
        self.in_order.get((iid as usize).wrapping_sub(1)).or_else(|| self.others.get(&iid))
    }

    pub(super) fn extend(&mut self, entries: &[InternedString], intern: &mut impl FnMut(&str) -> T) {
        for entry in entries {
            self.insert(entry.iid(), intern(&String::from_utf8_lossy(entry.text())));
        }
    }

    pub(super) fn insert(&mut self, iid: u64, value: T) {
        let index = (iid as usize).wrapping_sub(1);
        match index.cmp(&self.in_order.len()) {
            Ordering::Less => self.in_order[index] = value,
            Ordering::Equal => self.in_order.push(value),
            Ordering::Greater => _ = self.others.insert(iid, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_defined_in_any_order() {
        let mut table = Table::default();
        let entry = |(iid, text): (u64, &str)| InternedString { iid: Some(iid), text: Some(text.into()) };
        let mut define = |entries: &[(u64, &str)]| {
            let entries: Vec<_> = entries.iter().copied().map(entry).collect();
            table.extend(&entries, &mut |text| text.to_owned());
        };
        define(&[(1, "a"), (2, "b"), (9, "i"), (u64::MAX, "z"), (0, "nought")]);
        define(&[(3, "c"), (2, "B"), (9, "I")]);
        let found = [0, 1, 2, 3, 4, 9, u64::MAX].map(|iid| table.get(iid).map(String::as_str));
        let expected = [Some("nought"), Some("a"), Some("B"), Some("c"), None, Some("I"), Some("z")];
        assert_eq!(found, expected);
    }
}
