//! Names of users.
//!
//! From `/etc/passwd` alone: a directory service might not answer, and the controller cannot wait. Users of such services
//! are known by their numbers.

use std::collections::HashMap;

/// Names by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users(HashMap<u32, String>);

impl Users {
    /// Those of this machine.
    pub(crate) fn read() -> Self {
        Self::parse(&std::fs::read_to_string("/etc/passwd").unwrap_or_default())
    }

    fn parse(passwd: &str) -> Self {
        let entries = passwd.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next().filter(|name| !name.is_empty())?;
            Some((fields.nth(1)?.parse().ok()?, name.to_owned()))
        });
        let mut names = HashMap::new();
        // Of several names for one number the first counts, as it does for getpwuid(3).
        entries.for_each(|(uid, name)| {
            names.entry(uid).or_insert(name);
        });
        Self(names)
    }

    /// Whether somebody has this name.
    pub(crate) fn know(&self, name: &str) -> bool {
        self.0.values().any(|known| known == name)
    }

    /// A user's name.
    pub(crate) fn name(&self, uid: u32) -> Option<&str> {
        self.0.get(&uid).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_a_number_counts() {
        let users =
            Users::parse("root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:\n# no\nbroken\nal:x:7:7::/:\n");
        assert_eq!((users.name(0), users.name(7), users.name(8)), (Some("root"), Some("al"), None));
        assert!(users.know("al") && !users.know("toor") && !users.know("bob"));
    }
}
