//! Names of users.
//!
//! Those of `/etc/passwd` are read with the other files. The system's name services have others, and may ask a network for them,
//! so they are asked on threads of their own: by name, when files are read, for the names that these use; by number, when
//! somebody comes whom nobody knows yet (`directory`).

pub(crate) mod name_service;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use xsched_terminal::one_line;

/// How long names may take to be found out, all of them together.
const PATIENCE: Duration = Duration::from_secs(5);

/// Users whose names were found out when they came: more of them make the first ones forgotten, and asked for again.
const LEARNED_MAX: usize = 4096;

/// Names by number, and what is known of names that nobody has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users {
    /// The first name is what people are shown.
    names: HashMap<u32, Vec<String>>,
    /// Those who were asked for when they came; none: the number has no name.
    learned: HashMap<u32, Option<String>>,
    /// Names that files use and nobody is known to have.
    missing: BTreeMap<String, Missing>,
}

/// Why a name is nobody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Nobody has it.
    Nobody,
    /// It could not be found out.
    Unanswered(String),
}

impl Users {
    /// Those of this machine, and who has these names. Takes some seconds at most.
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
        // Of several names for one number the first is shown, as getpwuid(3) has it.
        entries.for_each(|(uid, name)| users.names.entry(uid).or_default().push(name));
        users
    }

    /// With those who have these names, as `number` says, on a thread of its own.
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

    /// What there is to say of a name in a file that nobody is known to have; it goes on with what that means for the line.
    pub(crate) fn warning(&self, name: &str) -> Option<String> {
        Some(match self.missing.get(name)? {
            Missing::Nobody => format!(
                "no user is called `{name}`, so this never fits; `getent passwd {name}` asks as xsched-ctl does, a number always fits"
            ),
            Missing::Unanswered(why) => format!(
                "who is called `{name}` could not be found out ({why}), so this fits nobody until his processes come and have that \
                 name, or files are read anew"
            ),
        })
    }

    /// Whether it need not be asked what a user is called.
    pub(crate) fn knows(&self, uid: u32) -> bool {
        self.names.contains_key(&uid) || self.learned.contains_key(&uid)
    }

    /// A user is called so, or has no name.
    pub(crate) fn learn(&mut self, uid: u32, name: Option<&str>) {
        if self.learned.len() >= LEARNED_MAX {
            self.learned.clear();
        }
        self.learned.insert(uid, name.map(|name| one_line(name).into_owned()));
    }

    /// These instead, with the names that were found out here.
    pub(crate) fn replace(&mut self, others: Self) {
        let learned = std::mem::take(&mut self.learned);
        *self = others;
        self.learned = learned;
        // Who has none may have been given one.
        self.learned.retain(|_, name| name.is_some());
    }

    /// A user's names; the first is what people are shown.
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
            "al" => panic!("he is known"),
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
        assert!(warning.starts_with("no user is called `bob`, so this never fits; "), "{warning}");
        let warning = users.warning("lost").unwrap();
        assert!(
            warning.starts_with("who is called `lost` could not be found out (connection refused)"),
            "{warning}"
        );
        assert_eq!(users.warning("ada"), None);
    }

    #[test]
    fn who_does_not_answer_is_not_waited_for() {
        let users = asked(&["ada", "slow", "zoe"], Duration::from_secs(1));
        assert_eq!(users.names(70_001), ["ada"]);
        let unanswered = Missing::Unanswered("no answer within 1 s".to_owned());
        assert_eq!(users.missing, [("slow".into(), unanswered.clone()), ("zoe".into(), unanswered)].into());
    }

    #[test]
    fn who_was_learned_stays_known_when_files_are_read_anew() {
        let mut users = Users::default();
        users.learn(8, Some("b\no"));
        users.learn(9, None);
        assert!(users.knows(8) && users.knows(9) && users.names(9).is_empty());
        users.replace(Users::parse(PASSWD));
        assert_eq!((users.names(8), users.names(7)), (vec!["b\\no".to_owned()], vec!["al".to_owned()]));
        assert!(!users.knows(9), "who has no name may have been given one");
        for uid in 10..10 + 2 * LEARNED_MAX as u32 {
            users.learn(uid, None);
        }
        assert!(users.learned.len() <= LEARNED_MAX);
    }
}
