//! Interned names of typed GPU events: queues, stages and the processes that they belong to.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

use super::Interner;
use crate::{
    schema::{GraphicsContext, RenderStage, StageCategory},
    text,
};

/// GPU names that were defined since the tables were cleared.
#[derive(Debug, Default)]
pub(super) struct Specifications {
    /// Numbers by category, name and description.
    by_name: HashMap<StageCategory, HashMap<Box<str>, ByDescription, RandomState>, RandomState>,
    count: u64,
    contexts: HashSet<u32, RandomState>,
}

type ByDescription = HashMap<Box<str>, u64, RandomState>;

impl Specifications {
    pub(super) fn clear(&mut self) {
        self.by_name.clear();
        self.count = 0;
        self.contexts.clear();
    }
}

impl Interner {
    /// The number of a queue of a GPU.
    pub(crate) fn gpu_queue_iid(&mut self, gpu: &str, queue: &str) -> u64 {
        self.gpu_iid(queue, gpu, StageCategory::Other)
    }

    /// The number of a stage: a kind of work.
    pub(crate) fn gpu_stage_iid(&mut self, name: &str) -> u64 {
        self.gpu_iid(name, "", StageCategory::Compute)
    }

    /// Queues and stages share one table of numbers; an entry's category tells them apart.
    fn gpu_iid(&mut self, name: &str, description: &str, category: StageCategory) -> u64 {
        let (name_key, description_key) = (text::cut(name), text::cut(description));
        let known =
            self.gpu.by_name.get(&category).and_then(|by_name| by_name.get(name_key)?.get(description_key));
        if let Some(iid) = known {
            return *iid;
        }
        self.gpu.count += 1;
        let iid = self.gpu.count;
        let by_description =
            self.gpu.by_name.entry(category).or_default().entry(name_key.into()).or_default();
        by_description.insert(description_key.into(), iid);
        self.bytes += name_key.len() + description_key.len();
        self.count += 1;
        self.pending().gpu_specifications.push(RenderStage {
            iid: Some(iid),
            name: Some(text::clean(name)),
            description: (!description.is_empty()).then(|| text::clean(description)),
            category: Some(category.into()),
        });
        iid
    }

    /// The number of a process's GPU context: its pid. Contexts have numbers of their own, so it cannot collide.
    pub(crate) fn gpu_context_iid(&mut self, pid: u32) -> u64 {
        if self.gpu.contexts.insert(pid) {
            self.count += 1;
            let context = GraphicsContext { iid: Some(pid.into()), pid: Some(pid as i32) };
            self.pending().graphics_contexts.push(context);
        }
        pid.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intern::Limits;

    #[test]
    fn queues_and_stages_have_distinct_numbers() {
        let mut interner = Interner::new(Limits::default());
        let iids = [
            interner.gpu_queue_iid("GPU 0", "stream 1"),
            interner.gpu_queue_iid("GPU 1", "stream 1"),
            interner.gpu_stage_iid("stream 1"),
            interner.gpu_queue_iid("GPU 0", "stream 1"),
            interner.gpu_stage_iid("stream 1"),
        ];
        assert_eq!(iids, [1, 2, 3, 1, 3]);
        assert_eq!([interner.gpu_context_iid(77), interner.gpu_context_iid(77)], [77, 77]);
        let pending = interner.take_pending().unwrap();
        assert_eq!((pending.gpu_specifications.len(), pending.graphics_contexts.len()), (3, 1));
        interner.clear();
        assert_eq!(interner.gpu_stage_iid("gemm"), 1);
    }
}
