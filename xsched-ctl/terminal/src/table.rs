//! Tables and durations for a terminal.

use std::fmt;
use std::time::Duration;

use crate::one_line;

/// Longest name in a table, in characters.
const NAME_LEN_MAX: usize = 60;

/// Writes headings and rows in columns: the first `names` columns left-aligned, the others, which are numbers, right-aligned. Names
/// come from processes and files, so control characters are escaped.
pub fn write_table<const COLUMNS: usize>(
    f: &mut impl fmt::Write,
    headings: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
    names: usize,
) -> fmt::Result {
    let rows = rows.into_iter().map(|row| row.map(|cell| one_line(&cell).into_owned()));
    let rows: Vec<_> = std::iter::once(headings.map(str::to_owned)).chain(rows).collect();
    let widths: [usize; COLUMNS] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    for row in &rows {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            if column < names {
                write!(f, "{gap}{cell:<width$}")?;
            } else {
                write!(f, "{gap}{cell:>width$}")?;
            }
        }
        writeln!(f)?;
    }
    Ok(())
}

/// A name that fits into a table: the beginning and the end of a long one, which distinguish template instances.
pub fn short_name(name: &str) -> String {
    let len = name.chars().count();
    if len <= NAME_LEN_MAX {
        return name.to_owned();
    }
    let end_len = NAME_LEN_MAX / 3;
    let begin: String = name.chars().take(NAME_LEN_MAX - 1 - end_len).collect();
    let end: String = name.chars().skip(len - end_len).collect();
    format!("{begin}…{end}")
}

/// A number with its noun: `1 queue`, `2 queues`.
pub fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// A duration with about three digits: `820 ns`, `12.3 us`, `4.56 ms`, `1.20 s`; a dash for none.
pub fn duration(ns: Option<u64>) -> String {
    let Some(ns) = ns else { return "-".to_owned() };
    let value = Duration::from_nanos(ns).as_secs_f64();
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", three_digits(value * 1e6)),
        1_000_000..1_000_000_000 => format!("{} ms", three_digits(value * 1e3)),
        _ => format!("{} s", three_digits(value)),
    }
}

fn three_digits(value: f64) -> String {
    let decimals = match value {
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_three_digits() {
        let shown =
            [820, 12_345, 999_999, 4_560_000, 1_200_000_000, 75_000_000_000].map(|ns| duration(Some(ns)));
        assert_eq!(shown, ["820 ns", "12.3 us", "1000 us", "4.56 ms", "1.20 s", "75.0 s"]);
        assert_eq!(duration(None), "-");
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let rows = [["é", "1"], ["libx.so", "100000"]].map(|row| row.map(str::to_owned));
        let mut text = String::new();
        write_table(&mut text, ["library", "calls"], rows, 1).unwrap();
        assert_eq!(text, "library   calls\né             1\nlibx.so  100000\n");
    }

    #[test]
    fn names_cannot_control_the_terminal() {
        let mut text = String::new();
        let row = ["x\x1b[2J\r\nincomplete: 9".to_owned(), "1".to_owned()];
        write_table(&mut text, ["library", "n"], [row], 1).unwrap();
        assert_eq!(text.lines().nth(1), Some("x\\u{1b}[2J\\r\\nincomplete: 9  1"));
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(short_name("gemm"), "gemm");
        let name = format!("void {}<3>(int)", "é".repeat(100));
        let short = short_name(&name);
        assert_eq!(short.chars().count(), NAME_LEN_MAX);
        assert!(short.starts_with("void é") && short.ends_with("é<3>(int)"), "{short}");
    }
}
