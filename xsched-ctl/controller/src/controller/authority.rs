//! Who may change what, and the account of who has.

use std::fmt;

use xsched_control_api::answer::Reason;
use xsched_control_api::peer::{Container, Peer};
use xsched_control_api::standing::{AboveCeiling, Ceiling, Standing, Wish};
use xsched_terminal::one_line;

/// Who asks, as the kernel knows him.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    /// The process; 0 if it is of another pid namespace.
    pub(crate) pid: u32,
    /// Its user.
    pub(crate) uid: u32,
    /// Where it runs, if that is in a container.
    pub(crate) container: Option<Container>,
}

/// See [`Actor::account`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    uid: u32,
    is_privileged: bool,
}

/// What is asked is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OrderError {
    /// It concerns everybody.
    #[error("only root and the user that runs the controller may do this")]
    NotPrivileged,
    /// The same, and whoever asks would be one of them elsewhere.
    #[error("root in a container is root of that container only: this is for root outside")]
    Contained,
    /// It concerns somebody else's process.
    #[error("the process belongs to another user")]
    NotYours,
    /// It concerns another container's process.
    #[error("the process is not in this container")]
    Elsewhere,
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
            Self::NotPrivileged | Self::Contained | Self::NotYours | Self::Elsewhere => Reason::NotPermitted,
            Self::AboveCeiling(_) => Reason::AboveCeiling,
            Self::NotFound(_) => Reason::NotFound,
            Self::Malformed(_) => Reason::Malformed,
            Self::Full(_) => Reason::Full,
        }
    }
}

impl Actor {
    /// A process that has connected.
    pub(crate) fn of(peer: &Peer) -> Self {
        Self { pid: peer.pid, uid: peer.uid, container: peer.container }
    }

    /// Whether he may do anything: he is root, or runs the controller, and not in a container.
    pub(crate) fn is_privileged(self) -> bool {
        self.has_power() && self.container.is_none()
    }

    /// On whose account it is what he takes: root in a container takes nothing of what there is for root outside.
    pub(super) fn account(self) -> Account {
        Account { uid: self.uid, is_privileged: self.is_privileged() }
    }

    fn has_power(self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }

    /// Refuses what concerns everybody.
    pub(super) fn check_privileged(self) -> Result<(), OrderError> {
        match self.is_privileged() {
            true => Ok(()),
            false if self.has_power() => Err(OrderError::Contained),
            false => Err(OrderError::NotPrivileged),
        }
    }

    /// Whether he may see what a process is.
    pub(super) fn may_see(self, process: Self) -> bool {
        self.is_privileged() || self.check_owns(process).is_ok()
    }

    /// Refuses who does not have a process for his own: it is of his user, and of his container if he is in one.
    fn check_owns(self, process: Self) -> Result<(), OrderError> {
        if self.uid != process.uid {
            return Err(OrderError::NotYours);
        }
        let is_within = self.container.is_none() || self.container == process.container;
        if is_within { Ok(()) } else { Err(OrderError::Elsewhere) }
    }

    /// Refuses a change of how a process stands.
    pub(super) fn check_change(
        self,
        process: Self,
        ceiling: Ceiling,
        now: Standing,
        wish: Wish,
    ) -> Result<(), OrderError> {
        if self.is_privileged() {
            return Ok(());
        }
        self.check_owns(process)?;
        Ok(ceiling.check(wish, now)?)
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.container.is_some() { " in a container" } else { "" };
        write!(f, "uid={} pid={}{place}", self.uid, self.pid)
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
    use xsched_control_api::standing::Class;

    use super::*;

    /// Nobody runs a controller as this user, and he is not root.
    const USER: u32 = 4_000_000_000;

    fn actor(uid: u32) -> Actor {
        Actor { pid: 1, uid, container: None }
    }

    fn contained(uid: u32, container: u64) -> Actor {
        Actor::of(&Peer::contained(1, uid, container))
    }

    fn check_for(actor: Actor, owner: Actor, priority: i16, now: i16) -> Result<(), OrderError> {
        let now = Standing { priority: now, ..Standing::default() };
        let wish = Wish { priority: Some(priority), ..Wish::default() };
        actor.check_change(owner, Ceiling::default(), now, wish)
    }

    fn check(uid: u32, owner: u32, priority: i16, now: i16) -> Result<(), OrderError> {
        check_for(actor(uid), actor(owner), priority, now)
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
        assert_eq!(actor(USER).check_privileged(), Err(OrderError::NotPrivileged));
    }

    /// To the kernel's credentials it is the machine's.
    #[test]
    fn root_of_a_container_is_a_user_like_others_and_in_there() {
        let (root, own) = (contained(0, 7), rustix::process::geteuid().as_raw());
        assert!(!root.is_privileged() && !contained(own, 7).is_privileged());
        assert_eq!(root.check_privileged(), Err(OrderError::Contained));
        assert_eq!(check_for(root, root, 0, -3), Ok(()));
        assert!(matches!(check_for(root, root, 50, 0), Err(OrderError::AboveCeiling(_))));
        for other in [contained(0, 8), actor(0)] {
            assert_eq!(check_for(root, other, -255, 0), Err(OrderError::Elsewhere));
            assert!(!root.may_see(other) && actor(0).may_see(other));
        }
        assert_eq!(
            check_for(actor(USER), contained(USER, 7), -255, 0),
            Ok(()),
            "it is the user's all the same"
        );
        assert_eq!(root.to_string(), "uid=0 pid=1 in a container");
    }

    #[test]
    fn root_and_the_controllers_user_may_do_anything() {
        assert_eq!(check(0, USER, 255, 0), Ok(()));
        assert_eq!(check(rustix::process::geteuid().as_raw(), USER, 255, 0), Ok(()));
    }
}
