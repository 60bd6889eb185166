//! Pages: the one that the server gives to the browser, and the self-contained report.
//!
//! The overview is written here for both. The scripts in `assets/` draw the timeline.

mod html;
mod overview;
mod picture;
mod plots;
mod report;
mod words;

use self::html::Html;
pub(crate) use self::report::report;
use crate::{overview::Overview, store::Store};

const INDEX: &str = include_str!("../assets/index.html");
const STYLE: &str = include_str!("../assets/style.css");

/// Where the title is inserted into the page.
const TITLE_MARK: &str = "<!-- title -->";
/// Where the overview is inserted.
const OVERVIEW_MARK: &str = "<!-- overview -->";

/// A file that belongs to the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asset {
    pub(crate) content_type: &'static str,
    pub(crate) content: &'static [u8],
}

macro_rules! script {
    ($name:literal) => {
        (
            $name,
            Asset {
                content_type: "text/javascript; charset=utf-8",
                content: include_bytes!(concat!("../assets/", $name)),
            },
        )
    };
}

/// The files by name. No file is read from a disk: a name that is not listed does not exist.
const ASSETS: &[(&str, Asset)] = &[
    ("style.css", Asset { content_type: "text/css; charset=utf-8", content: STYLE.as_bytes() }),
    ("icon.svg", Asset { content_type: "image/svg+xml", content: include_bytes!("../assets/icon.svg") }),
    script!("main.js"),
    script!("colours.js"),
    script!("details.js"),
    script!("dom.js"),
    script!("hand-over.js"),
    script!("keys.js"),
    script!("layout.js"),
    script!("minimap.js"),
    script!("numbers.js"),
    script!("search.js"),
    script!("server.js"),
    script!("theme.js"),
    script!("tiles.js"),
    script!("timeline.js"),
];

/// A file that belongs to the page, if there is one with this name.
pub(crate) fn asset(name: &str) -> Option<Asset> {
    ASSETS.iter().find(|(known, _)| *known == name).map(|(_, asset)| *asset)
}

/// The page itself, with the overview of `file`.
pub(crate) fn index(file: &str, store: &Store) -> String {
    let mut title = Html::default();
    title.text(file);
    let mut overview_html = Html::default();
    overview::write(&mut overview_html, store, &Overview::new(store));
    INDEX.replacen(TITLE_MARK, title.as_str(), 1).replacen(OVERVIEW_MARK, overview_html.as_str(), 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests as sample;

    #[test]
    fn texts_of_a_trace_are_escaped_on_every_page() {
        let store = sample::store();
        for page in [index(sample::HOSTILE, &store), report(sample::HOSTILE, &store)] {
            assert!(!page.contains("<img"), "markup got through");
            assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
            assert!(!page.contains(TITLE_MARK) && !page.contains(OVERVIEW_MARK));
        }
    }

    /// The page's policy forbids inline scripts and styles, and the report loads no file.
    #[test]
    fn no_page_has_inline_scripts_or_loads_foreign_files() {
        let store = sample::store();
        let page = index("run.perfetto", &store);
        assert!(!page.contains(" style=") && !page.contains("<style"));
        assert_eq!(page.matches("<script").count(), page.matches("<script type=\"module\" src=").count());
        let report = report("run.perfetto", &store);
        for element in ["<script", "<link", "<img", "<a ", "<iframe", "<object", "url("] {
            assert!(!report.contains(element), "{element}");
        }
    }

    #[test]
    fn every_imported_script_exists() {
        for (name, asset) in ASSETS {
            let text = std::str::from_utf8(asset.content).unwrap();
            for line in text.lines().filter(|line| line.starts_with("import ") || line.starts_with("} from "))
            {
                let imported = line.split('"').nth(1).and_then(|path| path.strip_prefix("./"));
                if let Some(imported) = imported {
                    assert!(super::asset(imported).is_some(), "{name} imports {imported}");
                }
            }
        }
    }
}
