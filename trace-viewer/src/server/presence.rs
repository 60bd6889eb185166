//! Whether anybody still looks.
//!
//! A page gives a sign of life twice a minute, and says when it is closed. The server ends some seconds after the last one
//! was closed, so that a reload finds it, or when none has given a sign for ten minutes: browsers slow hidden pages down
//! to one sign a minute, and a suspended machine wakes up later. Before the first page there is no end.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

const RELOAD: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_mins(10);
/// Pages that are told apart; who opens more ends with the last of these.
const PAGES_MAX: usize = 256;

/// The pages that are open.
#[derive(Debug, Default)]
pub(super) struct Presence {
    pages: HashMap<String, Instant>,
    /// When the last page was closed, or something else was asked for since.
    alone_since: Option<Instant>,
}

impl Presence {
    /// A page is there.
    pub(super) fn here(&mut self, page: &str) {
        self.here_at(page, Instant::now());
    }

    /// A page was closed.
    pub(super) fn gone(&mut self, page: &str) {
        self.gone_at(page, Instant::now());
    }

    /// Somebody has asked for something.
    pub(super) fn request(&mut self) {
        if let Some(since) = &mut self.alone_since {
            *since = Instant::now();
        }
    }

    /// Whether to end.
    pub(super) fn is_over(&mut self) -> bool {
        self.is_over_at(Instant::now())
    }

    fn here_at(&mut self, page: &str, now: Instant) {
        if self.pages.len() < PAGES_MAX || self.pages.contains_key(page) {
            self.pages.insert(page.to_owned(), now);
            self.alone_since = None;
        }
    }

    fn gone_at(&mut self, page: &str, now: Instant) {
        if self.pages.remove(page).is_some() && self.pages.is_empty() {
            self.alone_since = Some(now);
        }
    }

    fn is_over_at(&mut self, now: Instant) -> bool {
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
    fn nobody_yet_is_no_end() {
        assert!(!Presence::default().is_over_at(Instant::now() + 100 * SILENCE));
    }

    #[test]
    fn it_ends_after_the_last_page_and_not_before() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        presence.here_at("a", now);
        presence.here_at("b", now);
        presence.gone_at("a", now);
        presence.gone_at("a", now);
        presence.gone_at("never seen", now);
        assert!(!presence.is_over_at(now + RELOAD));
        presence.gone_at("b", now);
        assert!(!presence.is_over_at(now + RELOAD / 2));
        assert!(presence.is_over_at(now + RELOAD));
    }

    #[test]
    fn a_reload_is_no_end() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        presence.here_at("a", now);
        presence.gone_at("a", now);
        presence.here_at("b", now + RELOAD / 2);
        assert!(!presence.is_over_at(now + 2 * RELOAD));
    }

    #[test]
    fn a_page_that_was_killed_is_missed_in_the_end() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        presence.here_at("a", now);
        assert!(!presence.is_over_at(now + SILENCE / 2));
        assert!(presence.is_over_at(now + SILENCE));
    }
}
