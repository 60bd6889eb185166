//! How long a process's commands take, and how long a slice it therefore gets.
//!
//! When a slice ends, the process's last command runs on beside the next process's first ones. Their times do not show there what
//! each of them used, and urgent work finds both on the device. So a slice has room for several commands:
//!
//! ```text
//!   one     ====|=====|====|===|====.....
//!   next                        .....=====|===|====|
//!                               both run
//! ```

use crate::Nanos;

/// What a slice is for, with the number of commands for which it has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SliceFor {
    /// Among equals below more urgent work, which finds two commands on the device where slices meet.
    Equals = 16,
    /// Where shares alone decide: they should hold within a second, so it has several turns.
    Shares = 9,
}

/// A slice is at most this many times as long as one of short commands.
pub(crate) const LONGEST: u64 = 8;

/// So many commands of the past count.
const REMEMBERED: u64 = 64;

/// The recent commands of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Commands {
    time: Nanos,
    count: u64,
}

impl Commands {
    /// Its device time since the last report, and how many commands it has launched since then.
    pub(crate) fn reported(&mut self, time: Nanos, count: u64) {
        self.time += time;
        self.count = self.count.saturating_add(count);
        if self.count > REMEMBERED {
            self.time =
                Nanos((u128::from(self.time.0) * u128::from(REMEMBERED) / u128::from(self.count)) as u64);
            self.count = REMEMBERED;
        }
    }

    /// The length of its slice, given that of a process with short commands.
    pub(crate) fn slice(&self, purpose: SliceFor, least: Nanos) -> Nanos {
        let each = self.time / self.count.max(1);
        each.times(purpose as u64).clamp(least, least.times(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn slice_of(commands: impl IntoIterator<Item = (u64, u64)>) -> u64 {
        slice_with(SliceFor::Equals, commands)
    }

    fn slice_with(purpose: SliceFor, commands: impl IntoIterator<Item = (u64, u64)>) -> u64 {
        let mut known = Commands::default();
        for (time, count) in commands {
            known.reported(Nanos(time), count);
        }
        known.slice(purpose, Nanos(4 * MS)).0
    }

    #[test]
    fn a_slice_has_room_for_several_commands() {
        assert_eq!(slice_of([]), 4 * MS);
        assert_eq!(slice_of([(MS, 100)]), 4 * MS, "they are short");
        assert_eq!(slice_of([(10 * MS, 10)]), 16 * MS);
        assert_eq!(slice_with(SliceFor::Shares, [(10 * MS, 10)]), 9 * MS, "more turns a second");
        assert_eq!(slice_of([(800 * MS, 10)]), 32 * MS, "it has an end");
        assert_eq!(slice_of([(5 * MS, 0)]), 32 * MS, "its command was launched long ago");
    }

    #[test]
    fn what_is_long_ago_does_not_count() {
        let long = [(10 * MS, 10); 20];
        let short = [(MS, 100); 8];
        assert_eq!(slice_of(long.into_iter().chain(short)), 4 * MS);
        assert!((15 * MS..=16 * MS).contains(&slice_of(short.into_iter().chain(long))));
    }
}
