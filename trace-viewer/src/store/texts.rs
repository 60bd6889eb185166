//! The distinct texts of a timeline, by number.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;

/// Identifies a text; 0 is the empty text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TextId(pub(crate) u32);

/// The texts.
#[derive(Debug)]
pub(crate) struct Texts {
    by_id: Vec<Arc<str>>,
    by_content: HashMap<Arc<str>, TextId, RandomState>,
}

impl Default for Texts {
    fn default() -> Self {
        let mut texts = Self { by_id: Vec::new(), by_content: HashMap::default() };
        texts.add("");
        texts
    }
}

impl Texts {
    /// The number of a text; adds the text if it is new.
    pub(crate) fn add(&mut self, text: &str) -> TextId {
        if let Some(id) = self.by_content.get(text) {
            return *id;
        }
        let id = TextId(self.by_id.len() as u32);
        let text: Arc<str> = text.into();
        self.by_id.push(Arc::clone(&text));
        self.by_content.insert(text, id);
        id
    }

    /// The text with a number.
    pub(crate) fn get(&self, id: TextId) -> &str {
        &self.by_id[id.0 as usize]
    }

    /// All texts, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.by_id.iter().map(|text| &**text)
    }

    /// The number of a text, if there is such a text.
    pub(crate) fn find(&self, text: &str) -> Option<TextId> {
        self.by_content.get(text).copied()
    }

    /// For each number, whether its text contains `needle`, in upper or lower case.
    pub(crate) fn matching(&self, needle: &str) -> Vec<bool> {
        let needle = needle.to_lowercase();
        self.by_id.iter().map(|text| text.to_lowercase().contains(&needle)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_number() {
        let mut texts = Texts::default();
        let id = texts.add("a");
        assert_eq!(texts.add(&String::from("a")), id);
        assert_ne!(texts.add("b"), id);
        assert_eq!((texts.get(id), texts.find("a"), texts.find("c")), ("a", Some(id), None));
        assert_eq!(texts.get(TextId::default()), "");
    }

    #[test]
    fn a_search_ignores_case() {
        let mut texts = Texts::default();
        texts.add("hipLaunchKernel");
        assert_eq!(texts.matching("LAUNCH"), [false, true]);
        assert_eq!(texts.matching(""), [true, true]);
    }
}
