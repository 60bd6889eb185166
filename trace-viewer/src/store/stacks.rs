//! The distinct call stacks of a timeline, by number.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;
use xsched_perfetto::{Stack, StackFrame};

use super::texts::TextId;

/// Identifies a call stack; 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct StackId(u32);

/// The call stacks.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "all of them are indexes of the same stacks")]
pub(crate) struct Stacks {
    by_id: Vec<Stack<TextId>>,
    by_frames: HashMap<Stack<TextId>, StackId, RandomState>,
    /// Stacks by address. The reader returns a stack at the same address each time until the file redefines it. Keeping the
    /// stack here keeps its address from being used again.
    by_address: HashMap<usize, (Stack<TextId>, StackId), RandomState>,
}

impl Default for Stacks {
    fn default() -> Self {
        let by_id = vec![Arc::from([])];
        Self { by_id, by_frames: HashMap::default(), by_address: HashMap::default() }
    }
}

impl Stacks {
    /// The number of a call stack; adds the stack if it is new.
    pub(super) fn add(&mut self, stack: &Stack<TextId>) -> StackId {
        let address = Arc::as_ptr(stack).cast::<u8>() as usize;
        if let Some((_, id)) = self.by_address.get(&address) {
            return *id;
        }
        let id = self.add_frames(stack);
        self.by_address.insert(address, (Arc::clone(stack), id));
        id
    }

    /// Adds all stacks of `other`; returns the number that each has here.
    pub(super) fn append(&mut self, other: &Self) -> Vec<StackId> {
        let (none, some) = (StackId::default(), other.by_id.iter().skip(1));
        std::iter::once(none).chain(some.map(|stack| self.add_frames(stack))).collect()
    }

    fn add_frames(&mut self, stack: &Stack<TextId>) -> StackId {
        *self.by_frames.entry(Arc::clone(stack)).or_insert_with(|| {
            self.by_id.push(Arc::clone(stack));
            StackId(self.by_id.len() as u32 - 1)
        })
    }

    /// Drops the index by address, which is needed only while stacks are added.
    pub(super) fn forget_addresses(&mut self) {
        self.by_address = HashMap::default();
    }

    /// The frames of a call stack, innermost first.
    pub(crate) fn get(&self, id: StackId) -> &[StackFrame<TextId>] {
        &self.by_id[id.0 as usize]
    }

    /// For each number, whether `matches` holds for one of the stack's texts.
    pub(crate) fn matching(&self, matches: impl Fn(TextId) -> bool) -> Vec<bool> {
        let is_match = |frame: &StackFrame<TextId>| matches(frame.function) || matches(frame.library);
        self.by_id.iter().map(|stack| stack.iter().any(is_match)).collect()
    }
}

impl StackId {
    /// The index into the result of [`Stacks::matching`].
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(functions: &[u32]) -> Stack<TextId> {
        functions.iter().map(|id| StackFrame { function: TextId(*id), library: TextId(100) }).collect()
    }

    #[test]
    fn equal_stacks_have_one_number_at_any_address() {
        let mut stacks = Stacks::default();
        let (first, same, other) = (stack(&[1, 2]), stack(&[1, 2]), stack(&[2]));
        let ids = [&first, &first, &same, &other].map(|stack| stacks.add(stack));
        assert_eq!(ids, [1, 1, 1, 2].map(StackId));
        stacks.forget_addresses();
        assert_eq!(stacks.add(&same), StackId(1));
        assert_eq!(stacks.get(StackId(2)), &*other);
        assert!(stacks.get(StackId::default()).is_empty());
        assert_eq!(stacks.matching(|text| text == TextId(1)), [false, true, false]);
        assert_eq!(stacks.matching(|text| text == TextId(100)), [false, true, true]);
        let mut others = Stacks::default();
        others.add(&stack(&[9]));
        others.add(&first);
        assert_eq!(stacks.append(&others), [0, 3, 1].map(StackId));
    }
}
