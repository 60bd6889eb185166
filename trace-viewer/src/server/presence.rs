//! Whether a page is still open.
//!
//! A page sends a heartbeat twice a minute, and a notice when it is closed. The server ends some seconds after the last page was
//! closed, so that a reload still finds it. It also ends when no page has sent a heartbeat for ten minutes. Browsers slow hidden
//! pages down to one heartbeat a minute, and a suspended machine sends none. Before the first page the server does not end.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// How long a reload of the last page may take.
const RELOAD: Duration = Duration::from_secs(5);
/// A page that sends no heartbeat for this long counts as closed.
const SILENCE: Duration = Duration::from_mins(10);
/// Pages that are tracked. Further ones are ignored: the server may end while they are open.
const PAGES_MAX: usize = 256;

/// The pages that are open.
#[derive(Debug, Default)]
pub(super) struct Presence {
    pages: HashMap<String, Instant>,
    /// When the last page was closed, or the time of the last request since.
    alone_since: Option<Instant>,
}

impl Presence {
    /// A page's heartbeat.
    pub(super) fn here(&mut self, page: &str, now: Instant) {
        if self.pages.len() < PAGES_MAX || self.pages.contains_key(page) {
            self.pages.insert(page.to_owned(), now);
            self.alone_since = None;
        }
    }

    /// A page was closed.
    pub(super) fn gone(&mut self, page: &str, now: Instant) {
        if self.pages.remove(page).is_some() && self.pages.is_empty() {
            self.alone_since = Some(now);
        }
    }

    /// A request of any kind.
    pub(super) fn request(&mut self, now: Instant) {
        self.alone_since = self.alone_since.map(|_| now);
    }

    /// Whether the server is to end.
    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        let count = self.pages.len();
        self.pages.retain(|_, seen| now.saturating_duration_since(*seen) < SILENCE);
        if self.pages.is_empty() && count > 0 {
            return true;
        }
        self.alone_since.is_some_and(|since| now.saturating_duration_since(since) >= RELOAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_does_not_end_before_the_first_page() {
        assert!(!Presence::default().is_over(Instant::now() + 100 * SILENCE));
    }

    #[test]
    fn the_server_ends_after_the_last_page_and_not_before() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        presence.here("a", now);
        presence.here("b", now);
        presence.gone("a", now);
        presence.gone("a", now);
        presence.gone("never seen", now);
        assert!(!presence.is_over(now + RELOAD));
        presence.gone("b", now);
        assert!(!presence.is_over(now + RELOAD / 2));
        assert!(presence.is_over(now + RELOAD));
    }

    #[test]
    fn a_reload_does_not_end_the_server() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        presence.here("a", now);
        presence.gone("a", now);
        presence.here("b", now + RELOAD / 2);
        assert!(!presence.is_over(now + 2 * RELOAD));
    }

    #[test]
    fn a_killed_page_counts_as_closed_after_its_silence() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        presence.here("a", now);
        assert!(!presence.is_over(now + SILENCE / 2));
        assert!(presence.is_over(now + SILENCE));
    }
}
