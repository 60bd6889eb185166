//! C declarations of the list as Rust function pointer types.

use crate::api_list::Function;

/// `unsafe extern "C" fn(..) -> ..` for a function. HIP's types keep their names and are defined in
/// `crate::abi`.
pub(crate) fn of(function: &Function) -> String {
    let parameters: Vec<String> = function.parameters.iter().map(|p| rust_type(parameter_type(p))).collect();
    let returns = match function.returns.as_str() {
        "void" => String::new(),
        other => format!(" -> {}", rust_type(other)),
    };
    format!("unsafe extern \"C\" fn({}){returns}", parameters.join(", "))
}

/// `const void* src` -> `const void*`: the name follows the last star, or is the last word.
fn parameter_type(parameter: &str) -> &str {
    match parameter.rfind('*') {
        Some(star) => &parameter[..=star],
        None => parameter.rsplit_once(' ').map_or(parameter, |(c_type, _)| c_type),
    }
}

fn rust_type(c_type: &str) -> String {
    let stars = c_type.matches('*').count();
    let words: Vec<&str> = c_type.trim_end_matches(['*', ' ']).split_whitespace().collect();
    let is_const = words.contains(&"const");
    let base: Vec<&str> = words.into_iter().filter(|w| !["const", "struct", "enum"].contains(w)).collect();
    let mut rust = base_type(&base.join(" "));
    for level in 0..stars {
        // `const T**` is a pointer to a pointer to constant `T`.
        let qualifier = if level == 0 && is_const { "const" } else { "mut" };
        rust = format!("*{qualifier} {rust}");
    }
    rust
}

fn base_type(c_type: &str) -> String {
    match c_type {
        "void" => "core::ffi::c_void".into(),
        "char" => "core::ffi::c_char".into(),
        "int" => "i32".into(),
        "unsigned int" | "unsigned" | "uint32_t" => "u32".into(),
        "unsigned long long" | "uint64_t" => "u64".into(),
        "unsigned char" => "u8".into(),
        "unsigned short" => "u16".into(),
        "size_t" => "usize".into(),
        "float" => "f32".into(),
        hip => format!("crate::abi::{hip}"),
    }
}
