//! The call stacks of a sequence: texts, libraries, frames and stacks, each of which refers to the previous ones.

use super::table::Table;
use crate::{
    schema::InternedData,
    stack::{Stack, StackFrame},
};

/// The most frames of a stack that are kept. A file with more is damaged or hostile.
const FRAMES_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Stacks<T> {
    functions: Table<T>,
    paths: Table<T>,
    libraries: Table<T>,
    frames: Table<StackFrame<T>>,
    whole: Table<Stack<T>>,
}

impl<T: Clone + Default> Stacks<T> {
    /// The stack with this number; `None` if it was not defined.
    pub(super) fn get(&self, iid: u64) -> Option<&Stack<T>> {
        self.whole.get(iid)
    }

    /// Adds a packet's definitions. A reference to an undefined entry becomes an empty name.
    pub(super) fn extend(&mut self, data: &InternedData, intern: &mut impl FnMut(&str) -> T) {
        self.functions.extend(&data.function_names, intern);
        self.paths.extend(&data.mapping_paths, intern);
        for mapping in &data.mappings {
            // The file's name is the last part of the path.
            let name = mapping.path.last().and_then(|part| self.paths.get(*part)).cloned();
            self.libraries.insert(mapping.iid(), name.unwrap_or_default());
        }
        for frame in &data.frames {
            let function = self.functions.get(frame.function()).cloned().unwrap_or_default();
            let library = self.libraries.get(frame.mapping()).cloned().unwrap_or_default();
            self.frames.insert(frame.iid(), StackFrame { function, library });
        }
        for stack in &data.callstacks {
            let innermost_first = stack.frame_ids.iter().rev().take(FRAMES_MAX);
            let frames = innermost_first.map(|frame| self.frames.get(*frame).cloned().unwrap_or_default());
            self.whole.insert(stack.iid(), frames.collect());
        }
    }
}
