//! Assembles collected rules into a table: sorted, merged, divided into pages.

use xsched_abi::unwind::{PAGE_BITS, Row};

use crate::error::Error;
use crate::frames::{Frames, Function};
use crate::rule::GAP;

/// The most pages of 64 KiB between the first and the last function: 64 GiB. Code with calls by 32-bit displacements spans
/// far less.
const PAGES_MAX: u64 = 1 << 20;

/// Rows and their page index, as described in [`xsched_abi::unwind`].
#[derive(Debug, Default)]
pub(crate) struct Assembled {
    pub(crate) first_page: u32,
    pub(crate) pages: Vec<u32>,
    pub(crate) rows: Vec<Row>,
}

pub(crate) fn assemble(mut frames: Frames) -> Result<Assembled, Error> {
    let Frames { functions, rules } = &mut frames;
    // Of several entries for one address the longest is used, as in linkers' search tables. The sort is stable.
    functions.sort_by_key(|function| (function.begin, std::cmp::Reverse(function.end)));
    functions.dedup_by_key(|function| function.begin);
    let Some((first, last)) = functions.first().zip(functions.last()) else {
        return Err(Error::NoUnwindInfo);
    };
    let first_page = first.begin >> PAGE_BITS;
    let span = (last.begin >> PAGE_BITS) - first_page;
    if span >= PAGES_MAX {
        return Err(Error::TooLarge { what: "unwind table (pages)", count: span });
    }
    let first_page =
        u32::try_from(first_page).map_err(|_| Error::Corrupt("code at addresses that no process has"))?;
    let mut assembled =
        Assembled { first_page, rows: Vec::with_capacity(rules.len()), ..Assembled::default() };
    let mut following = functions.iter().skip(1);
    for function in functions.iter() {
        // Where functions overlap, the one that begins later is used.
        let next = following.next().map(|next| next.begin);
        let end = next.map_or(function.end, |next| next.min(function.end));
        for rule in &rules[function.range()] {
            if rule.begin < end {
                assembled.push(rule.begin, rule.row);
            }
        }
        if next != Some(end) {
            assembled.push(end, GAP);
        }
    }
    Ok(assembled.finish())
}

impl Function {
    fn range(&self) -> std::ops::Range<usize> {
        self.first as usize..self.first as usize + self.count as usize
    }
}

impl Assembled {
    /// Adds a rule that is valid from `begin` on. `begin` must be after that of the last rule.
    fn push(&mut self, begin: u64, rule: Row) {
        let in_force = self.rows.last().map_or(GAP, |last| Row { pc_low: 0, ..*last });
        if rule == in_force && !self.rows.is_empty() {
            return;
        }
        let page = (begin >> PAGE_BITS) as u32 - self.first_page;
        let pc_low = begin as u16;
        while self.pages.len() <= page as usize {
            let is_at_beginning = self.pages.len() == page as usize && pc_low == 0;
            self.pages.push(self.rows.len() as u32);
            if !is_at_beginning {
                self.rows.push(in_force);
            }
        }
        self.rows.push(Row { pc_low, ..rule });
    }

    fn finish(mut self) -> Self {
        self.pages.push(self.rows.len() as u32);
        self.rows.shrink_to_fit();
        self
    }
}

#[cfg(test)]
mod tests;
