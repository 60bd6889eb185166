//! Every text of a timeline once, by number.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;

/// Which text; 0 is the empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TextId(pub(crate) u32);

/// The texts.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "ways to find the same thing")]
pub(crate) struct Texts {
    by_id: Vec<Arc<str>>,
    by_content: HashMap<Arc<str>, TextId, RandomState>,
    /// Texts that were seen at an address, which is theirs for as long as they are in `by_id`.
    by_address: HashMap<usize, TextId, RandomState>,
}

impl Default for Texts {
    fn default() -> Self {
        let mut texts =
            Self { by_id: Vec::new(), by_content: HashMap::default(), by_address: HashMap::default() };
        texts.add(&Arc::from(""));
        texts
    }
}

impl Texts {
    /// The number of a text, a new one if it is new. The reader gives a text that the file has interned at the same
    /// address each time, so most are found without being looked at.
    pub(crate) fn add(&mut self, text: &Arc<str>) -> TextId {
        let address = text.as_ptr() as usize;
        if let Some(id) = self.by_address.get(&address)
            && Arc::ptr_eq(&self.by_id[id.0 as usize], text)
        {
            return *id;
        }
        if let Some(id) = self.by_content.get(text) {
            return *id;
        }
        let id = TextId(self.by_id.len() as u32);
        self.by_id.push(Arc::clone(text));
        self.by_content.insert(Arc::clone(text), id);
        self.by_address.insert(address, id);
        id
    }

    /// The text with a number.
    pub(crate) fn get(&self, id: TextId) -> &str {
        &self.by_id[id.0 as usize]
    }

    /// All of them, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.by_id.iter().map(|text| &**text)
    }

    /// The number of a text, if there is such a text.
    pub(crate) fn find(&self, text: &str) -> Option<TextId> {
        self.by_content.get(text).copied()
    }

    /// For each number, whether its text holds `needle`, in whatever case.
    pub(crate) fn matching(&self, needle: &str) -> Vec<bool> {
        let needle = needle.to_lowercase();
        self.by_id.iter().map(|text| text.to_lowercase().contains(&needle)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_number_wherever_they_lie() {
        let mut texts = Texts::default();
        let (first, same, other): (Arc<str>, Arc<str>, Arc<str>) = ("a".into(), "a".into(), "b".into());
        let id = texts.add(&first);
        assert_eq!((texts.add(&same), texts.add(&first)), (id, id));
        assert_ne!(texts.add(&other), id);
        assert_eq!((texts.get(id), texts.find("a"), texts.find("c")), ("a", Some(id), None));
        assert_eq!(texts.get(TextId::default()), "");
    }

    #[test]
    fn an_address_that_is_used_again_is_not_mistaken() {
        let mut texts = Texts::default();
        for number in 0..1_000 {
            let text: Arc<str> = number.to_string().into();
            assert_eq!(texts.add(&Arc::clone(&text)), TextId(number + 1));
            assert_eq!(texts.get(TextId(number + 1)), &*text);
        }
    }

    #[test]
    fn case_does_not_matter_when_searching() {
        let mut texts = Texts::default();
        texts.add(&"hipLaunchKernel".into());
        assert_eq!(texts.matching("LAUNCH"), [false, true]);
        assert_eq!(texts.matching(""), [true, true]);
    }
}
