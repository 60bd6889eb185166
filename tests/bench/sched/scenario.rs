//! Rounds of a scenario under every regime, and the rows that compare them.

use std::{collections::BTreeMap, num::NonZeroUsize, str::FromStr, thread, time::Duration};

use xsched_tests::{
    bench::{Goal, Paired, Row, Samples},
    execution_log::Timeline,
};

use crate::{
    client::{Client, Outcome, Parameters, Plan},
    node::{Node, Regime},
    noise,
    result::Result,
    threads,
};

pub(crate) const BENCH: &str = "sched";

/// Number of measurements under each regime. A figure is the median of all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rounds(NonZeroUsize);

impl Default for Rounds {
    /// Enough to notice that something is wrong.
    fn default() -> Self {
        Self(const { NonZeroUsize::new(3).unwrap() })
    }
}

impl FromStr for Rounds {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        word.parse()
            .map(Self)
            .map_err(|_| format!("`{word}` is not a number of rounds, which must be 1 or more"))
    }
}

impl Rounds {
    /// Measures under every regime in turn, round by round.
    pub(crate) fn measure(
        self,
        name: impl Into<String>,
        regimes: &[Regime],
        mut measure: impl FnMut(Regime) -> Result<Figures>,
    ) -> Result<Table> {
        let mut rounds: BTreeMap<Regime, Vec<Figures>> = BTreeMap::new();
        let (result, late_us) = noise::during(|| -> Result<()> {
            for round in 0..self.0.get() {
                for turn in 0..regimes.len() {
                    // The first regime changes from round to round.
                    let regime = regimes[(turn + round) % regimes.len()];
                    rounds.entry(regime).or_default().push(measure(regime)?);
                }
            }
            Ok(())
        });
        result?;
        Ok(Table { name: name.into(), rounds, late_us })
    }
}

/// One run of clients on a node.
pub(crate) struct Run {
    /// In the order in which they were named.
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) timeline: Timeline,
}

impl Run {
    /// Lets clients begin at the same time, and waits for all of them.
    pub(crate) fn of(node: &Node, plans: &[(Plan, Parameters)]) -> Result<Self> {
        Ok(Self::looking_on(node, plans, |_| Ok(()))?.0)
    }

    /// The same for clients of which the last works for `seconds`. Also returns the percentage of a processor
    /// that the shim's threads in it take, measured half-way through.
    pub(crate) fn following(node: &Node, plans: &[(Plan, Parameters)], seconds: f64) -> Result<(Self, f64)> {
        Self::looking_on(node, plans, |clients| {
            let last = clients.last().ok_or("there are no clients")?;
            thread::sleep(Duration::from_secs_f64(seconds / 4.0));
            threads::percent_during(last.pid(), Duration::from_secs_f64(seconds / 2.0))
        })
    }

    fn looking_on<T>(
        node: &Node,
        plans: &[(Plan, Parameters)],
        look: impl FnOnce(&[Client]) -> Result<T>,
    ) -> Result<(Self, T)> {
        let mut clients = node.start(plans)?;
        Client::begin(&mut clients)?;
        let seen = look(&clients)?;
        let outcomes = clients.into_iter().map(Client::finish).collect::<Result<Vec<_>>>()?;
        Ok((Self { outcomes, timeline: node.timeline()? }, seen))
    }

    /// The processes of all clients but one.
    pub(crate) fn others(&self, client: usize) -> Vec<u32> {
        let others = self.outcomes.iter().enumerate().filter(|(number, _)| *number != client);
        others.map(|(_, outcome)| outcome.pid).collect()
    }
}

/// Figures of one run, by name.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// Results of all rounds of a scenario.
pub(crate) struct Table {
    name: String,
    rounds: BTreeMap<Regime, Vec<Figures>>,
    late_us: Vec<f64>,
}

impl Table {
    /// A figure under a regime, round by round.
    pub(crate) fn figures(&self, regime: Regime, figure: &str) -> Option<Vec<f64>> {
        self.rounds.get(&regime)?.iter().map(|figures| figures.get(figure).copied()).collect()
    }

    /// Its median under a regime.
    pub(crate) fn median(&self, regime: Regime, figure: &str) -> Option<f64> {
        Some(Samples::new(self.figures(regime, figure)?).median())
    }

    /// One row for each regime, those of the scheduler with the native one as baseline, with the regime's
    /// goals.
    pub(crate) fn print(
        &self,
        figure: &str,
        unit: &'static str,
        goal: impl Fn(Regime) -> Option<Goal>,
    ) -> Result<()> {
        self.print_as(<[f64]>::to_vec, figure, unit, goal)
    }

    /// The same for a `summary` of the rounds: for a count, a median would hide a single different round.
    pub(crate) fn print_as(
        &self,
        summary: impl Fn(&[f64]) -> Vec<f64>,
        figure: &str,
        unit: &'static str,
        goal: impl Fn(Regime) -> Option<Goal>,
    ) -> Result<()> {
        let rounds = |regime| self.figures(regime, figure).map(|rounds| summary(&rounds));
        let native = rounds(Regime::Native);
        for regime in self.rounds.keys().copied() {
            let Some(own) = rounds(regime) else { continue };
            let metric = format!("{}, {}: {figure}", self.name, regime.name());
            let row = match &native {
                Some(native) if regime != Regime::Native => {
                    let pairs: Vec<_> = native.iter().copied().zip(own).collect();
                    Row::compared(BENCH, metric, unit, &Paired::new(&pairs))
                }
                _ => Row::single(BENCH, metric, unit, &Samples::new(own)),
            };
            let row = goal(regime).map_or(row.clone(), |goal| row.with_goal(goal));
            row.print()?;
        }
        Ok(())
    }

    /// The machine's timer lateness meanwhile; printed after the scenario's other rows.
    pub(crate) fn print_noise(&self) -> Result<()> {
        noise::print(&self.name, &self.late_us)
    }
}

/// The mean of all rounds, which are equally long.
pub(crate) fn mean(rounds: &[f64]) -> Vec<f64> {
    vec![rounds.iter().sum::<f64>() / rounds.len() as f64]
}

/// The maximum of all rounds.
pub(crate) fn largest(rounds: &[f64]) -> Vec<f64> {
    vec![rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max)]
}

/// No goal: the figure is only for comparison.
pub(crate) fn no_goal(_: Regime) -> Option<Goal> {
    None
}

/// A quantile of the values of one run.
pub(crate) fn quantile(values: impl IntoIterator<Item = f64>, fraction: f64) -> Result<f64> {
    let values: Vec<_> = values.into_iter().collect();
    if values.is_empty() {
        return Err("a client has made no request".into());
    }
    Ok(Samples::new(values).quantile(fraction))
}
