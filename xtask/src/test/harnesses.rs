//! Whether each test target has the attributes of its harness. A function with the wrong one is compiled or left out without
//! a word, and does not run: `#[test]` where a target has `harness = false`, `#[needs(..)]` where it has not.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use ignore::WalkBuilder;

/// An error that names the files with attributes that have no effect.
pub(crate) fn check(root: &Path) -> Result<()> {
    let files: Vec<_> = WalkBuilder::new(root)
        .build()
        .filter_map(|entry| entry.ok().map(ignore::DirEntry::into_path))
        .filter(|path| path.is_file())
        .collect();
    let mut without_standard = BTreeSet::new();
    for manifest in files.iter().filter(|path| path.ends_with("Cargo.toml")) {
        let package = manifest.parent().unwrap_or(root);
        for target in targets_without_standard_harness(&read(manifest)?) {
            add_with_modules(&package.join(target), &mut without_standard)?;
        }
    }
    let mut wrong = Vec::new();
    for source in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let text = read(source)?;
        let has = |attribute: &str| text.lines().any(|line| line.trim_start().starts_with(attribute));
        let without = if without_standard.contains(source) { "#[test]" } else { "#[needs(" };
        if has(without) {
            wrong.push(format!("{}: {without}", source.strip_prefix(root).unwrap_or(source).display()));
        }
    }
    if !wrong.is_empty() {
        bail!(
            "attributes of another harness than the target's, whose tests would not run: {}",
            wrong.join(", ")
        );
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}

/// Root files of a manifest's test targets with `harness = false`, relative to the package.
fn targets_without_standard_harness(manifest: &str) -> Vec<PathBuf> {
    let tables = manifest.split("\n[").filter_map(|table| table.strip_prefix("[test]]\n"));
    let field = |table: &str, name: &str| {
        let line = table.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    let others = tables.filter(|table| field(table, "harness").as_deref() == Some("false"));
    let root = |table: &str| {
        let named = || Some(format!("tests/{}/main.rs", field(table, "name")?));
        field(table, "path").or_else(named).map(PathBuf::from)
    };
    others.filter_map(root).collect()
}

/// Adds a file and those of the modules that it declares.
fn add_with_modules(file: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    let text = read(file)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let own = folder.join(file.file_stem().unwrap_or_default());
    files.insert(file.to_owned());
    for module in text.lines().filter_map(|line| line.trim().strip_prefix("mod ")?.strip_suffix(';')) {
        // Of a root, and of a module, which has its own folder.
        let candidates = [folder.join(module), own.join(module)].map(|path| path.with_extension("rs"));
        for found in candidates.iter().filter(|path| path.exists()) {
            add_with_modules(found, files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"p\"\n\n[[test]]\nname = \"one\"\npath = \"e2e/one.rs\"\nharness = false\n\n\
                            [[test]]\nname = \"two\"\nharness = false\n\n[[test]]\nname = \"three\"\n\n[lints]\n";

    #[test]
    fn targets_are_found_with_their_root_files() {
        let expected: [PathBuf; 2] = ["e2e/one.rs".into(), "tests/two/main.rs".into()];
        assert_eq!(targets_without_standard_harness(MANIFEST), expected);
    }

    #[test]
    fn attributes_of_the_other_harness_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("Cargo.toml", MANIFEST);
        write("e2e/one.rs", "mod part;\n");
        write("e2e/part.rs", "");
        write("tests/two/main.rs", "");
        write("tests/three.rs", concat!("#[te", "st]\n"));
        check(folder.path()).unwrap();
        write("e2e/part.rs", concat!("    #[te", "st]\n"));
        write("tests/three.rs", concat!("#[ne", "eds(ROOT)]\n"));
        let error = check(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("e2e/part.rs: #[test]") && error.contains("tests/three.rs: #[needs("),
            "{error}"
        );
    }

    #[test]
    fn every_attribute_of_the_workspace_has_its_effect() {
        check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    }
}
