//! Who may change what, and the account of who has.

use std::fmt;

use crate::control::answer::Reason;
use crate::say::one_line;
use crate::standing::{AboveCeiling, Ceiling, Standing, Wish};

/// Who asks, as the kernel knows him.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    /// The process; 0 if it is of another pid namespace.
    pub(crate) pid: u32,
    /// Its user.
    pub(crate) uid: u32,
}

/// What is asked is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OrderError {
    /// It concerns everybody.
    #[error("only root and the user that runs the controller may do this")]
    NotPrivileged,
    /// It concerns somebody else's process.
    #[error("the process belongs to another user")]
    NotYours,
    /// It goes too far.
    #[error(transparent)]
    AboveCeiling(#[from] AboveCeiling),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// It makes no sense.
    #[error("{0}")]
    Malformed(String),
    /// There is too much of it.
    #[error("{0}")]
    Full(&'static str),
}

impl OrderError {
    /// Of what sort it is.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::NotPrivileged | Self::NotYours => Reason::NotPermitted,
            Self::AboveCeiling(_) => Reason::AboveCeiling,
            Self::NotFound(_) => Reason::NotFound,
            Self::Malformed(_) => Reason::Malformed,
            Self::Full(_) => Reason::Full,
        }
    }
}

impl Actor {
    /// Whether he may do anything: he is root, or runs the controller.
    pub(crate) fn is_privileged(self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }

    /// Refuses what concerns everybody.
    pub(super) fn check_privileged(self) -> Result<(), OrderError> {
        if self.is_privileged() { Ok(()) } else { Err(OrderError::NotPrivileged) }
    }

    /// Refuses a change of how a process of a user stands.
    pub(super) fn check_change(
        self,
        owner: u32,
        ceiling: Ceiling,
        now: Standing,
        wish: Wish,
    ) -> Result<(), OrderError> {
        if self.is_privileged() {
            return Ok(());
        }
        if self.uid != owner {
            return Err(OrderError::NotYours);
        }
        Ok(ceiling.check(wish, now)?)
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid={} pid={}", self.uid, self.pid)
    }
}

/// Writes down a change that was asked for: who, what, and what became of it.
pub(super) fn audit(actor: Actor, what: &str, outcome: Result<&str, &OrderError>) {
    let line = match outcome {
        Ok(effect) => format!("{actor} allowed: {what}: {effect}"),
        Err(error) => format!("{actor} refused: {what}: {error}"),
    };
    // Whoever asks has chosen some of the words, and is not to write lines of his own.
    tracing::info!(target: "audit", "{}", one_line(&line));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standing::Class;

    /// Nobody runs a controller as this user, and he is not root.
    const USER: u32 = 4_000_000_000;

    fn check(uid: u32, owner: u32, priority: i16, now: i16) -> Result<(), OrderError> {
        let now = Standing { priority: now, ..Standing::default() };
        let wish = Wish { priority: Some(priority), ..Wish::default() };
        Actor { pid: 1, uid }.check_change(owner, Ceiling::default(), now, wish)
    }

    #[test]
    fn own_processes_may_be_lowered_and_raised_to_the_ceiling() {
        assert_eq!(check(USER, USER, -255, 0), Ok(()));
        assert_eq!(check(USER, USER, Class::Normal.highest(), -255), Ok(()));
        assert!(matches!(check(USER, USER, 50, 0), Err(OrderError::AboveCeiling(_))));
        assert_eq!(check(USER, USER, 90, 100), Ok(()), "this is lowering");
    }

    #[test]
    fn others_processes_are_others() {
        assert_eq!(check(USER, 0, -255, 0), Err(OrderError::NotYours));
        assert_eq!(check(USER, USER + 1, -255, 0), Err(OrderError::NotYours));
        assert_eq!(Actor { pid: 1, uid: USER }.check_privileged(), Err(OrderError::NotPrivileged));
    }

    #[test]
    fn root_and_the_controllers_user_may_do_anything() {
        assert_eq!(check(0, USER, 255, 0), Ok(()));
        assert_eq!(check(rustix::process::geteuid().as_raw(), USER, 255, 0), Ok(()));
    }
}
