//! Names of users.
//!
//! Names in `/etc/passwd` are read with the other files. The system's name services know others and may ask a network, so
//! separate threads ask them. They ask by name for the names in files, when these are read, and by number when a process of an
//! unknown user connects (`directory`).

pub(crate) mod name_service;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use xsched_terminal::one_line;

/// How long all lookups of names together may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Limit on users whose names were looked up when they connected. When it is reached, all of these are forgotten and
/// looked up again.
const LEARNED_MAX: usize = 4096;

/// Names by number, and what is known of names that no user has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users {
    /// The first name is the one to show.
    names: HashMap<u32, Vec<String>>,
    /// Users that were looked up when they connected; none: the number has no name.
    learned: HashMap<u32, Option<String>>,
    /// Names in files for which no user is known.
    missing: BTreeMap<String, Missing>,
}

/// Why no user is known for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// There is no such user.
    Nobody,
    /// The lookup failed.
    Unanswered(String),
}

impl Users {
    /// Users of this machine, and those with these names. Takes some seconds at most.
    pub(crate) fn read(wanted: BTreeSet<String>) -> Self {
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        Self::parse(&passwd).with(wanted, name_service::number, PATIENCE)
    }

    fn parse(passwd: &str) -> Self {
        let entries = passwd.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next().filter(|name| !name.is_empty())?;
            Some((fields.nth(1)?.parse().ok()?, name.to_owned()))
        });
        let mut users = Self::default();
        // Of several names for one number the first is shown, as getpwuid(3) does.
        entries.for_each(|(uid, name)| users.names.entry(uid).or_default().push(name));
        users
    }

    /// Adds the users with these names, as `number` finds them, on a separate thread.
    fn with(
        mut self,
        mut wanted: BTreeSet<String>,
        number: impl Fn(&str) -> io::Result<Option<u32>> + Send + 'static,
        patience: Duration,
    ) -> Self {
        wanted.retain(|name| !self.names.values().any(|known| known.contains(name)));
        if wanted.is_empty() {
            return self;
        }
        let unanswered = Missing::Unanswered(format!("no answer within {} s", patience.as_secs()));
        self.missing = wanted.iter().map(|name| (name.clone(), unanswered.clone())).collect();
        let (tell, told) = mpsc::channel();
        let ask = move || {
            for name in wanted {
                let number = number(&name);
                if tell.send((name, number)).is_err() {
                    return;
                }
            }
        };
        if let Err(error) = thread::Builder::new().name("xsched-names".to_owned()).spawn(ask) {
            tracing::error!("cannot ask for names: {error}");
            return self;
        }
        let deadline = Instant::now() + patience;
        while let Ok((name, number)) = told.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            match number {
                Ok(Some(uid)) => {
                    self.missing.remove(&name);
                    self.names.entry(uid).or_default().push(name);
                }
                Ok(None) => _ = self.missing.insert(name, Missing::Nobody),
                Err(error) => _ = self.missing.insert(name, Missing::Unanswered(error.to_string())),
            }
        }
        self
    }

    /// The warning for a name in a file for which no user is known.
    pub(crate) fn warning(&self, name: &str) -> Option<String> {
        Some(match self.missing.get(name)? {
            Missing::Nobody => format!(
                "there is no user `{name}`, so this never matches; `getent passwd {name}` does the same lookup, and a number always works"
            ),
            Missing::Unanswered(why) => format!(
                "the lookup of user `{name}` failed ({why}), so this matches no process until one of that user connects, or the \
                 files are reloaded"
            ),
        })
    }

    pub(crate) fn knows(&self, uid: u32) -> bool {
        self.names.contains_key(&uid) || self.learned.contains_key(&uid)
    }

    /// Notes a user's name, or that it has none.
    pub(crate) fn learn(&mut self, uid: u32, name: Option<&str>) {
        if self.learned.len() >= LEARNED_MAX {
            self.learned.clear();
        }
        self.learned.insert(uid, name.map(|name| one_line(name).into_owned()));
    }

    /// Replaces the names of files, and keeps those that were looked up here.
    pub(crate) fn replace(&mut self, others: Self) {
        let learned = std::mem::take(&mut self.learned);
        *self = others;
        self.learned = learned;
        // Users without a name may have been given one.
        self.learned.retain(|_, name| name.is_some());
    }

    /// A user's names; the first is the one to show.
    pub(crate) fn names(&self, uid: u32) -> Vec<String> {
        let known = self.names.get(&uid).into_iter().flatten();
        let learned = self.learned.get(&uid).into_iter().flatten();
        let mut names: Vec<String> = Vec::new();
        for name in known.chain(learned) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:\n# no\nbroken\nal:x:7:7::/:\n";

    fn asked(names: &[&str], patience: Duration) -> Users {
        let number = |name: &str| match name {
            "ada" => Ok(Some(70_001)),
            "al@far" => Ok(Some(7)),
            "lost" => Err(io::ErrorKind::ConnectionRefused.into()),
            "slow" => loop {
                thread::park();
            },
            "al" => panic!("this user is known"),
            _ => Ok(None),
        };
        Users::parse(PASSWD).with(names.iter().map(ToString::to_string).collect(), number, patience)
    }

    #[test]
    fn the_first_name_of_a_number_is_shown() {
        let users = Users::parse(PASSWD);
        assert_eq!(users.names(0), ["root", "toor"]);
        assert_eq!((users.names(7), users.names(8)), (vec!["al".to_owned()], Vec::new()));
        assert!(users.knows(7) && !users.knows(8));
    }

    #[test]
    fn names_that_are_in_no_file_are_asked_for() {
        let users = asked(&["ada", "al", "al@far", "bob", "lost", "toor"], Duration::from_mins(1));
        assert_eq!(
            (users.names(70_001), users.names(7)),
            (vec!["ada".to_owned()], vec!["al".into(), "al@far".into()])
        );
        assert_eq!(users.missing.keys().collect::<Vec<_>>(), ["bob", "lost"]);
        let warning = users.warning("bob").unwrap();
        assert!(warning.starts_with("there is no user `bob`, so this never matches; "), "{warning}");
        let warning = users.warning("lost").unwrap();
        assert!(warning.starts_with("the lookup of user `lost` failed (connection refused)"), "{warning}");
        assert_eq!(users.warning("ada"), None);
    }

    #[test]
    fn a_service_that_does_not_answer_is_not_waited_for() {
        let users = asked(&["ada", "slow", "zoe"], Duration::from_secs(1));
        assert_eq!(users.names(70_001), ["ada"]);
        let unanswered = Missing::Unanswered("no answer within 1 s".to_owned());
        assert_eq!(users.missing, [("slow".into(), unanswered.clone()), ("zoe".into(), unanswered)].into());
    }

    #[test]
    fn looked_up_names_stay_known_when_files_are_reloaded() {
        let mut users = Users::default();
        users.learn(8, Some("b\no"));
        users.learn(9, None);
        assert!(users.knows(8) && users.knows(9) && users.names(9).is_empty());
        users.replace(Users::parse(PASSWD));
        assert_eq!((users.names(8), users.names(7)), (vec!["b\\no".to_owned()], vec!["al".to_owned()]));
        assert!(!users.knows(9), "a user without a name may have been given one");
        for uid in 10..10 + 2 * LEARNED_MAX as u32 {
            users.learn(uid, None);
        }
        assert!(users.learned.len() <= LEARNED_MAX);
    }
}
