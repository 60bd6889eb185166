//! Which names the files of a crate take from each other.
//!
//! A file is read as a list of words, without comments, as far as modules, `use` and paths go. An arrow leads from a file to
//! the one that defines a name which the first file uses:
//!
//! * A name that some file only passes on (`pub use`) is followed to the file that defines it. So an arrow between a
//!   module's root `foo.rs` and `foo/bar.rs` says that one really uses the other, not that one re-exports it.
//! * `use` of a module is no arrow; names that are reached through it are.
//! * A glob import gives an arrow for each name that is defined there and occurs here.
//! * Tests are left out: what is under `#[cfg(test)]`, and targets that are tests.
//!
//! Names that macros define are taken for the module in which the path ends. Methods called on a value name no file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::check::source::{self, Kind};

/// The names that one file takes from another.
pub(super) type Arrows = BTreeMap<(PathBuf, PathBuf), BTreeSet<String>>;

/// How often a name may be passed on.
const DEPTH_MAX: usize = 16;

/// Reads the modules of a target from its root, and adds its arrows and files.
pub(super) fn add_target(root: &Path, arrows: &mut Arrows, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    let mut tree = Tree::default();
    tree.read_file(root, Vec::new(), root.parent().unwrap_or(Path::new("")))?;
    for (path, module) in &tree.modules {
        files.insert(module.file.clone());
        tree.add_arrows(path, module, arrows);
    }
    Ok(())
}

/// The name of a module from the crate's root; that of the root is empty.
type ModulePath = Vec<String>;

#[derive(Debug, Default)]
struct Module {
    file: PathBuf,
    /// What `use` brings here, by its name here.
    imports: BTreeMap<String, Import>,
    /// Modules of which `use` brings all names.
    globs: Vec<Vec<String>>,
    defined: BTreeSet<String>,
    /// Paths of more than one word in the code.
    paths: BTreeSet<Vec<String>>,
    /// Words of the code, without those of `use`.
    words: BTreeSet<String>,
}

#[derive(Debug)]
struct Import {
    path: Vec<String>,
    /// Others may take it from here.
    is_passed_on: bool,
}

/// Where a path leads within a crate.
enum Found {
    Module(ModulePath),
    /// A name, and the module in which it is defined.
    Name(ModulePath, String),
}

#[derive(Debug, Default)]
struct Tree {
    modules: BTreeMap<ModulePath, Module>,
}

impl Tree {
    /// `folder` is where files of modules are that this file declares.
    fn read_file(&mut self, file: &Path, path: ModulePath, folder: &Path) -> Result<()> {
        let text = fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
        for child in self.read_text(file, path, &words(&text)) {
            let inline: PathBuf = child.inline.iter().collect();
            let found = match &child.file {
                // Beside the file that says so, or in the folder of the inline module there.
                Some(named) if inline.as_os_str().is_empty() => file.with_file_name(named),
                Some(named) => folder.join(&inline).join(named),
                None => folder.join(&inline).join(format!("{}.rs", child.name)),
            };
            let found =
                if found.exists() { found } else { folder.join(inline).join(&child.name).join("mod.rs") };
            let is_root = child.file.is_some() || found.ends_with("mod.rs");
            let folder = if is_root { found.with_file_name("") } else { found.with_extension("") };
            self.read_file(&normal(&found), child.path, &folder)?;
        }
        Ok(())
    }

    fn module(&mut self, path: &ModulePath) -> &mut Module {
        self.modules.entry(path.clone()).or_default()
    }

