use super::*;

/// Writes files below a folder and returns the arrows of the crate, as `from -> to: names`.
fn arrows(files: &[(&str, &str)]) -> Vec<String> {
    arrows_of(Scope::WithoutTests, files)
}

fn arrows_of(scope: Scope, files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut arrows = Arrows::new();
    add_target(&folder.path().join(files[0].0), scope, &mut arrows, &mut BTreeSet::new()).unwrap();
    let short = |path: &Path| path.strip_prefix(folder.path()).unwrap().display().to_string();
    let one_line = |((from, to), names): (&(PathBuf, PathBuf), &BTreeSet<String>)| {
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        format!("{} -> {}: {}", short(from), short(to), names.join(" "))
    };
    arrows.iter().map(one_line).collect()
}

#[test]
fn names_are_followed_to_the_file_that_defines_them() {
    let found = arrows(&[
        ("lib.rs", "mod a; mod b; pub use a::{Deep, Shown as Other};"),
        ("a.rs", "mod deep; pub(crate) use deep::Deep; pub struct Shown;"),
        ("a/deep.rs", "pub struct Deep;"),
        ("b.rs", "use crate::{Deep, a, Other}; fn f() { a::Shown; std::mem::drop(1); }"),
    ]);
    assert_eq!(found, ["b.rs -> a/deep.rs: Deep", "b.rs -> a.rs: Shown"]);
}

#[test]
fn a_root_that_uses_what_it_re_exports_has_an_arrow() {
    let found = arrows(&[
        ("lib.rs", "mod a; pub use a::A; fn f(a: A) { a.b::<a::B>() }"),
        ("a.rs", "pub struct A; pub struct B; impl A { fn x() { super::f() } }"),
    ]);
    assert_eq!(found, ["a.rs -> lib.rs: f", "lib.rs -> a.rs: A B"]);
}

#[test]
fn nested_braces_globs_and_inline_modules_are_read() {
    let found = arrows(&[
        ("main.rs", "mod a { pub mod b; pub const X: u8 = 1; } mod c; mod d;"),
        ("a/b.rs", "pub enum E { V } pub fn g() {} pub fn h() {}"),
        ("c.rs", "use super::a::{self, b::{E::{self, V}, g}}; fn f() { a::X }"),
        ("d.rs", "use crate::a::b::*; fn f() { h() }"),
    ]);
    assert_eq!(found, ["c.rs -> a/b.rs: E g", "c.rs -> main.rs: X", "d.rs -> a/b.rs: h"]);
}

#[test]
fn named_files_are_found() {
    let found = arrows(&[
        ("x/main.rs", "#[path = \"../shared.rs\"] mod shared; mod own; fn r#type() {}"),
        ("shared.rs", "use crate::own::N; fn f() { crate::r#type() }"),
        ("x/own/mod.rs", "pub struct N;"),
    ]);
    assert_eq!(found, ["shared.rs -> x/main.rs: type", "shared.rs -> x/own/mod.rs: N"]);
}

#[test]
fn tests_comments_and_strings_give_no_arrows() {
    let found = arrows(&[
        ("lib.rs", "mod a; #[cfg(test)] mod missing; pub fn f() {}"),
        (
            "a.rs",
            "// crate::f\nconst T: &str = \"crate::f\"; const C: char = '{';\n\
             #[cfg(test)] use crate::{f, g};\n#[cfg(test)]\nmod tests { use crate::f; }\n\
             #[cfg(all(test, unix))] #[expect(dead_code)] pub(crate) fn t<A, B>() { crate::f() }",
        ),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn paths_in_macros_count() {
    let found = arrows(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "macro_rules! m { ($x:ident) => { $crate::b::f($x::y, ::a::z, <u8 as crate::b::T>::q) } }"),
        ("b.rs", "pub fn f() {} pub trait T {}"),
    ]);
    assert_eq!(found, ["a.rs -> b.rs: T f"]);
}

#[test]
fn tests_give_arrows_if_they_count() {
    let files = [
        ("lib.rs", "mod a; #[cfg(test)] mod tests; pub fn f() {}"),
        ("a.rs", "pub fn g() {} #[cfg(test)] mod tests { use crate::f; }"),
        ("tests.rs", "use crate::a::g;"),
    ];
    assert_eq!(arrows_of(Scope::WithTests, &files), ["a.rs -> lib.rs: f", "tests.rs -> a.rs: g"]);
}
