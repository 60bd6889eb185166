//! The report as one page that needs nothing else: no script, no picture, no address.

use std::fmt::Write as _;

use super::{Measured, Report, Row, StepReport, Verdict, plot};

use crate::statistics::Figure;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#1c1917}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem;border-bottom:1px solid #d6d3d1;padding-bottom:.2rem}\
table{border-collapse:collapse;margin:.6rem 0}td,th{padding:.15rem .7rem .15rem 0;text-align:right;white-space:nowrap}\
td:first-child,th:first-child,td.text,th.text{text-align:left;white-space:normal}th{font-weight:600;color:#57534e}\
tr.first td{border-top:1px solid #e7e5e4}td.failed{text-align:left;color:#b91c1c;white-space:pre-wrap}\
.verdict{font-size:.8rem;font-weight:600;padding:.1rem .5rem;border-radius:.6rem;color:#fff;margin-left:.5rem}\
.done{background:#15803d}.failed-step,.cut{background:#b91c1c}.skipped{background:#78716c}\
.note{color:#57534e}pre{background:#f5f5f4;padding:.7rem;overflow-x:auto;font-size:.82rem}\
.banner{background:#fef2f2;border:1px solid #b91c1c;padding:.5rem .8rem}svg{width:100%;height:auto;font-size:11px}";

/// The whole page; `json` is embedded in it as a file to save.
pub(super) fn page(report: &Report, json: &str) -> String {
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>xsched-ctl field report</title>",
    );
    let _ = write!(page, "<style>{STYLE}</style></head><body><h1>xsched-ctl field report</h1>");
    let _ = write!(
        page,
        "<p>xsched-ctl {}, begun {}, {:.0} s{}. <a download=\"field.json\" href=\"data:application/json;base64,{}\">The same as JSON</a></p>",
        escaped(&report.version),
        escaped(&report.begun),
        report.seconds,
        if report.quick { ", with --quick: short measurements" } else { "" },
        base64(json.as_bytes()),
    );
    if let Some(cut) = &report.cut {
        let _ = write!(page, "<p class=\"banner\">This report is cut: {}.</p>", escaped(cut));
    }
    overview(&mut page, report);
    page.push_str("<h2 id=\"machine\">This machine</h2><table>");
    for fact in &report.machine {
        let _ = write!(
            page,
            "<tr><td>{}</td><td class=\"text\">{}</td></tr>",
            escaped(&fact.name),
            escaped(&fact.value)
        );
    }
    page.push_str("</table>");
    for step in &report.steps {
        section(&mut page, step);
    }
    page.push_str("</body></html>\n");
    page
}

/// One line a step, with a link to its section.
fn overview(page: &mut String, report: &Report) {
    page.push_str("<table id=\"overview\">");
    for step in &report.steps {
        let (_, word, reason) = words(&step.verdict);
        let _ = write!(
            page,
            "<tr><td><a href=\"#{}\">{}</a></td><td class=\"text\">{}{}</td></tr>",
            step.step,
            escaped(step.step.title()),
            word,
            reason.map(|reason| format!(": {}", escaped(first_line(reason)))).unwrap_or_default(),
        );
    }
    page.push_str("</table>");
}

/// Class, word and reason of a verdict.
fn words(verdict: &Verdict) -> (&'static str, &'static str, Option<&str>) {
    match verdict {
        Verdict::Done => ("done", "done", None),
        Verdict::Failed(reason) => ("failed-step", "failed", Some(reason)),
        Verdict::Skipped(reason) => ("skipped", "skipped", Some(reason)),
        Verdict::Cut(reason) => ("cut", "cut", Some(reason)),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn section(page: &mut String, step: &StepReport) {
    let (class, word, reason) = words(&step.verdict);
    let _ = write!(
        page,
        "<h2 id=\"{}\">{} <span class=\"verdict {class}\">{word}</span></h2>",
        step.step,
        escaped(step.step.title())
    );
    if let Some(reason) = reason {
        let _ = write!(page, "<pre>{}</pre>", escaped(reason));
    }
    table(page, &step.rows);
    for plot in &step.plots {
        let svg = plot::svg(plot);
        if !svg.is_empty() {
            let _ = write!(
                page,
                "<p>{}, {}: {}</p>{svg}",
                escaped(&plot.title),
                escaped(&plot.unit),
                legend(plot)
            );
        }
    }
    for note in &step.notes {
        let _ = write!(page, "<p class=\"note\">{}</p>", escaped(note));
    }
    for text in &step.texts {
        let _ = write!(
            page,
            "<details open><summary>{}</summary><pre>{}</pre></details>",
            escaped(&text.title),
            escaped(&text.text)
        );
    }
    for file in &step.files {
        let _ = write!(
            page,
            "<p><a download=\"{name}\" href=\"data:application/octet-stream;base64,{}\">{name}</a></p>",
            escaped(&file.base64),
            name = escaped(&file.name),
        );
    }
}

fn legend(plot: &super::Plot) -> String {
    let names = plot.lines.iter().map(|line| {
        format!("<span style=\"color:{}\">&#9679; {}</span>", plot::colour(line.mode), line.mode.name())
    });
    names.collect::<Vec<_>>().join(" ")
}

fn table(page: &mut String, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let has_rounds =
        rows.iter().any(|row| matches!(&row.measured, Measured::Figure(figure) if !figure.rounds.is_empty()));
    page.push_str("<table><tr><th></th><th class=\"text\">mode</th><th></th>");
    for heading in ["n", "mean", "p50", "p99", "min", "max", "deviation"] {
        let _ = write!(page, "<th>{heading}</th>");
    }
    page.push_str(if has_rounds { "<th>means of rounds</th></tr>" } else { "</tr>" });
    let mut last = None;
    for row in rows {
        let is_first = last != Some(&row.what);
        last = Some(&row.what);
        let _ = write!(
            page,
            "<tr{}><td>{}</td><td class=\"text\" style=\"color:{}\">{}</td><td>{}</td>",
            if is_first { " class=\"first\"" } else { "" },
            if is_first { escaped(&row.what) } else { String::new() },
            plot::colour(row.mode),
            row.mode.name(),
            escaped(&row.unit),
        );
        match &row.measured {
            Measured::Figure(Figure { n, mean, p50, p99, min, max, deviation, rounds }) => {
                let _ = write!(page, "<td>{n}</td>");
                for value in [mean, p50, p99, min, max, deviation] {
                    let _ = write!(page, "<td>{}</td>", number(*value));
                }
                let rounds: Vec<_> = rounds.iter().map(|mean| number(*mean)).collect();
                let _ = write!(page, "<td>{}</td>", rounds.join(" "));
            }
            Measured::Value(value) => {
                let _ = write!(page, "<td></td><td>{}</td>", number(*value));
            }
            Measured::Failed(reason) => {
                let _ = write!(page, "<td class=\"failed\" colspan=\"8\">{}</td>", escaped(reason));
            }
        }
        page.push_str("</tr>");
    }
    page.push_str("</table>");
}

/// Three digits that matter, or all before the point.
pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// Text for a page or an attribute.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Colours and other commands to a terminal.
            character if character.is_control() && character != '\n' && character != '\t' => {}
            character => escaped.push(character),
        }
    }
    escaped
}

/// Bytes in base 64 (RFC 4648).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn foreign_text_cannot_become_markup() {
        let page = page(&example(), "{}");
        assert!(!page.contains("<script") && !page.contains("<beside>"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && page.contains("a &amp; b"));
        assert_eq!(escaped("a\u{1b}[31mb\n\"c\""), "a[31mb\n&quot;c&quot;");
    }

    #[test]
    fn a_page_needs_nothing_else() {
        let page = page(&example(), "{}");
        for outside in ["http:", "https:", "src=", "<link", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_cut_report_says_so_and_each_step_has_its_verdict() {
        let page = page(&example(), "{}");
        assert!(page.contains("This report is cut: Ctrl-C."));
        assert!(page.contains("<span class=\"verdict failed-step\">failed</span>"));
        assert!(page.contains("<span class=\"verdict skipped\">skipped</span>"));
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xff, 0xfe]), "//4=");
    }

    #[test]
    fn numbers_have_three_digits_that_matter() {
        assert_eq!([0.1234, 1.234, 12.34, 1234.5].map(number), ["0.123", "1.23", "12.3", "1234"]);
    }
}
