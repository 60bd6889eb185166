//! What a pod asks for.

use std::collections::BTreeMap;

use xsched_control_api::parameters::{Class, Wish};

/// What all keys begin with.
const PREFIX: &str = "xsched.dev/";

/// The keys behind it.
const KEYS: [&str; 7] = ["class", "deadline", "priority", "share", "slo", "weight", "work"];

/// A pod may have 18,000 annotations; its author finds the others when these are corrected.
const MISTAKES_MAX: usize = KEYS.len();

/// What the annotations of a pod ask for, as far as they can be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// Scheduling parameters.
    pub wish: Wish,
    /// What is wrong with the others, for the log.
    pub mistakes: Vec<String>,
}

impl Asked {
    pub(crate) fn of(annotations: &BTreeMap<String, String>) -> Self {
        let mut asked = Self::default();
        let own =
            annotations.iter().filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?, value.trim())));
        for (key, value) in own {
            if let Err(problem) = asked.read(key, value)
                && asked.mistakes.len() < MISTAKES_MAX
            {
                asked.mistakes.push(format!("annotation {PREFIX}{}: {problem}", shortened(key)));
            }
        }
        asked
    }

    fn read(&mut self, key: &str, value: &str) -> Result<(), String> {
        let mut wish = self.wish;
        match key {
            "class" => wish.priority = Some(class(value)?),
            // A class and a priority: the number says more.
            "priority" => wish.priority = Some(number(value)?),
            "weight" => wish.weight = Some(number(value)?),
            "share" => wish.share = Some(number(value.trim_end_matches('%').trim_end())?),
            "deadline" => wish.deadline = Some(parsed(value)?),
            "work" => wish.work = Some(parsed(value)?),
            "slo" => wish.slo = Some(parsed(value)?),
            _ => return Err(format!("there is no such key; there are: {}", KEYS.join(", "))),
        }
        wish.check().map_err(|error| error.to_string())?;
        self.wish = wish;
        Ok(())
    }
}

fn class(value: &str) -> Result<i16, String> {
    let class = Class::ALL.into_iter().find(|class| class.to_string() == value);
    class.map(Class::priority).ok_or_else(|| {
        format!("there is no class `{}`; there are: {}", shortened(value), Class::NAMES.join(", "))
    })
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("`{}` is not a number in range", shortened(value)))
}

fn parsed<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("`{}` is not understood", shortened(value)))
}

/// A text that the author of a pod chose, for a line of the log.
fn shortened(text: &str) -> String {
    const LEN_MAX: usize = 64;
    text[..text.floor_char_boundary(LEN_MAX)].escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(annotations: &[(&str, &str)]) -> Asked {
        Asked::of(&annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn annotations_are_scheduling_parameters() {
        let found = asked(&[
            ("xsched.dev/class", "high"),
            ("xsched.dev/weight", "200"),
            ("xsched.dev/slo", "p99 < 12ms"),
            ("kubernetes.io/config.source", "api"),
        ]);
        let wish = Wish {
            priority: Some(100),
            weight: Some(200),
            slo: Some("p99 < 12ms".parse().unwrap()),
            ..Wish::default()
        };
        assert_eq!(found, Asked { wish, mistakes: Vec::new() });
        assert_eq!(asked(&[("other.dev/class", "high")]), Asked::default());
    }

    #[test]
    fn mistakes_are_named_and_the_rest_holds() {
        let found = asked(&[
            ("xsched.dev/class", "urgent\n"),
            ("xsched.dev/colour", "red"),
            ("xsched.dev/slo", "fast"),
            ("xsched.dev/share", "50 %"),
            ("xsched.dev/weight", "0"),
        ]);
        assert_eq!(found.wish, Wish { share: Some(50), ..Wish::default() });
        let begins = [
            "annotation xsched.dev/class: there is no class `urgent`; there are: realtime",
            "annotation xsched.dev/colour: there is no such key; there are: class",
            "annotation xsched.dev/slo: ",
            "annotation xsched.dev/weight: ",
        ];
        assert_eq!(found.mistakes.len(), begins.len(), "{:?}", found.mistakes);
        for (mistake, begin) in found.mistakes.iter().zip(begins) {
            assert!(mistake.starts_with(begin), "{mistake}");
        }
    }

    #[test]
    fn the_author_of_a_pod_fills_no_log_and_forges_no_line() {
        let many = (0..100).map(|number| (format!("xsched.dev/{number}"), "x\nroot did it".to_owned()));
        let forged = ("xsched.dev/slo".to_owned(), "fast\nroot did it".to_owned());
        for annotations in [many.collect(), BTreeMap::from([forged])] {
            let mistakes = Asked::of(&annotations).mistakes;
            assert!((1..=MISTAKES_MAX).contains(&mistakes.len()), "{mistakes:?}");
            assert!(mistakes.iter().all(|mistake| !mistake.contains('\n')), "{mistakes:?}");
        }
    }
}
