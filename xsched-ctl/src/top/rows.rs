//! What the screen shows of a list: devices, and a row for each claim.

use std::collections::BTreeMap;

use xsched_control_api::answer::{Claim, List, Origin, Process};
use xsched_terminal::one_line;

use crate::list::Line;

/// What identifies a row from one list to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowId {
    pub(super) pid: u32,
    slot: Option<u32>,
}

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Pid,
    /// The largest first.
    DeviceTime,
}

/// A claim, or a process without any.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    pub(super) id: RowId,
    pub(super) line: Line,
    /// Its device's number on this screen.
    pub(super) device: Option<usize>,
    /// The processes that go first, as `4711 name`, while it waits.
    pub(super) waits_for: Vec<String>,
    pub(super) origins: &'a [Origin],
}

/// A device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    pub(super) claims: u64,
    pub(super) waiting: u64,
    /// None while none of its claims is measured.
    pub(super) share: Option<f64>,
}

/// The devices by name. The order gives each its number.
pub(super) fn devices(list: &List) -> BTreeMap<&str, Load> {
    let mut devices: BTreeMap<&str, Load> = BTreeMap::new();
    for (process, claim) in claims(list) {
        let load = devices.entry(&claim.device).or_default();
        load.claims += 1;
        load.waiting += u64::from(claim.ready && claim.suspended);
        // Shares of claims that run side by side add up to more time than there is.
        if Line::of(&list.controller, process, Some(claim)).device_share.is_some() {
            let known = list.devices.iter().find(|known| known.device == claim.device);
            load.share = known.map(|known| known.busy);
        }
    }
    devices
}

pub(super) fn rows(list: &List, order: Order) -> Vec<Row<'_>> {
    let devices = devices(list);
    let owners: BTreeMap<_, _> = claims(list).map(|(process, claim)| (claim.slot, process)).collect();
    let row = |process: &Process, claim: Option<&'_ Claim>| {
        let line = Line::of(&list.controller, process, claim);
        let device = claim.and_then(|claim| devices.keys().position(|name| *name == claim.device));
        let ahead = claim.map_or(&[][..], |claim| &claim.waits_for);
        let mut waits_for: Vec<_> =
            ahead.iter().map(|slot| owner(*slot, owners.get(slot).copied(), process)).collect();
        waits_for.dedup();
        (RowId { pid: process.pid, slot: line.slot }, line, device, waits_for)
    };
    let mut rows = Vec::new();
    for process in &list.processes {
        let claims = process.claims.iter().map(Some);
        let none = process.claims.is_empty().then_some(None);
        rows.extend(claims.chain(none).map(|claim| {
            let (id, line, device, waits_for) = row(process, claim);
            Row { id, line, device, waits_for, origins: claim.map_or(&[], |claim| &claim.origins) }
        }));
    }
    if order == Order::DeviceTime {
        let share = |row: &Row<'_>| row.line.device_share.unwrap_or(-1.0);
        rows.sort_by(|one, other| share(other).total_cmp(&share(one)));
    }
    rows
}

/// The claim in this slot, for a process that waits for it.
fn owner(slot: u32, owner: Option<&Process>, waiting: &Process) -> String {
    match owner {
        Some(owner) if owner.pid == waiting.pid && owner.pid != 0 => format!("its claim {slot}"),
        Some(owner) if owner.pid != 0 => format!("{} {}", owner.pid, one_line(&owner.command)),
        // It has left, or has no id where the controller runs.
        Some(_) | None => format!("claim {slot}"),
    }
}

fn claims(list: &List) -> impl Iterator<Item = (&Process, &Claim)> {
    list.processes.iter().flat_map(|process| process.claims.iter().map(move |claim| (process, claim)))
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn a_device_is_as_busy_as_the_controller_says_and_not_as_its_claims_together() {
        let mut list = fixture::list();
        let claims = list.processes.iter_mut().flat_map(|process| &mut process.claims);
        for claim in claims.filter(|claim| !claim.alone) {
            claim.device_share = 0.9;
        }
        list.devices[0].busy = 1.0;
        let shares: Vec<_> = devices(&list).into_values().map(|load| load.share).collect();
        assert_eq!(shares, [Some(1.0), None], "nothing is measured of a claim that is alone");
    }
}
