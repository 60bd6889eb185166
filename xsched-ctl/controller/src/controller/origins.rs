//! Which libraries a claim's device time belongs to.
//!
//! A process reports them by number. Where BPF programs decide about its calls, the numbers are the controller's.
//! Otherwise they are its own, and it reports their names.

use std::collections::BTreeMap;
use std::sync::Arc;

use xsched_control_api::answer;
use xsched_protocol::wire::{OriginName, OriginTime, OriginUsage};
use xsched_symbols::now_ns;
use xsched_terminal::one_line;

use super::claim::Claim;
use super::client::Client;
use super::{ClientId, Controller};

/// Name of an unknown library.
const UNKNOWN: &str = "[unknown]";

/// Name of all libraries for which a process had no number left.
const OTHERS: &str = "[others]";

impl Controller {
    /// A process has numbered a library.
    pub(crate) fn name_origin(&mut self, id: ClientId, said: &OriginName) {
        if let Some(client) = self.clients.get_mut(&id) {
            // The packet limits numbers, and with them the names.
            client.origins.insert(said.id, String::from_utf8_lossy(said.text()).into_owned());
        }
    }

    /// A process reports how a claim's device time divides.
    pub(crate) fn divide(&mut self, id: ClientId, said: &OriginUsage) {
        let claim = self.claims.get_mut(&said.slot);
        let own = claim.filter(|claim| claim.client == id && claim.key.generation == said.generation);
        match own {
            Some(claim) => {
                let (client, known) = (self.clients.get(&id), self.calls.names.borrow());
                claim.divide(now_ns(), said.parts(), |group, number, more| {
                    if let Some(client) = client {
                        group.used_by(&one_line(name(number, client, &known)), more);
                    }
                });
            }
            None => self.counts.refused += 1,
        }
    }

    /// The parts of a claim's device time by name, the largest first.
    pub(super) fn origins(&self, claim: &Claim, client: &Client) -> Vec<answer::Origin> {
        let (now_ns, known) = (now_ns(), self.calls.names.borrow());
        let mut by_name: BTreeMap<&str, (f64, u64)> = BTreeMap::new();
        for (&number, time) in claim.origins.iter().filter(|(_, time)| time.ns > 0) {
            let (share, ns) = by_name.entry(name(number, client, &known)).or_default();
            *share += time.share(now_ns);
            // A process may report any number.
            *ns = ns.saturating_add(time.ns);
        }
        let mut origins: Vec<_> = by_name
            .into_iter()
            .map(|(name, (device_share, device_ns))| answer::Origin {
                library: one_line(name).into_owned(),
                device_share,
                device_ns,
            })
            .collect();
        origins.sort_by_key(|origin| std::cmp::Reverse(origin.device_ns));
        origins
    }
}

fn name<'a>(number: u32, client: &'a Client, known: &'a [Arc<str>]) -> &'a str {
    let name = match number {
        OriginTime::UNKNOWN => None,
        OriginTime::OTHERS => Some(OTHERS),
        own if own & OriginTime::OWN != 0 => {
            client.origins.get(&(own & !OriginTime::OWN)).map(String::as_str)
        }
        // Numbers begin with 1.
        number => known.get(number as usize - 1).map(|name| &**name),
    };
    name.unwrap_or(UNKNOWN)
}
