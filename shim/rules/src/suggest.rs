//! Suggestions for mistyped names.

/// The least Jaro-Winkler similarity of a suggestion, between 0 and 1. At 0.8 `lanch` still finds `launch`, and `x` finds
/// nothing.
const LIKENESS_MIN: f64 = 0.8;

/// The least normalised Levenshtein similarity, in addition: Jaro-Winkler weighs common prefixes highly, and all functions
/// of HIP have one.
const SAME_MIN: f64 = 0.65;

/// The name that is most similar to `word`, if any is similar enough. Ignores case.
pub fn closest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&word, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .filter(|(_, name)| strsim::normalized_levenshtein(&word, &name.to_lowercase()) >= SAME_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_recognised_and_other_words_are_not() {
        let names = ["launch", "copy", "hipFree", "hipLaunchKernel", "hipLaunchKernelExC"];
        assert_eq!(closest("lanch", names), Some("launch"));
        assert_eq!(closest("Copy", names), Some("copy"));
        assert_eq!(closest("hiplaunchkernel", names), Some("hipLaunchKernel"));
        assert_eq!(closest("x", names), None);
        assert_eq!(closest("cudaMemcpy", names), None);
        // A prefix that all names have is not sufficient.
        assert_eq!(closest("hipNope", names), None);
    }
}
