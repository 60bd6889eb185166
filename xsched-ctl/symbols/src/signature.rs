//! The parts of a demangled name: return type, name, template arguments, parameters.
//!
//! ```text
//! void at::native::fill_kernel<4, at::Fill<float> >(int, at::Fill<float>)
//!      └─── name ────────────┘└── arguments ─────┘└──── parameters ────┘
//! ```
//!
//! Brackets nest, but `<` and `>` are also operators: in names (`operator<<`) and, inside parentheses, in values
//! (`pick<((3)>(2))>`).

use std::borrow::Cow;
use std::ops::Range;

/// The replacement for template arguments.
const FOLDED: &str = "<…>";

/// Operators with symbols that look like brackets, longer ones before their prefixes.
const BRACKET_OPERATORS: [&str; 13] =
    ["<=>", "<<=", ">>=", "->*", "()", "[]", "<<", ">>", "<=", ">=", "->", "<", ">"];

/// A name without return type, template arguments and parameters: `void demo::mix<unsigned int, 3>(unsigned int*)` becomes
/// `demo::mix`. Template arguments of enclosing classes and functions are kept.
pub fn plain_name(demangled: &str) -> &str {
    let Some(Parts { name, arguments }) = Parts::find(demangled) else { return demangled };
    let end = arguments.last().filter(|last| last.end == name.end).map_or(name.end, |last| last.start);
    demangled[name.start..end].trim_end()
}

/// A name without return type and parameters, and with `<…>` for its template arguments: `demo::mix<…>`. A text without such
/// parts is returned unchanged.
pub fn fold_templates(demangled: &str) -> Cow<'_, str> {
    let Some(Parts { name, arguments }) = Parts::find(demangled) else { return demangled.into() };
    if arguments.is_empty() {
        return demangled[name].into();
    }
    let mut folded = String::new();
    let mut from = name.start;
    for list in arguments {
        folded.push_str(&demangled[from..list.start]);
        folded.push_str(if list.len() > "<>".len() { FOLDED } else { "<>" });
        from = list.end;
    }
    folded.push_str(&demangled[from..name.end]);
    folded.into()
}

struct Parts {
    /// The name with its template arguments.
    name: Range<usize>,
    /// The lists of template arguments, except those inside other brackets.
    arguments: Vec<Range<usize>>,
}

impl Parts {
    /// None if brackets do not match or there is no name outside brackets.
    fn find(demangled: &str) -> Option<Self> {
        let bytes = demangled.as_bytes();
        let mut arguments = Vec::new();
        let (mut start, mut end) = (0, bytes.len());
        let mut open: Vec<usize> = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            if let Some(len) = operator_len(demangled, at) {
                at += len;
                continue;
            }
            match bytes[at] {
                b'<' | b'(' | b'[' | b'{' => open.push(at),
                b'>' if open.last().is_some_and(|&last| bytes[last] == b'<') && bytes[at - 1] != b'-' => {
                    let from = open.pop()?;
                    if open.is_empty() {
                        arguments.push(from..at + 1);
                    }
                }
                closing @ (b')' | b']' | b'}') => {
                    let from = close(&mut open, bytes, closing)?;
                    if closing == b')' && open.is_empty() {
                        // `(anonymous namespace)::`, or the function that encloses a local entity, or parameters.
                        let Some(len) = scope_after(&demangled[at + 1..]) else {
                            end = from;
                            break;
                        };
                        at += len;
                    }
                }
                // The text before a blank is the return type; `operator< <int>` has a blank, too.
                b' ' if open.is_empty() && bytes.get(at + 1) != Some(&b'<') => {
                    start = at + 1;
                    arguments.clear();
                }
                _ => {}
            }
            at += 1;
        }
        (open.is_empty() && start < end).then_some(Self { name: start..end, arguments })
    }
}

/// Removes the bracket that `closing` closes, and operators inside it that were taken for brackets; returns its index.
fn close(open: &mut Vec<usize>, bytes: &[u8], closing: u8) -> Option<usize> {
    let opening = match closing {
        b')' => b'(',
        b']' => b'[',
        _ => b'{',
    };
    loop {
        let from = open.pop()?;
        if bytes[from] == opening {
            return Some(from);
        }
    }
}

/// The length of the text between a closing parenthesis and a following `::`, if the name continues with that.
fn scope_after(rest: &str) -> Option<usize> {
    let unqualified = rest.strip_prefix(" const").unwrap_or(rest);
    unqualified.starts_with("::").then(|| rest.len() - unqualified.len())
}

