//! A self-contained page, to be sent to other people: it has no scripts, loads nothing and contains its styles.

use super::{STYLE, html::Html, overview, picture};
use crate::{overview::Overview, store::Store};

/// What the page may use: only the styles inside the page itself.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The page of `file`.
pub(crate) fn report(file: &str, store: &Store) -> String {
    let mut body = Html::default();
    body.open("header", &[]);
    body.element("h1", &[], file);
    body.close("header");
    body.open("main", &[("id", "overview")]);
    overview::write(&mut body, store, &Overview::new(store));
    picture::write(&mut body, store);
    body.element(
        "footer",
        &[],
        &format!(
            "Written by xsched-ctl {}. Times are the host's time in calls, unless a table says \
                  otherwise.",
            env!("CARGO_PKG_VERSION")
        ),
    );
    body.close("main");
    let mut title = Html::default();
    title.text(file);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body class=\"report\">\n{}\n</body>\n</html>\n",
        title.as_str(),
        body.as_str()
    )
}