    /// Returns the modules that are in files of their own.
    fn read_text(&mut self, file: &Path, path: ModulePath, words: &[Word<'_>]) -> Vec<Child> {
        let reader = Reader { words, at: 0, depth: 0, file: None, children: Vec::new(), inline: Vec::new() };
        reader.read(self, file, path)
    }

    fn add_arrows(&self, path: &ModulePath, module: &Module, arrows: &mut Arrows) {
        let mut add = |found: Option<Found>| {
            let Some(Found::Name(definer, name)) = found else { return };
            let to = &self.modules[&definer].file;
            if *to != module.file {
                arrows.entry((module.file.clone(), to.clone())).or_default().insert(name);
            }
        };
        for (name, import) in &module.imports {
            if !import.is_passed_on || module.words.contains(name) {
                add(self.resolve(path, &import.path, 0));
            }
        }
        for names in &module.paths {
            add(self.resolve(path, names, 0));
        }
        for glob in &module.globs {
            match self.resolve(path, glob, 0) {
                Some(Found::Module(from)) => {
                    for word in module.words.iter().filter(|word| !module.defined.contains(*word)) {
                        add(self.defined_in(&from, word, 0));
                    }
                }
                // The variants of an enum.
                found => add(found),
            }
        }
    }

    /// Where a path leads that stands in a module; `None` outside the crate.
    fn resolve(&self, from: &ModulePath, path: &[String], depth: usize) -> Option<Found> {
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => Found::Module(Vec::new()),
            "self" => Found::Module(from.clone()),
            "super" => Found::Module(from.split_last()?.1.to_vec()),
            name => self.defined_in(from, name, depth)?,
        };
        rest.iter().try_fold(start, |found, name| match found {
            Found::Module(module) if name == "super" => Some(Found::Module(module.split_last()?.1.to_vec())),
            Found::Module(module) if name == "self" => Some(Found::Module(module)),
            Found::Module(module) => {
                Some(self.defined_in(&module, name, depth).unwrap_or(Found::Name(module, name.clone())))
            }
            // What is named within a type is where the type is.
            name @ Found::Name(..) => Some(name),
        })
    }

    /// What a name means in a module.
    fn defined_in(&self, path: &ModulePath, name: &str, depth: usize) -> Option<Found> {
        let module = self.modules.get(path)?;
        let child: ModulePath = path.iter().cloned().chain([name.to_owned()]).collect();
        if self.modules.contains_key(&child) {
            return Some(Found::Module(child));
        }
        if module.defined.contains(name) {
            return Some(Found::Name(path.clone(), name.to_owned()));
        }
        if depth > DEPTH_MAX {
            return None;
        }
        if let Some(import) = module.imports.get(name) {
            // `use crate::x::x` must not look for itself.
            let is_itself = import.path.len() == 1 && import.path[0] == name;
            return if is_itself { None } else { self.resolve(path, &import.path, depth + 1) };
        }
        module.globs.iter().find_map(|glob| match self.resolve(path, glob, depth + 1)? {
            Found::Module(from) if from != *path => self.defined_in(&from, name, depth + 1),
            _ => None,
        })
    }
}

/// A module in a file of its own.
struct Child {
    name: String,
    path: ModulePath,
    /// The modules within its file's parent around the declaration.
    inline: Vec<String>,
    /// `#[path = ".."]`
    file: Option<PathBuf>,
}

/// A file as it is read.
struct Reader<'w, 't> {
    words: &'w [Word<'t>],
    at: usize,
    /// Braces that are open.
    depth: usize,
    /// Of a `#[path]` before the next item.
    file: Option<PathBuf>,
    children: Vec<Child>,
    /// The inline modules here, and the depth within each.
    inline: Vec<(String, usize)>,
}

