//! Kernels of a PTX text, the form of code that CUDA's driver compiles itself: names and parameters, no instructions.
//!
//! ```text
//! .visible .entry add(
//!     .param .u64 .ptr .align 8 add_param_0,      a parameter of a type, aligned to its size
//!     .param .align 8 .b8 add_param_1[24]         a structure: alignment and size in bytes
//! ) ..
//! ```

/// A kernel's name, and offset and size of each of its parameters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) parameters: Vec<(usize, usize)>,
}

/// Whether a text is PTX: its first directive is its version.
pub(super) fn is_ptx(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with("//"))
        .is_some_and(|line| line.starts_with(".version"))
}

/// The kernels of a text.
///
/// # Errors
///
/// What is not understood.
pub(super) fn kernels(text: &str) -> Result<Vec<Entry>, String> {
    text.split(".entry").skip(1).map(kernel).collect()
}

/// `text` begins behind `.entry`.
fn kernel(text: &str) -> Result<Entry, String> {
    let name_end = text.find(['(', '{', ')']).ok_or("a kernel without parameters or body")?;
    let list = text[name_end..].strip_prefix('(').map(|rest| rest.split(')').next().unwrap_or(rest));
    let mut parameters = Vec::new();
    for parameter in list.unwrap_or("").split(',').map(str::trim).filter(|parameter| !parameter.is_empty()) {
        let (size, alignment) = size_of(parameter).ok_or_else(|| format!("the parameter `{parameter}`"))?;
        let end = parameters.last().map_or(0, |(offset, size)| offset + size);
        parameters.push((usize::next_multiple_of(end, alignment), size));
    }
    Ok(Entry { name: text[..name_end].trim().to_owned(), parameters })
}

/// Size and alignment of a parameter, in bytes.
fn size_of(parameter: &str) -> Option<(usize, usize)> {
    let mut words = parameter.split_whitespace();
    let bytes = words
        .clone()
        .find_map(|word| word.strip_prefix(['.'])?.strip_prefix(['u', 's', 'b', 'f'])?.parse().ok());
    let bytes = bytes.map(|bits: usize| bits / 8).filter(|bytes| *bytes > 0)?;
    let count = parameter.split_once('[').and_then(|(_, rest)| rest.strip_suffix(']')?.parse::<usize>().ok());
    // The first alignment is the parameter's; one behind `.ptr` is that of what it points to.
    let stated =
        words.by_ref().take_while(|word| *word != ".ptr").skip_while(|word| *word != ".align").nth(1);
    let alignment = stated.and_then(|word| word.parse().ok()).unwrap_or(bytes);
    Some((bytes * count.unwrap_or(1), alignment))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
// a comment
.version 8.0
.target sm_90
.address_size 64
.visible .entry add(
    .param .u64 .ptr .align 16 add_param_0,
    .param .u32 add_param_1,
    .param .align 8 .b8 add_param_2[24],
    .param .f32 add_param_3
)
{ ret; }
.visible .entry nothing() { ret; }
";

    #[test]
    fn parameters_have_the_offsets_of_a_structure() {
        assert!(is_ptx(TEXT));
        let entry = |name: &str, parameters| Entry { name: name.to_owned(), parameters };
        let add = entry("add", vec![(0, 8), (8, 4), (16, 24), (40, 4)]);
        assert_eq!(kernels(TEXT), Ok(vec![add, entry("nothing", Vec::new())]));
    }

    #[test]
    fn other_texts_are_no_ptx() {
        assert!(!is_ptx("plain text"));
        assert!(kernels(".entry add(.param .u64").is_ok_and(|kernels| kernels.len() == 1));
        assert_eq!(kernels(".entry add(.param .weird x)"), Err("the parameter `.param .weird x`".to_owned()));
    }
}
