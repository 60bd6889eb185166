//! The page's requests and their answers.
//!
//! | `GET api/…` | answer |
//! | --- | --- |
//! | `tracks` | groups and tracks, and the duration of the timeline |
//! | `tiles?tracks=1,2&from=&to=&bins=` | what to draw of these tracks in a window |
//! | `slice?track=&index=` | everything about a slice |
//! | `mark?track=&index=` | everything about a mark |
//! | `search?q=` | how many slices match a word, and where |
//! | `hit?q=&n=`, `hit?q=&from=` | one of them: the n-th, or the first from a time on |
//!
//! Times are nanoseconds from the begin of the timeline. A script's numbers hold these exactly, but not all times since boot.

use std::time::Instant;

use serde::Serialize;

use super::{Server, answers, lock};
use crate::{page, resolution::Window, store::SliceId};

/// Bins of a window; on wider screens a bin covers several pixels.
const BINS_MAX: u64 = 4096;
/// Tracks in one request.
const TRACKS_MAX: usize = 128;

/// An answer, with its type.
pub(super) struct Answer {
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
}

/// The answer to the part of an address behind the token; `None` if there is no such address.
pub(super) fn answer(server: &Server, method: &str, route: &str) -> Option<Answer> {
    let (path, query) = route.split_once('?').unwrap_or((route, ""));
    let query = Query::new(query);
    match (method, path) {
        ("GET", "") => {
            let body = server.index().as_bytes().to_vec();
            Some(Answer { content_type: "text/html; charset=utf-8", body })
        }
        ("POST", "api/here") => {
            lock(&server.presence).here(query.text("page")?, Instant::now());
            json(&())
        }
        ("POST", "api/gone") => {
            lock(&server.presence).gone(query.text("page")?, Instant::now());
            json(&())
        }
        ("GET", path) => {
            if let Some(name) = path.strip_prefix("api/") {
                return api(server, name, &query);
            }
            let asset = page::asset(path)?;
            Some(Answer { content_type: asset.content_type, body: asset.content.to_vec() })
        }
        _ => None,
    }
}

fn api(server: &Server, name: &str, query: &Query) -> Option<Answer> {
    let store = &server.store;
    let start_ns = store.span_ns.start;
    match name {
        "tracks" => json(&answers::tracks(&server.name, store)),
        "tiles" => {
            let (from, to) = (query.number("from")?, query.number("to")?);
            let window = Window {
                from_ns: start_ns.checked_add(from)?,
                to_ns: start_ns.checked_add(to).filter(|_| to > from)?,
                bins: query.number("bins")?.clamp(1, BINS_MAX),
            };
            let tracks: Vec<usize> =
                query.text("tracks")?.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
            let exist = tracks.len() <= TRACKS_MAX && tracks.iter().all(|track| *track < store.tracks.len());
            exist.then(|| json(&answers::tiles(store, &tracks, window)))?
        }
        "slice" => json(&answers::slice(store, query.slice()?)?),
        "mark" => {
            let id = query.slice()?;
            json(&answers::mark(store, id.track as usize, id.index as usize)?)
        }
        "search" => {
            let found = server.found(query.text("q")?);
            json(&answers::Search { total: found.slices.len(), parts: &found.parts })
        }
        "hit" => {
            let found = server.found(query.text("q")?);
            let n = match query.number("n") {
                Some(n) => n as usize,
                None => found.first_from(store, start_ns.saturating_add(query.number("from")?)),
            };
            json(&answers::hit(store, n, *found.slices.get(n)?)?)
        }
        _ => None,
    }
}

fn json(answer: &impl Serialize) -> Option<Answer> {
    let body = serde_json::to_vec(answer).ok()?;
    Some(Answer { content_type: "application/json", body })
}

/// The query of an address: the part behind the question mark.
struct Query(Vec<(String, String)>);

impl Query {
    fn new(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    fn slice(&self) -> Option<SliceId> {
        let number = |name| self.text(name)?.parse().ok();
        Some(SliceId { track: number("track")?, index: number("index")? })
    }
}