impl<'t> Reader<'_, 't> {
    fn read(mut self, tree: &mut Tree, file: &Path, path: ModulePath) -> Vec<Child> {
        let base = path.len();
        let mut here = path;
        tree.module(&here).file = file.into();
        while let Some(word) = self.peek(0) {
            let module = tree.module(&here);
            match word {
                Word::Name("use") => self.read_use(module),
                Word::Name("mod") if self.peek(2) == Some(Word::Mark('{')) => {
                    let name = self.name(1).unwrap_or_default().to_owned();
                    self.at += 3;
                    self.depth += 1;
                    self.inline.push((name.clone(), self.depth));
                    here.push(name);
                    tree.module(&here).file = file.into();
                }
                Word::Name("mod") if self.peek(2) == Some(Word::Mark(';')) => {
                    let name = self.name(1).unwrap_or_default().to_owned();
                    self.children.push(Child {
                        path: here.iter().cloned().chain([name.clone()]).collect(),
                        name,
                        inline: self.inline.iter().map(|(name, _)| name.clone()).collect(),
                        file: self.file.take(),
                    });
                    self.at += 3;
                }
                Word::Name("pub") => self.skip_visibility(),
                Word::Name(_) => self.read_name(module),
                // The rest of a path that begins with a type or with the name of another crate.
                Word::Path => {
                    while matches!(self.peek(0), Some(Word::Path | Word::Name(_))) {
                        self.at += 1;
                    }
                }
                Word::Mark('#') => self.read_attribute(),
                // `$crate` is `crate`; what other variables stand for is not known.
                Word::Mark('$') => self.at += if self.name(1) == Some("crate") { 1 } else { 2 },
                Word::Mark('{') => {
                    self.depth += 1;
                    self.at += 1;
                }
                Word::Mark('}') => {
                    if self.inline.last().is_some_and(|(_, depth)| *depth == self.depth) {
                        self.inline.pop();
                        here.truncate(base + self.inline.len());
                    }
                    self.depth = self.depth.saturating_sub(1);
                    self.at += 1;
                }
                Word::Mark(_) | Word::Text(_) => self.at += 1,
            }
        }
        self.children
    }

    fn peek(&self, ahead: usize) -> Option<Word<'t>> {
        self.words.get(self.at + ahead).copied()
    }

    fn name(&self, ahead: usize) -> Option<&'t str> {
        match self.peek(ahead)? {
            Word::Name(name) => Some(name),
            _ => None,
        }
    }

    /// A definition, a path or a single word.
    fn read_name(&mut self, module: &mut Module) {
        let is_at_module = self.depth == self.inline.last().map_or(0, |(_, depth)| *depth);
        if is_at_module && let Some(name) = self.definition() {
            module.defined.insert(name.to_owned());
            self.at += 1;
            return;
        }
        let is_field = self.at > 0 && self.words[self.at - 1] == Word::Mark('.');
        let path = self.path();
        if is_field {
            return;
        }
        module.words.insert(path[0].to_owned());
        if path.len() > 1 {
            module.paths.insert(path.into_iter().map(str::to_owned).collect());
        }
    }

    /// The name that is defined by the keyword here.
    fn definition(&self) -> Option<&'t str> {
        let ahead = match (self.name(0)?, self.peek(1)) {
            ("macro_rules", _) | ("static", Some(Word::Name("mut"))) => 2,
            ("const", Some(Word::Name("fn" | "unsafe" | "extern"))) => return None,
            ("fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static", _) => 1,
            _ => return None,
        };
        self.name(ahead)
    }

    /// Reads `a::b::c` to its end.
    fn path(&mut self) -> Vec<&'t str> {
        let mut path = Vec::new();
        while let Some(name) = self.name(0) {
            path.push(name);
            self.at += 1;
            if self.peek(0) != Some(Word::Path) || self.name(1).is_none() {
                break;
            }
            self.at += 1;
        }
        path
    }

    /// `pub`, and what is in brackets behind it.
    fn skip_visibility(&mut self) {
        self.at += 1;
        if self.peek(0) == Some(Word::Mark('('))
            && matches!(self.name(1), Some("crate" | "super" | "in" | "self"))
        {
            self.skip_group();
        }
    }

    /// From an opening bracket to behind the closing one.
    fn skip_group(&mut self) {
        let mut open = 0_usize;
        while let Some(word) = self.peek(0) {
            self.at += 1;
            match word {
                Word::Mark('(' | '[' | '{') => open += 1,
                Word::Mark(')' | ']' | '}') => open = open.saturating_sub(1),
                _ => {}
            }
            if open == 0 {
                return;
            }
        }
    }

    /// `#[..]`: remembers a `path`, and skips what is only for tests.
    fn read_attribute(&mut self) {
        self.at += 1;
        if self.peek(0) == Some(Word::Mark('!')) {
            self.at += 1;
        }
        let start = self.at;
        self.skip_group();
        match &self.words[start.min(self.at)..self.at] {
            [_, Word::Name("path"), Word::Mark('='), Word::Text(file), _] => self.file = Some(file.into()),
            [_, Word::Name("cfg"), _, Word::Name("test"), ..]
            | [_, Word::Name("cfg"), _, Word::Name("all"), _, Word::Name("test"), ..] => self.skip_item(),
            _ => {}
        }
    }

    fn skip_item(&mut self) {
        while self.peek(0) == Some(Word::Mark('#')) {
            self.at += 1;
            self.skip_group();
        }
        if self.name(0) == Some("pub") {
            self.skip_visibility();
        }
        let keywords = [
            "async",
            "const",
            "enum",
            "extern",
            "fn",
            "impl",
            "let",
            "macro_rules",
            "mod",
            "static",
            "struct",
            "trait",
            "type",
            "unsafe",
            "use",
        ];
        // Fields, variants and arms end with a comma; the list of names in a `use` does not end it.
        let is_item = self.name(0).is_some_and(|name| keywords.contains(&name));
        let is_use = self.name(0) == Some("use");
        while let Some(word) = self.peek(0) {
            match word {
                Word::Mark(';') => {
                    self.at += 1;
                    return;
                }
                Word::Mark('{') if is_item && !is_use => return self.skip_group(),
                Word::Mark('(' | '[' | '{') => self.skip_group(),
                Word::Mark(')' | ']' | '}') => return,
                Word::Mark(',') if !is_item => return,
                _ => self.at += 1,
            }
        }
    }

    /// From `use` to its semicolon.
    fn read_use(&mut self, module: &mut Module) {
        // Whether `pub` or `pub(..)` is in front.
        let is_passed_on = match self.at.checked_sub(1).map(|before| self.words[before]) {
            Some(Word::Name("pub")) => true,
            Some(Word::Mark(')')) => {
                let open = self.words[..self.at].iter().rposition(|word| *word == Word::Mark('('));
                open.is_some_and(|open| open > 0 && self.words[open - 1] == Word::Name("pub"))
            }
            _ => false,
        };
        self.at += 1;
        if self.peek(0) == Some(Word::Path) {
            // Of another crate.
            while self.peek(0).is_some_and(|word| word != Word::Mark(';')) {
                self.at += 1;
            }
            return;
        }
        self.read_use_tree(&[], is_passed_on, module);
    }

    fn read_use_tree(&mut self, prefix: &[String], is_passed_on: bool, module: &mut Module) {
        let mut path = prefix.to_vec();
        while let Some(word) = self.peek(0) {
            match word {
                Word::Name("as") => break,
                Word::Name(name) => {
                    path.push(name.to_owned());
                    self.at += 1;
                }
                Word::Path => self.at += 1,
                Word::Mark('*') => {
                    self.at += 1;
                    module.globs.push(path);
                    return;
                }
                Word::Mark('{') => {
                    self.at += 1;
                    while self.peek(0).is_some_and(|word| word != Word::Mark('}')) {
                        self.read_use_tree(&path, is_passed_on, module);
                        if self.peek(0) == Some(Word::Mark(',')) {
                            self.at += 1;
                        } else if self.peek(0) != Some(Word::Mark('}')) {
                            // Within a macro, say, where `use` is followed by anything.
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                Word::Mark(_) | Word::Text(_) => break,
            }
        }
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.name(0) == Some("as") {
            // Distinct, since several may be `as _`.
            name = self.name(1).filter(|name| *name != "_").map_or_else(|| path.join("::"), str::to_owned);
            self.at += 2;
        }
        if !path.is_empty() {
            module.imports.insert(name, Import { path, is_passed_on });
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word<'t> {
    Name(&'t str),
    /// `::`
    Path,
    Mark(char),
    Text(&'t str),
}

fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    for piece in source::pieces(text) {
        match piece.kind {
            Kind::Code => add_words(piece.text, &mut words),
            Kind::Text => words.push(Word::Text(piece.text)),
            Kind::Comment | Kind::Doc => {}
        }
    }
    words
}

fn add_words<'t>(code: &'t str, words: &mut Vec<Word<'t>>) {
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        if is_in_name(first) {
            // A raw name is the name without its mark.
            let mark = if rest.starts_with("r#") { 2 } else { 0 };
            length = rest[mark..].find(|c| !is_in_name(c)).map_or(rest.len(), |end| mark + end);
            words.push(Word::Name(&rest[mark..length]));
        } else if rest.starts_with("::") {
            length = 2;
            words.push(Word::Path);
        } else if first == '\'' {
            // A character, which may be a bracket, or the mark of a lifetime.
            length = source::quote_length(rest.as_bytes());
        } else if !first.is_whitespace() {
            words.push(Word::Mark(first));
        }
        rest = &rest[length..];
    }
}

fn is_in_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Without `..`, so that a file has one name.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        if part == std::path::Component::ParentDir {
            normal.pop();
        } else {
            normal.push(part);
        }
    }
    normal
}

#[cfg(test)]
mod tests;
