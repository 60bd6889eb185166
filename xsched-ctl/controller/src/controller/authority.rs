//! Permissions to change things, and the audit log of changes.

use std::fmt;

use xsched_control_api::{
    answer::Reason,
    parameters::{AboveCeiling, Ceiling, Parameters, Wish},
    peer::{Container, Party, Peer},
};
use xsched_terminal::one_line;

/// The process that asks, as the kernel identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    /// Its id; 0 if it is in a foreign pid namespace.
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    pub(crate) container: Option<Container>,
    /// What its resources count for.
    pub(crate) party: Party,
}

/// See [`Actor::account`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    party: Party,
    is_privileged: bool,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OrderError {
    /// It concerns all processes.
    #[error("only root and the user that runs the controller may do this")]
    NotPrivileged,
    /// It concerns all processes, and the process would be privileged outside of its container.
    #[error("root in a container is root of that container only: this is for root outside")]
    Contained,
    #[error("the process belongs to another user")]
    NotYours,
    #[error("the process is not in this container")]
    Elsewhere,
    #[error(transparent)]
    AboveCeiling(#[from] AboveCeiling),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Malformed(String),
    #[error("{0}")]
    Full(&'static str),
    /// It would promise more of a device than there is.
    #[error("{0}")]
    NotAdmitted(String),
}

impl OrderError {
    /// The reason on the wire.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::NotPrivileged | Self::Contained | Self::NotYours | Self::Elsewhere => Reason::NotPermitted,
            Self::AboveCeiling(_) => Reason::AboveCeiling,
            Self::NotFound(_) => Reason::NotFound,
            Self::Malformed(_) => Reason::Malformed,
            Self::Full(_) | Self::NotAdmitted(_) => Reason::Full,
        }
    }
}

impl Actor {
    pub(crate) fn of(peer: &Peer) -> Self {
        Self { pid: peer.pid, uid: peer.uid, container: peer.container, party: peer.party }
    }

    /// Whether it is privileged: root or the controller's user, outside of containers.
    pub(crate) fn is_privileged(self) -> bool {
        self.has_power() && self.container.is_none()
    }

    /// The account that its resources count for: root in a container does not use up what is reserved for root outside.
    pub(super) fn account(self) -> Account {
        Account { party: self.party, is_privileged: self.is_privileged() }
    }

    /// The party that its use of something limited counts for; none for privileged users, which are not limited.
    pub(crate) fn counted(self) -> Option<Party> {
        (!self.is_privileged()).then_some(self.party)
    }

    fn has_power(self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }

    /// Refuses requests that concern all processes.
    pub(super) fn check_privileged(self) -> Result<(), OrderError> {
        match self.is_privileged() {
            true => Ok(()),
            false if self.has_power() => Err(OrderError::Contained),
            false => Err(OrderError::NotPrivileged),
        }
    }

    pub(super) fn may_see(self, process: Self) -> bool {
        self.is_privileged() || self.check_owns(process).is_ok()
    }

    /// Refuses unless the process has the same user, and the same container if the caller is in one.
    fn check_owns(self, process: Self) -> Result<(), OrderError> {
        if self.uid != process.uid {
            return Err(OrderError::NotYours);
        }
        let is_within = self.container.is_none() || self.container == process.container;
        if is_within { Ok(()) } else { Err(OrderError::Elsewhere) }
    }

    /// Refuses a change of a process's scheduling parameters that the caller may not make.
    pub(super) fn check_change(
        self,
        process: Self,
        ceiling: Ceiling,
        now: Parameters,
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

/// Writes the audit line of a requested change: the process, the change, and the result.
pub(super) fn audit(actor: Actor, what: &str, outcome: Result<&str, &OrderError>) {
    let line = match outcome {
        Ok(effect) => format!("{actor} allowed: {what}: {effect}"),
        Err(error) => format!("{actor} refused: {what}: {error}"),
    };
    // Some of the words come from the caller, which must not add lines to the log.
    tracing::info!(target: "audit", "{}", one_line(&line));
}

#[cfg(test)]
mod tests {
    use xsched_control_api::parameters::Class;

    use super::*;

    /// No controller runs as this user, which is not root.
    const USER: u32 = 4_000_000_000;

    fn actor(uid: u32) -> Actor {
        Actor::of(&Peer::unknown(1, uid))
    }

    fn contained(uid: u32, container: u64) -> Actor {
        Actor::of(&Peer::contained(1, uid, container))
    }

    fn check_for(actor: Actor, owner: Actor, priority: i16, now: i16) -> Result<(), OrderError> {
        let now = Parameters { priority: now, ..Parameters::default() };
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
    fn processes_of_other_users_are_not_changed() {
        assert_eq!(check(USER, 0, -255, 0), Err(OrderError::NotYours));
        assert_eq!(check(USER, USER + 1, -255, 0), Err(OrderError::NotYours));
        assert_eq!(actor(USER).check_privileged(), Err(OrderError::NotPrivileged));
    }

    /// The kernel's credentials show it as the machine's root.
    #[test]
    fn root_in_a_container_is_an_ordinary_user_of_that_container() {
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
            "it still belongs to the user"
        );
        assert_eq!(root.to_string(), "uid=0 pid=1 in a container");
    }

    #[test]
    fn root_and_the_controllers_user_may_do_anything() {
        assert_eq!(check(0, USER, 255, 0), Ok(()));
        assert_eq!(check(rustix::process::geteuid().as_raw(), USER, 255, 0), Ok(()));
    }
}
