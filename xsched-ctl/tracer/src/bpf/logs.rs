//! Messages of the programs: why a chain is short, which processes are not heard. `XSCHED_CTL_LOG=bpf=debug` turns them on.

use std::io;

use aya::Ebpf;
use aya_log::EbpfLogger;
use log::{Log, Metadata, Record};
use xsched_abi::{ChainEnd, Counter};

/// The log's name for messages of the programs.
const TARGET: &str = "bpf";

/// Whether the user has asked for messages, and so for the object whose programs write them.
pub(super) fn is_on() -> bool {
    tracing::enabled!(target: "bpf", tracing::Level::DEBUG)
}

/// Messages that the programs have written.
pub(crate) struct Logs(EbpfLogger<ToTracing>);

impl Logs {
    /// None unless the user has asked for messages. Programs for `uprobe_multi` must have been loaded before, since that needs the maps.
    pub(crate) fn take(object: &mut Ebpf) -> io::Result<Option<Self>> {
        if !is_on() {
            return Ok(None);
        }
        let logger = EbpfLogger::init_with_logger(object, ToTracing).map_err(io::Error::other)?;
        Ok(Some(Self(logger)))
    }

    /// Passes on what was written since the last call.
    pub(crate) fn pass_on(&mut self) {
        self.0.flush();
    }
}

/// Hands messages to this program's log.
struct ToTracing;

impl Log for ToTracing {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        tracing::debug!(target: TARGET, "{}", explained(&record.args().to_string()));
    }

    fn flush(&self) {}
}

/// A message whose number of an end of a chain is replaced by what it means. In a program, text costs its stack.
fn explained(message: &str) -> String {
    let Some((what, number)) = message.rsplit_once(", end ") else { return message.to_owned() };
    match number.parse().ok().and_then(ChainEnd::from_number) {
        Some(end) => match Counter::of_chain(end) {
            Some(cause) => format!("{what}: {}", cause.describe()),
            None => format!("{what}: it is whole, or as long as `--depth` allows"),
        },
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_end_is_explained() {
        let end = format!("process 7: 3 frames up to 1f, end {}", ChainEnd::Generated as u32);
        assert_eq!(explained(&end), "process 7: 3 frames up to 1f: chains end in generated code");
        assert_eq!(explained("process 7, end 99"), "process 7, end 99");
        assert_eq!(explained("no chain"), "no chain");
    }
}
