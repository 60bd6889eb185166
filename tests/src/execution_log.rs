//! What the simulated device did: the log that its processes write where `HIP_SIM_EXECUTION_LOG` says.

use std::{fs, io, path::Path, str::FromStr};

/// One kernel on the device's timeline. Times are nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// When it started.
    pub start_ns: u64,
    /// When it ended, or was to end if its process died.
    pub end_ns: u64,
    /// When the runtime was asked for it.
    pub submitted_ns: u64,
    /// Whose it was.
    pub pid: u32,
    /// Of the machine's devices.
    pub device: u32,
    /// Hardware queue, numbered over all processes of the device.
    pub queue: u32,
    /// Stream of the process, in the order of their creation; the devices' null streams come first.
    pub stream: u32,
    /// Mangled name.
    pub kernel: String,
}

/// A line that is none of the log's.
#[derive(Debug, thiserror::Error)]
#[error("no line of an execution log: `{0}`")]
pub struct BadLine(String);

/// All kernels, in the order of their starts. A last line that is still being written is left out.
///
/// # Errors
///
/// If the file cannot be read or is something else.
pub fn read(path: &Path) -> io::Result<Vec<Execution>> {
    let text = fs::read_to_string(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let executions: Result<Vec<Execution>, _> = whole.lines().map(str::parse).collect();
    let mut executions = executions.map_err(io::Error::other)?;
    executions.sort_by_key(|execution| execution.start_ns);
    Ok(executions)
}

impl FromStr for Execution {
    type Err = BadLine;

    fn from_str(line: &str) -> Result<Self, BadLine> {
        let parse = || {
            let mut fields = line.splitn(8, ' ');
            let mut number = || fields.next()?.parse::<u64>().ok();
            Some(Self {
                start_ns: number()?,
                end_ns: number()?,
                submitted_ns: number()?,
                pid: number()?.try_into().ok()?,
                device: number()?.try_into().ok()?,
                queue: number()?.try_into().ok()?,
                stream: number()?.try_into().ok()?,
                kernel: fields.next()?.to_owned(),
            })
        };
        parse().ok_or_else(|| BadLine(line.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_come_in_the_order_of_their_starts_and_half_a_line_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "9 11 2 42 0 3 1 late kernel\n5 9 1 42 0 2 0 early\n12 1").unwrap();
        let found = read(&path).unwrap();
        assert_eq!(found.iter().map(|e| e.kernel.as_str()).collect::<Vec<_>>(), ["early", "late kernel"]);
        assert_eq!((found[1].submitted_ns, found[1].pid, found[1].queue, found[1].stream), (2, 42, 3, 1));
    }

    #[test]
    fn another_file_is_an_error_that_shows_the_line() {
        assert_eq!(
            "launch vector_add 3".parse::<Execution>().unwrap_err().to_string(),
            "no line of an execution log: `launch vector_add 3`"
        );
    }
}
