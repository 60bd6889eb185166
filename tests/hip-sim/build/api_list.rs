//! The list of HIP functions: one line each with table, index, name, symbol version, return type, arguments.

/// The dispatch table that holds a function's pointer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// `__hip*`: called by compiled code before `main`.
    Compiler,
    /// `hip*`: called by programs.
    Runtime,
}

/// One line of the list.
pub(crate) struct Function {
    pub(crate) table: Table,
    /// Position in its table.
    pub(crate) index: usize,
    pub(crate) name: String,
    /// Major and minor of the first release, or none if the genuine library exports no such C symbol.
    pub(crate) version: Option<(u32, u32)>,
    /// C type.
    pub(crate) returns: String,
    /// C parameters with their names.
    pub(crate) parameters: Vec<String>,
}

/// Functions in file order. Panics on a malformed line, since the list is part of this repository.
pub(crate) fn parse(text: &str) -> Vec<Function> {
    text.lines().filter(|line| !line.is_empty()).map(parse_line).collect()
}

fn parse_line(line: &str) -> Function {
    let columns: Vec<&str> = line.split('\t').collect();
    let [table, index, name, version, returns, parameters] = columns[..] else {
        panic!("not six columns: {line}");
    };
    let table = match table {
        "compiler" => Table::Compiler,
        "runtime" => Table::Runtime,
        other => panic!("no table `{other}`: {line}"),
    };
    let index = index.parse().unwrap_or_else(|_| panic!("bad index: {line}"));
    let parameters = match parameters.trim() {
        "" | "void" => Vec::new(),
        list => list.split(',').map(|p| p.trim().to_owned()).collect(),
    };
    Function {
        table,
        index,
        name: name.to_owned(),
        version: parse_version(version),
        returns: returns.to_owned(),
        parameters,
    }
}

/// `hip_6.2` -> (6, 2); `None` -> nothing.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    if text == "None" {
        return None;
    }
    let (major, minor) = text
        .strip_prefix("hip_")
        .and_then(|v| v.split_once('.'))
        .unwrap_or_else(|| panic!("bad version `{text}`"));
    let number = |s: &str| s.parse().unwrap_or_else(|_| panic!("bad version `{text}`"));
    Some((number(major), number(minor)))
}
