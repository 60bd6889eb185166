//! Kernels' durations and the share of the device that they occupy: the language of `HIP_SIM_DURATIONS`.
//!
//! ```text
//! list     = rule { "," rule }                          the first rule whose pattern matches decides
//! rule     = pattern "=" sum [ "@" share ]              pattern of the mangled name, with * and ?
//! sum      = product { "+" product }
//! product  = factor { ("*" | "/") factor }              exactly one factor of each product is a time
//! factor   = time | number | quantity
//! time     = number unit | "arg" index unit             50us; arg0us: the first argument, an integer, in microseconds
//! unit     = "ns" | "us" | "ms" | "s"
//! quantity = "arg" index | "blocks" | "threads" | "cus" | "rounds"
//! share    = number | number "%"                        compute units; without it, one for each block, at most all
//! ```
//!
//! `threads` is the number of threads in a block, `cus` the device's compute units, `rounds` is blocks / cus,
//! rounded up.

use std::str::FromStr;

use wildmatch::WildMatch;

/// Kernel time where no rule matches.
const DEFAULT_NS: f64 = 5_000.0;
/// A longer kernel is a mistake: an argument is not what the rule expects.
const LONGEST_NS: f64 = 3600e9;

/// A launch, as far as rules depend on it.
pub(crate) struct Launched<'a> {
    pub(crate) kernel: &'a str,
    pub(crate) blocks: u64,
    pub(crate) threads_per_block: u64,
    pub(crate) compute_units: u64,
    /// The integer with this index among the explicit arguments; none if no such argument exists or it is not
    /// of one to eight bytes.
    pub(crate) argument: &'a dyn Fn(usize) -> Option<u64>,
}

/// Compute units that a kernel occupies, and its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) duration_ns: u64,
    pub(crate) units: u64,
}

/// A parsed list of rules.
#[derive(Debug, Default)]
pub(crate) struct Durations {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    pattern: WildMatch,
    sum: Vec<Product>,
    share: Option<Share>,
}

/// Factors and divisors.
#[derive(Debug, Default)]
struct Product {
    times: Vec<Factor>,
    over: Vec<Factor>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Factor {
    Time(f64),
    TimeArgument(usize, f64),
    Number(f64),
    Argument(usize),
    Blocks,
    Threads,
    ComputeUnits,
    Rounds,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Share {
    Units(u64),
    Percent(f64),
}

/// A part of the list that cannot be parsed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum DurationsError {
    #[error("`{0}` is not `pattern=duration`")]
    Rule(String),
    #[error("`{0}` is not a duration such as 50us, arg0us or 2us+1us*blocks/cus")]
    Duration(String),
    #[error("`{0}` is neither a number of compute units nor a percentage")]
    Share(String),
}

impl Durations {
    /// The cost of a launch, by the first rule whose pattern matches.
    pub(crate) fn of(&self, launched: &Launched<'_>) -> Cost {
        let rule = self.rules.iter().find(|rule| rule.pattern.matches(launched.kernel));
        let duration_ns = rule.map_or(DEFAULT_NS, |rule| rule.sum.iter().map(|p| p.value(launched)).sum());
        let all = launched.compute_units;
        let units = match rule.and_then(|rule| rule.share) {
            None => launched.blocks,
            Some(Share::Units(units)) => units,
            Some(Share::Percent(percent)) => (all as f64 * percent / 100.0).round() as u64,
        };
        // A division by zero is a mistake in the rule.
        let duration_ns = if duration_ns.is_finite() { duration_ns.clamp(0.0, LONGEST_NS) } else { 0.0 };
        Cost { duration_ns: duration_ns.round() as u64, units: units.clamp(1, all.max(1)) }
    }
}

impl Product {
    fn value(&self, launched: &Launched<'_>) -> f64 {
        let product = |factors: &[Factor]| factors.iter().map(|f| f.value(launched)).product::<f64>();
        product(&self.times) / product(&self.over)
    }
}

impl Factor {
    fn is_time(self) -> bool {
        matches!(self, Self::Time(_) | Self::TimeArgument(..))
    }

    fn value(self, launched: &Launched<'_>) -> f64 {
        let argument = |index| (launched.argument)(index).unwrap_or(0) as f64;
        match self {
            Self::Time(value) | Self::Number(value) => value,
            Self::TimeArgument(index, unit_ns) => argument(index) * unit_ns,
            Self::Argument(index) => argument(index),
            Self::Blocks => launched.blocks as f64,
            Self::Threads => launched.threads_per_block as f64,
            Self::ComputeUnits => launched.compute_units as f64,
            Self::Rounds => launched.blocks.div_ceil(launched.compute_units.max(1)) as f64,
        }
    }

