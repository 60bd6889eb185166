//! Interned call stacks: Perfetto's tables of mappings, frames and callstacks, each of which refers to the previous one.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;

use super::{Interner, Table};
use crate::{
    schema::{Callstack, Frame, Mapping},
    stack::Stack,
};

/// Call stacks that were defined since the tables were cleared.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// Stacks by address. Keeping a stack here keeps its address from being used again.
    by_address: HashMap<usize, (Stack, u64), RandomState>,
    /// Stacks by the numbers of their frames, outermost first: two processes may have equal stacks.
    by_frames: HashMap<Box<[u64]>, u64, RandomState>,
    /// Frames by the numbers of function and mapping.
    frames: HashMap<(u64, u64), u64, RandomState>,
    /// The number of known libraries. Each is a mapping with the number of its path.
    mappings: u64,
}

impl Stacks {
    pub(super) fn clear(&mut self) {
        self.by_address.clear();
        self.by_frames.clear();
        self.frames.clear();
        self.mappings = 0;
    }
}

impl Interner {
    /// The number of a call stack. Does not read the frames of a stack that is known by its address.
    pub(crate) fn stack_iid(&mut self, stack: &Stack) -> u64 {
        let address = Arc::as_ptr(stack).cast::<u8>() as usize;
        if let Some((_, iid)) = self.stacks.by_address.get(&address) {
            return *iid;
        }
        let frames: Box<[u64]> =
            stack.iter().rev().map(|frame| self.frame_iid(&frame.function, &frame.library)).collect();
        let iid = match self.stacks.by_frames.get(&frames) {
            Some(iid) => *iid,
            None => self.define_stack(frames),
        };
        self.stacks.by_address.insert(address, (Arc::clone(stack), iid));
        self.count += 1;
        iid
    }

    fn define_stack(&mut self, frames: Box<[u64]>) -> u64 {
        let iid = self.stacks.by_frames.len() as u64 + 1;
        self.bytes += size_of_val(&*frames);
        self.pending().callstacks.push(Callstack { iid: Some(iid), frame_ids: frames.to_vec() });
        self.stacks.by_frames.insert(frames, iid);
        iid
    }

    fn frame_iid(&mut self, function: &str, library: &str) -> u64 {
        let function_iid = self.iid(Table::Function, function);
        let mapping_iid = self.iid(Table::Library, library);
        if mapping_iid > self.stacks.mappings {
            self.stacks.mappings = mapping_iid;
            self.pending().mappings.push(Mapping { iid: Some(mapping_iid), path: vec![mapping_iid] });
        }
        let next = self.stacks.frames.len() as u64 + 1;
        let iid = *self.stacks.frames.entry((function_iid, mapping_iid)).or_insert(next);
        if iid == next {
            let frame = Frame { iid: Some(iid), function: Some(function_iid), mapping: Some(mapping_iid) };
            self.pending().frames.push(frame);
            self.count += 1;
        }
        iid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{intern::Limits, stack::StackFrame};

    fn stack(frames: &[(&str, &str)]) -> Stack {
        let frame = |&(function, library): &(&str, &str)| StackFrame {
            function: function.into(),
            library: library.into(),
        };
        frames.iter().map(frame).collect()
    }

    #[test]
    fn shared_frames_are_defined_once() {
        let mut interner = Interner::new(Limits::default());
        let first = stack(&[("gemm", "librocblas.so"), ("mm", "libtorch.so"), ("main", "python3")]);
        let same = stack(&[("gemm", "librocblas.so"), ("mm", "libtorch.so"), ("main", "python3")]);
        let other = stack(&[("mm", "libtorch.so"), ("main", "python3")]);
        let iids = [&first, &first, &same, &other].map(|stack| interner.stack_iid(stack));
        assert_eq!(iids, [1, 1, 1, 2]);
        let pending = interner.take_pending().unwrap();
        let callstacks: Vec<_> = pending.callstacks.iter().map(|stack| stack.frame_ids.clone()).collect();
        assert_eq!(callstacks, [vec![1, 2, 3], vec![1, 2]], "the outermost frame comes first");
        let counts = (pending.frames.len(), pending.mappings.len(), pending.function_names.len());
        assert_eq!(counts, (3, 3, 3));
        assert_eq!(interner.stack_iid(&other), 2);
        assert_eq!(interner.take_pending(), None);
    }

    #[test]
    fn stacks_fill_the_limits_and_are_forgotten() {
        let limits = Limits { interned_bytes: 1 << 20, interned_count: 10, track_count: 1 };
        let mut interner = Interner::new(limits);
        let stacks: Vec<_> = (0..20).map(|_| stack(&[("main", "app")])).collect();
        // Each stack has another address, although its frames are known.
        let full = stacks.iter().position(|stack| {
            interner.stack_iid(stack);
            interner.is_full()
        });
        assert!(full.is_some_and(|full| full < 10), "{full:?}");
        interner.clear();
        assert_eq!(interner.stack_iid(&stacks[0]), 1);
        assert_eq!(interner.take_pending().unwrap().mappings.len(), 1);
    }
}
