//! What is printed in the end: a row for each program, a column for each way.

use std::fmt;

use anyhow::{Result, ensure};

use super::{programs::Program, ways::Way};

/// What became of a program in one way.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    /// As natively, with some figures.
    Same(String),
    /// Worse than natively: how.
    Worse(String),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same(figures) => f.write_str(figures),
            Self::Worse(how) => write!(f, "WORSE: {how}"),
        }
    }
}

/// A program in all ways, or why there is none.
pub(super) enum Row {
    Cells([Cell; Way::ALL.len()]),
    NotServed,
}

/// The rows so far.
#[derive(Default)]
pub(super) struct Matrix(Vec<(&'static str, Row)>);

impl Matrix {
    pub(super) fn add(&mut self, program: &Program, row: Row) {
        self.0.push((program.name, row));
    }

    /// An error if a program is worse in some way, or if the archive served none.
    pub(super) fn verdict(&self) -> Result<()> {
        let is_worse =
            |row: &Row| matches!(row, Row::Cells(cells) if cells.iter().any(|c| matches!(c, Cell::Worse(_))));
        let worse: Vec<_> = self.0.iter().filter(|(_, row)| is_worse(row)).map(|(name, _)| *name).collect();
        ensure!(worse.is_empty(), "worse than natively: {}", worse.join(", "));
        ensure!(
            !self.0.iter().all(|(_, row)| matches!(row, Row::NotServed)),
            "the archive serves none of the libraries"
        );
        Ok(())
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles =
            std::iter::once("program").chain(Way::ALL.iter().map(|way| way.title())).map(str::to_owned);
        let rows = self.0.iter().map(|(name, row)| {
            let cells = match row {
                Row::Cells(cells) => cells.iter().map(ToString::to_string).collect(),
                Row::NotServed => vec!["not served by the archive".to_owned()],
            };
            std::iter::once((*name).to_owned()).chain(cells).collect()
        });
        let lines: Vec<Vec<String>> = std::iter::once(titles.collect()).chain(rows).collect();
        let width = |column: usize| {
            lines
                .iter()
                .filter_map(|line| line.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        for line in &lines {
            let cells = line.iter().enumerate().map(|(column, cell)| format!("{cell:<0$}", width(column)));
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_worse_in_one_way_fails_the_run_and_one_that_is_not_served_does_not() {
        let same = || Cell::Same("same".into());
        let mut matrix = Matrix::default();
        matrix.add(&Program::ALL[0], Row::NotServed);
        assert!(matrix.verdict().is_err(), "nothing was shown");
        matrix.add(&Program::ALL[1], Row::Cells(std::array::from_fn(|_| same())));
        matrix.verdict().unwrap();
        let worse = Cell::Worse("exit 1 instead of 0".into());
        matrix.add(&Program::ALL[2], Row::Cells([same(), worse, same(), same(), same(), same()]));
        assert_eq!(
            matrix.verdict().unwrap_err().to_string(),
            format!("worse than natively: {}", Program::ALL[2].name)
        );
        assert!(matrix.to_string().contains("WORSE: exit 1 instead of 0"));
    }
}
