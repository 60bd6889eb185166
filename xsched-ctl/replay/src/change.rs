//! Parameters that are to be tried: `4711:class=high` or `train:weight=300`.

use xsched_control_api::parameters::Wish;

use crate::ReplayError;
use crate::recording::Recording;

/// Other parameters for a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// A process id, or the name of one or several processes.
    pub target: String,
    /// What is to be different.
    pub wish: Wish,
    /// Its CPU nice value, which a recording does not have.
    pub nice: Option<i8>,
}

impl Change {
    /// The processes of a recording that it is for.
    pub(crate) fn targets(&self, recording: &Recording) -> Result<Vec<u32>, ReplayError> {
        let is_meant = |pid: u32, name: &str| self.target == name || self.target.parse() == Ok(pid);
        let processes = recording.processes.iter();
        let meant: Vec<_> =
            processes.filter(|(pid, process)| is_meant(**pid, process.name())).map(|(pid, _)| *pid).collect();
        if meant.is_empty() {
            let known = recording.processes.values().map(|process| process.label.to_string()).collect();
            return Err(ReplayError::NoSuchProcess { target: self.target.clone(), known });
        }
        Ok(meant)
    }
}
