//! Finds slices by a word, in their names and in every text that is known about them.

use crate::store::{ArgumentValue, SliceId, Store};

/// Parts of the timeline in which matches are counted, for the marks above it.
const PARTS: usize = 240;

/// The result of a search.
#[derive(Debug)]
pub(crate) struct Found {
    /// The slices, in time order.
    pub(crate) slices: Vec<SliceId>,
    /// How many of them begin in each part of the timeline.
    pub(crate) parts: Vec<u32>,
}

/// All slices with `word` in one of their texts, in upper or lower case; none for an empty word.
pub(crate) fn search(store: &Store, word: &str) -> Found {
    let mut found = Found { slices: Vec::new(), parts: vec![0; PARTS] };
    if word.is_empty() {
        return found;
    }
    let matching = store.texts.matching(word);
    if !matching.contains(&true) {
        return found;
    }
    let callers = store.stacks.matching(|text| matching[text.0 as usize]);
    let mut times: Vec<(u64, SliceId)> = Vec::new();
    for (number, track) in store.tracks.iter().enumerate() {
        let slices = &track.slices;
        for index in 0..slices.len() {
            let is_match = matching[slices.facts[index].name.0 as usize]
                || callers[slices.facts[index].stack.index()]
                || store
                    .arguments
                    .at(slices.facts[index].arguments)
                    .any(|(_, value)| matches!(value, ArgumentValue::Str(text) if matching[text.0 as usize]));
            if is_match {
                let id = SliceId { track: number as u32, index: index as u32 };
                times.push((slices.begins_ns[index], id));
            }
        }
    }
    times.sort_unstable();
    for (begin_ns, _) in &times {
        found.parts[store.part(*begin_ns, PARTS)] += 1;
    }
    found.slices = times.into_iter().map(|(_, id)| id).collect();
    found
}

impl Found {
    /// The index of the first match that begins at `ts_ns` or later; 0, the first of all, if there is none.
    pub(crate) fn first_from(&self, store: &Store, ts_ns: u64) -> usize {
        let begin_ns = |id: &SliceId| store.tracks[id.track as usize].slices.begins_ns[id.index as usize];
        let index = self.slices.partition_point(|id| begin_ns(id) < ts_ns);
        if index == self.slices.len() { 0 } else { index }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests as sample;

    #[test]
    fn names_and_texts_are_searched() {
        let store = sample::store();
        let count = |word| search(&store, word).slices.len();
        assert_eq!(count("HIPLAUNCH"), sample::LAUNCHES);
        assert!(count("gemm") > 0 && count("librocblas") > 0 && count("rocblas_sgemm") > 0);
        assert_eq!((count(""), count("there is no such thing")), (0, 0));
    }

    #[test]
    fn matches_are_in_time_order_and_all_counted() {
        let store = sample::store();
        let found = search(&store, "hip");
        let begin = |id: &SliceId| store.tracks[id.track as usize].slices.begins_ns[id.index as usize];
        assert!(found.slices.is_sorted_by_key(begin));
        assert_eq!(found.parts.iter().sum::<u32>() as usize, found.slices.len());
        let third = begin(&found.slices[3]);
        assert!(begin(&found.slices[found.first_from(&store, third)]) >= third);
        assert_eq!(found.first_from(&store, u64::MAX), 0);
    }
}