    /// None if the text is not a factor.
    fn read(text: &str) -> Option<Self> {
        match text {
            "blocks" => return Some(Self::Blocks),
            "threads" => return Some(Self::Threads),
            "cus" => return Some(Self::ComputeUnits),
            "rounds" => return Some(Self::Rounds),
            _ => {}
        }
        let (is_argument, rest) = match text.strip_prefix("arg") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, unit) = rest.split_at(end);
        let unit_ns = match unit {
            "" => None,
            "ns" => Some(1.0),
            "us" => Some(1e3),
            "ms" => Some(1e6),
            "s" => Some(1e9),
            _ => return None,
        };
        if is_argument {
            let index = number.parse().ok()?;
            return Some(unit_ns.map_or(Self::Argument(index), |unit_ns| Self::TimeArgument(index, unit_ns)));
        }
        let number: f64 = number.parse().ok()?;
        Some(unit_ns.map_or(Self::Number(number), |unit_ns| Self::Time(number * unit_ns)))
    }
}

impl FromStr for Product {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut product = Self::default();
        for part in text.split('*') {
            for (position, factor) in part.split('/').enumerate() {
                let factor = Factor::read(factor.trim()).ok_or(())?;
                if position == 0 { product.times.push(factor) } else { product.over.push(factor) }
            }
        }
        let has_one_time = product.times.iter().filter(|f| f.is_time()).count() == 1;
        let divides_by_time = product.over.iter().any(|f| f.is_time());
        if has_one_time && !divides_by_time { Ok(product) } else { Err(()) }
    }
}

impl FromStr for Rule {
    type Err = DurationsError;

    fn from_str(rule: &str) -> Result<Self, DurationsError> {
        let (pattern, cost) = rule.split_once('=').ok_or_else(|| DurationsError::Rule(rule.to_owned()))?;
        let (sum, share) = match cost.split_once('@') {
            Some((sum, share)) => (sum, Some(read_share(share.trim())?)),
            None => (cost, None),
        };
        let sum = sum.split('+').map(str::parse).collect::<Result<_, ()>>();
        let sum = sum.map_err(|()| DurationsError::Duration(cost.to_owned()))?;
        Ok(Self { pattern: WildMatch::new(pattern.trim()), sum, share })
    }
}

fn read_share(text: &str) -> Result<Share, DurationsError> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse().ok().map(Share::Percent),
        None => text.parse().ok().map(Share::Units),
    };
    share.ok_or_else(|| DurationsError::Share(text.to_owned()))
}

impl FromStr for Durations {
    type Err = DurationsError;

    fn from_str(text: &str) -> Result<Self, DurationsError> {
        let rules = text.split(',').map(str::trim).filter(|rule| !rule.is_empty()).map(str::parse);
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cost of a launch of 304 blocks of 64 threads on a hundred units, with arguments 7 and 30.
    fn cost(rules: &str, kernel: &str) -> (u64, u64) {
        let durations: Durations = rules.parse().unwrap();
        let argument = |index: usize| [7, 30].get(index).copied();
        let cost = durations.of(&Launched {
            kernel,
            blocks: 304,
            threads_per_block: 64,
            compute_units: 100,
            argument: &argument,
        });
        (cost.duration_ns, cost.units)
    }

    #[test]
    fn the_first_matching_pattern_decides() {
        let rules = "vector_add=50us, *scale*=2ms,*=1us";
        assert_eq!(cost(rules, "vector_add").0, 50_000);
        assert_eq!(cost(rules, "_ZN4demo5scaleIfEEvPT_").0, 2_000_000);
        assert_eq!(cost(rules, "other").0, 1_000);
        assert_eq!(cost("vector_add=50us", "other").0, DEFAULT_NS as u64);
    }

    #[test]
    fn times_come_from_arguments_and_from_the_grid() {
        assert_eq!(cost("*=arg0us", "k").0, 7_000);
        assert_eq!(cost("*=1us*arg0*arg1/10", "k").0, 21_000);
        assert_eq!(cost("*=2us+0.5us*blocks/cus", "k").0, 3_520);
        assert_eq!(cost("*=1us*rounds+1ns*threads", "k").0, 4_064);
        assert_eq!(cost("*=arg9us", "k").0, 0, "the argument does not exist");
        assert_eq!(cost("*=1us/arg9", "k").0, 0);
    }

    #[test]
    fn a_kernel_occupies_a_unit_for_each_block_or_the_share_of_its_rule() {
        assert_eq!(cost("*=1us", "k").1, 100);
        assert_eq!(cost("*=1us@3", "k").1, 3);
        assert_eq!(cost("*=1us@25%", "k").1, 25);
        assert_eq!(cost("*=1us@0", "k").1, 1);
    }

    #[test]
    fn errors_name_the_text_that_cannot_be_parsed() {
        let error = |rules: &str| rules.parse::<Durations>().unwrap_err().to_string();
        assert_eq!(error("vector_add"), "`vector_add` is not `pattern=duration`");
        for wrong in ["quick", "50", "1us*1us", "1/2us", "arg0", "1us+3", "arg.us", "-1us"] {
            let rule = format!("a={wrong}");
            assert_eq!(
                error(&rule),
                format!("`{wrong}` is not a duration such as 50us, arg0us or 2us+1us*blocks/cus")
            );
        }
        assert_eq!(error("a=1us@half"), "`half` is neither a number of compute units nor a percentage");
    }
}
