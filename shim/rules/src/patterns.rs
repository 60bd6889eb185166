//! Globs for names: `*` matches any text, `?` one character, and `!` before a glob excludes the names that it matches.

use std::fmt;

use wildmatch::WildMatch;

/// Why a pattern is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The pattern is empty.
    #[error("an empty pattern matches nothing")]
    Empty,
    /// The same pattern is included and excluded.
    #[error("`{0}` is asked for and excluded at once")]
    Contradiction(String),
    /// Everything is excluded.
    #[error("`!{0}` excludes everything")]
    ExcludesAll(String),
}

/// One glob.
#[derive(Clone, Debug)]
pub struct Pattern(WildMatch);

impl Pattern {
    /// Parses a glob.
    pub fn new(glob: &str) -> Result<Self, PatternError> {
        if glob.is_empty() { Err(PatternError::Empty) } else { Ok(Self(WildMatch::new(glob))) }
    }

    /// Whether the glob matches the whole of `name`.
    pub fn matches(&self, name: &str) -> bool {
        self.0.matches(name)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Several globs: they match the names that any plain glob matches, except those that an excluding glob matches. Excluding
/// globs alone match all other names; an empty list matches all names.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    wanted: Vec<Pattern>,
    excluded: Vec<Pattern>,
}

impl Patterns {
    /// Parses globs; those that begin with `!` exclude.
    pub fn parse<S: AsRef<str>>(globs: &[S]) -> Result<Self, PatternError> {
        let mut patterns = Self::default();
        let (mut wanted, mut excluded) = (Vec::new(), Vec::new());
        for glob in globs.iter().map(AsRef::as_ref) {
            if let Some(glob) = glob.strip_prefix('!') {
                patterns.excluded.push(Pattern::new(glob)?);
                excluded.push(glob);
            } else {
                patterns.wanted.push(Pattern::new(glob)?);
                wanted.push(glob);
            }
        }
        if let Some(glob) = wanted.iter().find(|glob| excluded.contains(glob)) {
            return Err(PatternError::Contradiction((*glob).to_owned()));
        }
        if let Some(glob) = excluded.iter().find(|glob| glob.bytes().all(|byte| byte == b'*')) {
            return Err(PatternError::ExcludesAll((*glob).to_owned()));
        }
        Ok(patterns)
    }

    /// Whether the globs match every name.
    pub fn is_everything(&self) -> bool {
        self.wanted.is_empty() && self.excluded.is_empty()
    }

    /// Whether the globs match an object with these names.
    pub fn match_any(&self, names: &[&str]) -> bool {
        let is_matched = |patterns: &[Pattern]| {
            patterns.iter().any(|pattern| names.iter().any(|name| pattern.matches(name)))
        };
        (self.wanted.is_empty() || is_matched(&self.wanted)) && !is_matched(&self.excluded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(globs: &[&str], name: &str) -> bool {
        Patterns::parse(globs).unwrap().match_any(&[name])
    }

    #[test]
    fn exclusions_take_precedence_and_alone_match_everything_else() {
        assert!(matches(&[], "anything"));
        assert!(matches(&["lib*", "app"], "app"));
        assert!(!matches(&["lib*", "app"], "other"));
        assert!(!matches(&["lib*", "!libtorch*"], "libtorch_hip.so"));
        assert!(matches(&["!libtorch*"], "librocblas.so.4"));
        assert!(!matches(&["!libtorch*"], "libtorch_cpu.so"));
    }

    #[test]
    fn one_excluded_name_excludes_an_object() {
        let patterns = Patterns::parse(&["lib*", "!libtorch*"]).unwrap();
        assert!(!patterns.match_any(&["librocblas.so", "libtorch_hip.so"]));
        assert!(patterns.match_any(&["librocblas.so", "app"]));
    }

    #[test]
    fn globs_match_the_whole_name() {
        assert!(!matches(&["gemm"], "gemm_f16"));
        assert!(matches(&["gemm?f16"], "gemm_f16"));
        assert!(matches(&["void mix<unsigned int, 3>(*"], "void mix<unsigned int, 3>(unsigned int*)"));
    }

    #[test]
    fn contradictions_are_refused() {
        assert_eq!(Patterns::parse(&[""]).unwrap_err(), PatternError::Empty);
        assert_eq!(Patterns::parse(&["!"]).unwrap_err(), PatternError::Empty);
        assert_eq!(Patterns::parse(&["a", "!a"]).unwrap_err(), PatternError::Contradiction("a".into()));
        assert_eq!(Patterns::parse(&["a", "!**"]).unwrap_err(), PatternError::ExcludesAll("**".into()));
    }
}
