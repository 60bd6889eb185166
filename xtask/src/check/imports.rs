//! Which names the files of a crate take from each other.
//!
//! An arrow leads from a file to the one that defines a name which the first file uses:
//!
//! * A name that some file only passes on (`pub use`) is followed to the file that defines it. So an arrow between a
//!   module's root `foo.rs` and `foo/bar.rs` says that one really uses the other, not that one re-exports it.
//! * `use` of a module is no arrow; names that are reached through it are.
//! * A glob import gives an arrow for each name that is defined there and occurs here.
//! * What is under `#[cfg(test)]` counts only if that is asked for.
//!
//! Names that macros define are taken for the module in which the path ends. Methods called on a value name no file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::{
    Attribute, Expr, ExprLit, Item, ItemMod, ItemUse, Lit, Macro, Meta, MetaNameValue, PatIdent, Token,
    UseName, UsePath, UseRename, UseTree, Visibility,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _},
    visit::{self, Visit},
};

/// The names that one file takes from another.
pub(super) type Arrows = BTreeMap<(PathBuf, PathBuf), BTreeSet<String>>;

/// How often a name may be passed on.
const DEPTH_MAX: usize = 16;

/// What is read of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    WithoutTests,
    WithTests,
}

/// Reads the modules of a target from its root, and adds its arrows and files.
pub(super) fn add_target(
    root: &Path,
    scope: Scope,
    arrows: &mut Arrows,
    files: &mut BTreeSet<PathBuf>,
) -> Result<()> {
    let mut tree = Tree { scope, modules: BTreeMap::new() };
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

#[derive(Debug)]
struct Tree {
    scope: Scope,
    modules: BTreeMap<ModulePath, Module>,
}

impl Tree {
    /// `folder` is where files of modules are that this file declares.
    fn read_file(&mut self, file: &Path, path: ModulePath, folder: &Path) -> Result<()> {
        let text = fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
        let items =
            syn::parse_file(&text).with_context(|| format!("failed to parse {}", file.display()))?.items;
        let mut reader =
            Reader { tree: self, file, here: path, inline: PathBuf::new(), children: Vec::new() };
        reader.read(&items);
        for child in reader.children {
            let name = child.path.last().map_or("", String::as_str);
            let found = match &child.file {
                // Beside the file that says so, or in the folder of the inline module there.
                Some(named) if child.inline.as_os_str().is_empty() => file.with_file_name(named),
                Some(named) => folder.join(&child.inline).join(named),
                None => folder.join(&child.inline).join(format!("{name}.rs")),
            };
            let found =
                if found.exists() { found } else { folder.join(&child.inline).join(name).join("mod.rs") };
            let is_root = child.file.is_some() || found.ends_with("mod.rs");
            let folder = if is_root { found.with_file_name("") } else { found.with_extension("") };
            self.read_file(&normal(&found), child.path, &folder)?;
        }
        Ok(())
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
    path: ModulePath,
    /// The modules within its file's parent around the declaration.
    inline: PathBuf,
    /// `#[path = ".."]`
    file: Option<PathBuf>,
}

/// A file as it is read.
struct Reader<'t> {
    tree: &'t mut Tree,
    file: &'t Path,
    here: ModulePath,
    /// The inline modules here.
    inline: PathBuf,
    children: Vec<Child>,
}

impl Reader<'_> {
    fn read(&mut self, items: &[Item]) {
        self.module().file = self.file.into();
        for item in items {
            if let Some(ident) = definition(item) {
                self.module().defined.insert(name(ident));
            }
            self.visit_item(item);
        }
    }

    fn is_left_out(&self, attributes: &[Attribute]) -> bool {
        self.tree.scope == Scope::WithoutTests && is_for_tests(attributes)
    }

    fn module(&mut self) -> &mut Module {
        self.tree.modules.entry(self.here.clone()).or_default()
    }

    fn add_path(&mut self, path: Vec<String>) {
        let module = self.module();
        module.words.insert(path[0].clone());
        if path.len() > 1 {
            module.paths.insert(path);
        }
    }

    fn add_use(&mut self, tree: &UseTree, mut path: Vec<String>, is_passed_on: bool) {
        match tree {
            UseTree::Path(UsePath { ident, tree, .. }) => {
                path.push(name(ident));
                self.add_use(tree, path, is_passed_on);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(tree, path.clone(), is_passed_on);
                }
            }
            UseTree::Glob(_) => self.module().globs.push(path),
            UseTree::Name(UseName { ident }) => self.add_import(ident, None, path, is_passed_on),
            UseTree::Rename(UseRename { ident, rename, .. }) => {
                self.add_import(ident, Some(name(rename)), path, is_passed_on);
            }
        }
    }

    fn add_import(
        &mut self,
        ident: &Ident,
        rename: Option<String>,
        mut path: Vec<String>,
        is_passed_on: bool,
    ) {
        if ident != "self" {
            path.push(name(ident));
        }
        let name = match rename {
            // Distinct, since several may be `as _`.
            Some(rename) if rename == "_" => path.join("::"),
            Some(rename) => rename,
            None => path.last().cloned().unwrap_or_default(),
        };
        self.module().imports.insert(name, Import { path, is_passed_on });
    }

    /// What macros are given, or are made of, need not be Rust: only paths are read.
    fn read_tokens(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        // Behind a dot is a field or method. `::` goes on a path that begins with a type, or leads to another crate. `$crate` is
        // `crate`; what other variables stand for is not known.
        let mut is_unknown = false;
        while !input.is_empty() {
            if input.peek(Ident::peek_any) {
                let mut path = vec![name(&input.call(Ident::parse_any)?)];
                while input.peek(Token![::]) && input.peek3(Ident::peek_any) {
                    input.parse::<Token![::]>()?;
                    path.push(name(&input.call(Ident::parse_any)?));
                }
                if !is_unknown {
                    self.add_path(path);
                }
                is_unknown = false;
            } else if input.peek(Token![::]) {
                input.parse::<Token![::]>()?;
                is_unknown = true;
            } else {
                is_unknown = input.peek(Token![.]) || (input.peek(Token![$]) && !input.peek2(Token![crate]));
                if let TokenTree::Group(group) = input.parse()? {
                    self.read_group(group.stream());
                }
            }
        }
        Ok(())
    }

    fn read_group(&mut self, tokens: TokenStream) {
        let read = |input: ParseStream<'_>| self.read_tokens(input);
        read.parse2(tokens).expect("any sequence of tokens can be read");
    }
}

