//! Access control: a request must name this machine, know the token, and not come from a page of another origin.

use crate::http::Request;
use crate::token::Token;

/// Longer addresses are refused. The longest that the page makes name some dozens of tracks.
const URL_LEN_MAX: usize = 8 << 10;

const NOT_FOUND: u16 = 404;
const FORBIDDEN: u16 = 403;

/// The part of the address behind the token, or the status of the refusal. A wrong token and an address that does not exist
/// get the same answer.
pub(super) fn check<'a>(request: &'a Request, token: &Token) -> Result<&'a str, u16> {
    let host = request.host.as_deref().filter(|host| is_this_machine(host)).ok_or(FORBIDDEN)?;
    if request.origin.as_ref().is_some_and(|origin| origin.strip_prefix("http://") != Some(host)) {
        return Err(FORBIDDEN);
    }
    if request.url.len() > URL_LEN_MAX {
        return Err(NOT_FOUND);
    }
    let (guess, route) =
        request.url.strip_prefix('/').and_then(|url| url.split_once('/')).ok_or(NOT_FOUND)?;
    if !token.is(guess) {
        return Err(NOT_FOUND);
    }
    // The page itself may be opened from anywhere, such as from a file or a mail: its address holds the token.
    let is_cross_site =
        request.fetch_site.as_ref().is_some_and(|site| site != "same-origin" && site != "none");
    if is_cross_site && !route.is_empty() {
        return Err(FORBIDDEN);
    }
    Ok(route)
}

/// Whether a `Host` names this machine. Any port will do: `ssh -L` may use another one.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "127.0.0.1" | "localhost" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Option<&str> = Some("127.0.0.1:4711");

    fn with(url: &str, host: Option<&str>, origin: Option<&str>, site: Option<&str>) -> Result<String, u16> {
        let token = Token::random().unwrap();
        let [host, origin, fetch_site] = [host, origin, site].map(|value| value.map(str::to_owned));
        let url = url.replace("TOKEN", token.as_str());
        let request = Request { method: "GET".to_owned(), url, host, origin, fetch_site };
        check(&request, &token).map(str::to_owned)
    }

    #[test]
    fn requests_with_the_token_are_accepted() {
        assert_eq!(with("/TOKEN/", HOST, None, Some("none")), Ok(String::new()));
        assert_eq!(with("/TOKEN/api/x?y", HOST, None, Some("same-origin")), Ok("api/x?y".into()));
        assert_eq!(with("/TOKEN/api/x", HOST, Some("http://127.0.0.1:4711"), None), Ok("api/x".into()));
        assert_eq!(with("/TOKEN/", Some("localhost"), None, None), Ok(String::new()));
        // From a file or a mail.
        assert_eq!(with("/TOKEN/", HOST, None, Some("cross-site")), Ok(String::new()));
    }

    #[test]
    fn all_other_requests_are_refused() {
        for url in ["/", "", "/TOKEN", "/TOKE/", "/x/", "/00000000000000000000000000000000/", "//TOKEN/"] {
            assert_eq!(with(url, HOST, None, None), Err(NOT_FOUND), "{url}");
        }
        assert_eq!(with(&format!("/TOKEN/{}", "x".repeat(10_000)), HOST, None, None), Err(NOT_FOUND));
        for host in [None, Some("example.org"), Some("127.0.0.1.example.org"), Some("127.0.0.1:x"), Some("")]
        {
            assert_eq!(with("/TOKEN/", host, None, None), Err(FORBIDDEN), "{host:?}");
        }
        for origin in ["https://example.org", "null", "http://127.0.0.1:4712", "https://127.0.0.1:4711"] {
            assert_eq!(with("/TOKEN/", HOST, Some(origin), None), Err(FORBIDDEN), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert_eq!(with("/TOKEN/api/x", HOST, None, Some(site)), Err(FORBIDDEN));
        }
    }
}
