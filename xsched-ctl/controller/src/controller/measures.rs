//! What is counted for metrics, and how labels are cut.

use xsched_control_api::peer::Party;
use xsched_metrics::Tally;
use xsched_sched::Happening;

/// Longest label: the cgroups of containers have some 200 bytes.
const LABEL_LEN_MAX: usize = 256;

/// What is counted, from the time when the controller was asked to.
#[derive(Debug)]
pub(super) struct Measures {
    pub(super) tally: Tally<Party>,
    /// When the controller started, in seconds since 1970.
    pub(super) started_s: f64,
    /// Reused between calls.
    pub(super) happenings: Vec<Happening>,
}

/// A cgroup or a name as a label. The end of a long one says more than its beginning.
pub(super) fn end_of(cgroup: &str) -> String {
    let cut = cgroup.len().saturating_sub(LABEL_LEN_MAX);
    if cut == 0 { cgroup.to_owned() } else { format!("…{}", &cgroup[cgroup.ceil_char_boundary(cut)..]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_cgroup_is_its_label() {
        let of_len = |len| format!("/{}", "ü".repeat(len));
        assert_eq!(end_of("/a"), "/a");
        let label = end_of(&of_len(4000));
        assert!(label.starts_with('…') && label.len() <= LABEL_LEN_MAX + '…'.len_utf8(), "{}", label.len());
    }
}
