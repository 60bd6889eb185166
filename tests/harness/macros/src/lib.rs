//! The attribute `#[needs(..)]` of xsched-harness, which documents it.

use proc_macro::{TokenStream, TokenTree};

/// Registers a function without parameters as a test, with the needs that it names, or with `nothing`.
#[proc_macro_attribute]
pub fn needs(needs: TokenStream, test: TokenStream) -> TokenStream {
    let Some(name) = function_name(&test) else { return error("`#[needs(..)]` belongs on a function") };
    let needs = needs.to_string();
    let references = match needs.trim() {
        "" => return error("`#[needs(..)]` names what the test needs, or `nothing`"),
        "nothing" => String::new(),
        paths => format!("&{}", paths.replace(',', ", &")),
    };
    let registration = format!(
        "::xsched_harness::inventory::submit! {{ ::xsched_harness::Test {{
            path: ::core::concat!(::core::module_path!(), \"::\", \"{name}\"),
            needs: &[{references}],
            run: {name},
        }} }}"
    );
    // So that clippy takes the function for a test, where it may unwrap. Cargo sets `test` without the harness, too.
    let mut both = TokenStream::new();
    both.extend("#[cfg(test)]".parse::<TokenStream>());
    both.extend(test);
    both.extend(registration.parse::<TokenStream>());
    both
}

/// The name behind the first `fn`.
fn function_name(item: &TokenStream) -> Option<String> {
    let mut tokens = item.clone().into_iter();
    tokens.find(|token| matches!(token, TokenTree::Ident(word) if word.to_string() == "fn"))?;
    tokens.next().map(|name| name.to_string())
}

fn error(message: &str) -> TokenStream {
    format!("::core::compile_error!({message:?});").parse().unwrap_or_default()
}