/// Visits what is not only for tests.
macro_rules! skip_tests {
    ($($visit:ident $node:ident),*) => {$(
        fn $visit(&mut self, node: &'ast syn::$node) {
            if !self.is_left_out(&node.attrs) {
                visit::$visit(self, node);
            }
        }
    )*};
}

impl<'ast> Visit<'ast> for Reader<'_> {
    skip_tests! {
        visit_arm Arm, visit_expr_block ExprBlock, visit_expr_call ExprCall, visit_field Field,
        visit_field_value FieldValue, visit_impl_item_const ImplItemConst, visit_impl_item_fn ImplItemFn,
        visit_item_const ItemConst, visit_item_enum ItemEnum, visit_item_fn ItemFn, visit_item_impl ItemImpl,
        visit_item_macro ItemMacro, visit_item_static ItemStatic, visit_item_struct ItemStruct,
        visit_item_trait ItemTrait, visit_item_type ItemType, visit_local Local, visit_stmt_macro StmtMacro,
        visit_trait_item_fn TraitItemFn, visit_variant Variant
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if self.is_left_out(&item.attrs) {
            return;
        }
        self.here.push(name(&item.ident));
        if let Some((_, items)) = &item.content {
            self.inline.push(name(&item.ident));
            self.read(items);
            self.inline.pop();
        } else {
            let file = item.attrs.iter().find_map(|attribute| match &attribute.meta {
                Meta::NameValue(MetaNameValue {
                    path,
                    value: Expr::Lit(ExprLit { lit: Lit::Str(file), .. }),
                    ..
                }) if path.is_ident("path") => Some(file.value().into()),
                _ => None,
            });
            self.children.push(Child { path: self.here.clone(), inline: self.inline.clone(), file });
        }
        self.here.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !self.is_left_out(&item.attrs) && item.leading_colon.is_none() {
            self.add_use(&item.tree, Vec::new(), !matches!(item.vis, Visibility::Inherited));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.add_path(path.segments.iter().map(|segment| name(&segment.ident)).collect());
        }
        visit::visit_path(self, path);
    }

    /// A constant in a pattern looks like a variable.
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        self.add_path(vec![name(&pattern.ident)]);
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        self.visit_path(&called.path);
        self.read_group(called.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

/// The name that an item gives to its module, unless it is a module.
fn definition(item: &Item) -> Option<&Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Macro(item) => item.ident.as_ref(),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Union(item) => Some(&item.ident),
        _ => None,
    }
}

/// A raw name is the name without its mark.
fn name(ident: &Ident) -> String {
    ident.unraw().to_string()
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let condition = attribute.meta.require_list().map(|list| list.tokens.to_string().replace(' ', ""));
        condition.is_ok_and(|condition| condition == "test" || condition.starts_with("all(test,"))
    })
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
