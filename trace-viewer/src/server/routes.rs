//! What the page asks for, and the answers.
//!
//! | `GET api/…` | answer |
//! | --- | --- |
//! | `tracks` | groups and tracks, and the length of the timeline |
//! | `tiles?tracks=1,2&from=&to=&bins=` | what to draw of these tracks in a window |
//! | `slice?track=&index=` | everything about a slice |
//! | `mark?track=&index=` | everything about a mark |
//! | `search?q=` | how many slices have a word, and where |
//! | `hit?q=&n=`, `hit?q=&from=` | one of them: the n-th, or the first from a time on |
//!
//! Times are nanoseconds from the begin of the timeline: these are exact in a script, times since boot need not be.

use serde::Serialize;

use super::{Server, answers, lock};
use crate::{levels::Window, page, store::SliceId};

/// Things that can be told apart in a window; wider screens get merged ones.
const BINS_MAX: u64 = 4096;
/// Tracks that can be asked for at once.
const TRACKS_MAX: usize = 128;

/// What is sent.
pub(super) struct Answer {
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
}

/// The answer to what follows the token in an address; `None` if there is no such thing.
pub(super) fn answer(server: &Server, method: &str, route: &str) -> Option<Answer> {
    let (path, query) = route.split_once('?').unwrap_or((route, ""));
    let query = Query::new(query);
    match (method, path) {
        ("GET", "") => {
            let body = server.index().as_bytes().to_vec();
            Some(Answer { content_type: "text/html; charset=utf-8", body })
        }
        ("POST", "api/here") => {
            lock(&server.presence).here(query.text("page")?);
            json(&())
        }
        ("POST", "api/gone") => {
            lock(&server.presence).gone(query.text("page")?);
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
            let place = match query.number("n") {
                Some(place) => place as usize,
                None => found.first_from(store, start_ns.saturating_add(query.number("from")?)),
            };
            json(&answers::hit(store, place, *found.slices.get(place)?)?)
        }
        _ => None,
    }
}

fn json(answer: &impl Serialize) -> Option<Answer> {
    let body = serde_json::to_vec(answer).ok()?;
    Some(Answer { content_type: "application/json", body })
}

/// What follows the question mark.
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