/// The length of an operator's name, if there is one at `at`.
fn operator_len(demangled: &str, at: usize) -> Option<usize> {
    let is_word = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii();
    let (before, rest) = demangled.as_bytes().split_at(at);
    if rest.first() != Some(&b'o') || before.last().is_some_and(|&byte| is_word(byte)) {
        return None;
    }
    let symbol = demangled[at..].strip_prefix("operator")?;
    let word_len = "operator".len();
    match symbol.bytes().next() {
        Some(byte) if is_word(byte) => None,
        // A conversion: the blank is part of the name.
        Some(b' ') => Some(word_len + 1),
        _ => {
            let known = BRACKET_OPERATORS.into_iter().find(|known| symbol.starts_with(known));
            let len = match known {
                // `operator<` with arguments, from demanglers that write no blank.
                Some("<<") if symbol[2..].bytes().next().is_some_and(is_word) => 1,
                Some(known) => known.len(),
                None => 0,
            };
            Some(word_len + len)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_name;

    #[track_caller]
    fn assert_parts(demangled: &str, folded: &str, plain: &str) {
        assert_eq!((&*fold_templates(demangled), plain_name(demangled)), (folded, plain), "{demangled}");
    }

    #[test]
    fn pytorch_kernels() {
        assert_parts(
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, \
             std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
            "at::native::vectorized_elementwise_kernel<…>",
            "at::native::vectorized_elementwise_kernel",
        );
        assert_parts(
            "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, \
             at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(float*, float const*, int)",
            "at::native::(anonymous namespace)::cunn_SoftMaxForward<…>",
            "at::native::(anonymous namespace)::cunn_SoftMaxForward",
        );
        assert_parts(
            "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::\
             BinaryFunctor<float, float, float, at::native::(anonymous namespace)::MulFunctor<float> > >\
             (at::TensorIteratorBase&, at::native::BinaryFunctor<float> const&)::{lambda(int)#1}>\
             (int, at::native::gpu_kernel_impl<float>(at::TensorIteratorBase&)::{lambda(int)#1})",
            "at::native::elementwise_kernel<…>",
            "at::native::elementwise_kernel",
        );
    }

    #[test]
    fn library_kernels() {
        assert_parts(
            "void ck::kernel_gemm_xdl_cshuffle_v1<ck::GridwiseGemm<ck::Tuple<>, (ck::Op)0>, true, \
             (ck::InMemoryDataOperationEnum)0, 1, (ck::TailNumber)2>(ck::Gemm::Argument)",
            "ck::kernel_gemm_xdl_cshuffle_v1<…>",
            "ck::kernel_gemm_xdl_cshuffle_v1",
        );
        let tensile = "Cijk_Ailk_Bljk_SB_MT128x64x16_MI16x16x4x1_SN_1LDSB0_GRVW4_WGM8";
        assert_parts(tensile, tensile, tensile);
        assert_parts("void outer<int>::inner(int)", "outer<…>::inner", "outer<int>::inner");
        assert_parts("direct_step(DirectStep, unsigned int*)", "direct_step", "direct_step");
        assert_parts("void none<>()", "none<>", "none");
        assert_parts(
            "void at::(anonymous namespace)::fill<(at::T)1>(long (*)(int))",
            "at::(anonymous namespace)::fill<…>",
            "at::(anonymous namespace)::fill",
        );
    }

    #[test]
    fn operators_are_not_brackets() {
        assert_parts("bool operator< <int>(T<int>, T<int>)", "operator< <…>", "operator<");
        assert_parts("bool operator<<int>(T<int>, T<int>)", "operator<<…>", "operator<");
        assert_parts("S& operator<< <int>(S&, int)", "operator<< <…>", "operator<<");
        assert_parts("S& operator<<(S&, int)", "operator<<", "operator<<");
        assert_parts("bool demo::operator><int>(int)", "demo::operator><…>", "demo::operator>");
        assert_parts("void F<int>::operator()<3>(int) const", "F<…>::operator()<…>", "F<int>::operator()");
        assert_parts("T::operator float()", "T::operator float", "T::operator float");
        assert_parts("void apply<&(T::operator->), &(S::operator>>)>(int)", "apply<…>", "apply");
        assert_parts("void my_operator<int>(int)", "my_operator<…>", "my_operator");
    }

    #[test]
    fn comparisons_in_arguments_are_not_brackets() {
        assert_parts("void pick<((3)>(2)), std::less<int> >(int)", "pick<…>", "pick");
        assert_parts("void pick<((3)<(2)), (4)>(int)", "pick<…>", "pick");
        assert_parts("void pick<decltype (((S*)0)->f)>(int)", "pick<…>", "pick");
    }

    #[test]
    fn kernels_local_to_functions_and_lambdas() {
        assert_parts(
            "void run<int>(int, T<int>)::Local::kernel<3>(float*)",
            "run<…>(int, T<int>)::Local::kernel<…>",
            "run<int>(int, T<int>)::Local::kernel",
        );
        assert_parts(
            "run(int) const::{lambda(int, T<int>)#2}::operator()(int)",
            "run(int) const::{lambda(int, T<int>)#2}::operator()",
            "run(int) const::{lambda(int, T<int>)#2}::operator()",
        );
        assert_parts("run()::'lambda'(int)::kernel<1>()", "run()::'lambda'(int)::kernel<…>", {
            "run()::'lambda'(int)::kernel"
        });
    }

    #[test]
    fn texts_without_parts_are_unchanged() {
        for odd in ["", "0x7f00", "(others)", "(no kernel named)", "a<b", "a>b", "f)", "x::<", "é<è"] {
            assert_parts(odd, odd, odd);
        }
    }

    #[test]
    fn demangled_names_are_folded() {
        for (mangled, folded) in [
            ("_ZN4demo5scaleIfEEvPT_S1_i", "demo::scale<…>"),
            ("_ZN4demoltIiEEbT_S1_", "demo::operator< <…>"),
            ("_ZN4demolsIiEEvT_", "demo::operator<< <…>"),
            ("_ZN12_GLOBAL__N_14fillISt6vectorIS0_IiEEEEvT_", "(anonymous namespace)::fill<…>"),
            ("_Z4pickILb1EEvi.kd", "pick<…>"),
        ] {
            let name = kernel_name(mangled);
            assert_ne!(name, mangled, "the name was not demangled");
            assert_eq!(fold_templates(&name), folded, "{name}");
        }
    }
}
