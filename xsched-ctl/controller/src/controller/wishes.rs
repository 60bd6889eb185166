//! What commands have set for processes: those that are connected, those that may connect again, and whole cgroups.

use xsched_control_api::parameters::Wish;

use super::authority::OrderError;
use super::client::{Client, Said};
use super::departed::Departed;
use super::tokens::Tokens;

/// Most cgroups for which something may be set at once.
const GROUPS_MAX: usize = 1024;

#[derive(Default)]
pub(super) struct Wishes {
    /// What `run` has requested.
    pub(super) tokens: Tokens,
    /// What was set for processes that may connect again.
    pub(super) departed: Departed,
    /// What was set for cgroups, the latest last.
    groups: Vec<(String, Wish)>,
}

impl Wishes {
    /// What is set for a process: for itself, or else for its cgroup, and by `run`.
    pub(super) fn of(&self, client: &Client) -> Said {
        let run = client.token.as_ref().map(|token| self.tokens.granted(token)).unwrap_or_default();
        Said { set: client.set.or(self.of_group(client)), run, ..Said::default() }
    }

    /// What was set for the cgroup of a process.
    pub(super) fn of_group(&self, client: &Client) -> Wish {
        let is_in = |cgroup: &str| client.subject.cgroups().any(|own| own == cgroup);
        let group = self.groups.iter().rev().find(|(cgroup, _)| is_in(cgroup));
        group.map(|(_, wish)| *wish).unwrap_or_default()
    }

    /// Sets something for a cgroup; an empty wish resets it.
    pub(super) fn set_for_group(&mut self, cgroup: &str, wish: Wish) -> Result<(), OrderError> {
        let before = self.groups.iter().position(|(known, _)| known == cgroup);
        let before = before.map(|index| self.groups.remove(index).1).unwrap_or_default();
        if self.groups.len() >= GROUPS_MAX {
            return Err(OrderError::Full("something is set for too many cgroups already"));
        }
        if !wish.is_empty() {
            self.groups.push((cgroup.to_owned(), wish.or(before)));
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn group_count(&self) -> usize {
        self.groups.len()
    }
}
