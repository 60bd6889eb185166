//! Interned texts: each is written once and referred to by number (iid) until the state is cleared.

mod gpu;
mod stacks;

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;

use self::{gpu::Specifications, stacks::Stacks};
use crate::{
    schema::{InternedData, InternedString},
    text,
};

/// How much a writer remembers. Beyond a limit it forgets the entries and writes them again when they are
/// used. That makes the trace larger, but not wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of interned text.
    pub interned_bytes: usize,
    /// Number of interned texts.
    pub interned_count: usize,
    /// Number of tracks that the writer remembers as described.
    pub track_count: usize,
}

impl Default for Limits {
    /// 8 MiB of text, 65,536 texts, 16,384 tracks: about 15 MiB of memory when full.
    fn default() -> Self {
        Self { interned_bytes: 8 << 20, interned_count: 1 << 16, track_count: 1 << 14 }
    }
}

/// Perfetto's tables of texts; each has its own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Category,
    EventName,
    AnnotationName,
    AnnotationValue,
    Function,
    Library,
}

/// The writer's side of the interning tables of one sequence.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    tables: [HashMap<Box<str>, u64, RandomState>; 6],
    /// Values by address. Keeping a value here keeps its address from being used again.
    shared: HashMap<usize, (Arc<str>, u64), RandomState>,
    stacks: Stacks,
    gpu: Specifications,
    limits: Limits,
    bytes: usize,
    count: usize,
    /// Definitions since the last packet, which the next packet must carry.
    pending: Option<Box<InternedData>>,
}

impl Interner {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Whether the tables should be cleared before the next packet. One packet may overshoot the limits by
    /// its own texts.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > self.limits.interned_bytes || self.count > self.limits.interned_count
    }

    /// Forgets all entries. Frees the memory of the texts but not that of the tables.
    pub(crate) fn clear(&mut self) {
        self.tables.iter_mut().for_each(HashMap::clear);
        self.shared.clear();
        self.stacks.clear();
        self.gpu.clear();
        self.bytes = 0;
        self.count = 0;
        self.pending = None;
    }

    /// The number of `text`. If it is new, [`Self::take_pending`] returns its definition. Does not allocate
    /// for a known text.
    pub(crate) fn iid(&mut self, table: Table, text: &str) -> u64 {
        let known = &mut self.tables[table as usize];
        // Texts that differ only after the cut share an entry: they are written in the same way.
        let key = text::cut(text);
        if let Some(iid) = known.get(key) {
            return *iid;
        }
        // 0 means "unset".
        let iid = known.len() as u64 + 1;
        known.insert(key.into(), iid);
        self.bytes += key.len();
        self.count += 1;
        let entry = InternedString { iid: Some(iid), text: Some(text::clean(text).into_bytes()) };
        let pending = self.pending();
        let entries = match table {
            Table::Category => &mut pending.event_categories,
            Table::EventName => &mut pending.event_names,
            Table::AnnotationName => &mut pending.debug_annotation_names,
            Table::AnnotationValue => &mut pending.debug_annotation_string_values,
            Table::Function => &mut pending.function_names,
            Table::Library => &mut pending.mapping_paths,
        };
        entries.push(entry);
        iid
    }

    /// The number of a value that events share. Does not read the text of a value that is known by its address.
    pub(crate) fn shared_iid(&mut self, text: &Arc<str>) -> u64 {
        let address = Arc::as_ptr(text).cast::<u8>() as usize;
        if let Some((_, iid)) = self.shared.get(&address) {
            return *iid;
        }
        let iid = self.iid(Table::AnnotationValue, text);
        self.shared.insert(address, (Arc::clone(text), iid));
        self.count += 1;
        iid
    }

    fn pending(&mut self) -> &mut InternedData {
        self.pending.get_or_insert_default()
    }

    /// The definitions that the next packet must carry; `None` (and no allocation) if there are none.
    pub(crate) fn take_pending(&mut self) -> Option<InternedData> {
        self.pending.take().map(|pending| *pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Limits = Limits { interned_bytes: 10, interned_count: 3, track_count: 1 };

    #[test]
    fn a_text_is_defined_once_per_table() {
        let mut interner = Interner::new(Limits::default());
        assert_eq!(interner.iid(Table::EventName, "hipMalloc"), 1);
        assert_eq!(interner.iid(Table::EventName, "hipFree"), 2);
        assert_eq!(interner.iid(Table::EventName, "hipMalloc"), 1);
        assert_eq!(interner.iid(Table::Category, "hipMalloc"), 1);
        let pending = interner.take_pending().expect("three new texts");
        assert_eq!((pending.event_names.len(), pending.event_categories.len()), (2, 1));
        assert_eq!(interner.iid(Table::EventName, "hipFree"), 2);
        assert_eq!(interner.take_pending(), None);
    }

    #[test]
    fn shared_texts_have_the_numbers_of_equal_texts_and_count_for_the_limit() {
        let mut interner = Interner::new(Limits { interned_bytes: 1000, ..SMALL });
        let shared: Arc<str> = "a".into();
        let iid = interner.iid(Table::AnnotationValue, "a");
        assert_eq!([interner.shared_iid(&shared), interner.shared_iid(&shared)], [iid, iid]);
        // Every address counts, even if its text is known.
        assert!(!interner.is_full());
        let others: [Arc<str>; 2] = ["a".into(), "a".into()];
        assert_eq!(others.each_ref().map(|other| interner.shared_iid(other)), [iid, iid]);
        assert!(interner.is_full());
        interner.clear();
        assert_eq!(interner.shared_iid(&shared), 1);
    }

    #[test]
    fn both_limits_apply_and_clearing_resets_them() {
        for texts in [&["a", "b", "c", "d"][..], &["longer than ten"]] {
            let mut interner = Interner::new(SMALL);
            for text in texts {
                assert!(!interner.is_full());
                interner.iid(Table::AnnotationValue, text);
            }
            assert!(interner.is_full());
            interner.clear();
            assert!(!interner.is_full());
            assert_eq!(interner.take_pending(), None, "definitions that were not written are forgotten, too");
            assert_eq!(interner.iid(Table::AnnotationValue, texts[0]), 1);
        }
    }
}
