//! The results of the three runs, as a table with a summary.

use std::fmt;

use super::figures::Figures;

/// The figures of the three runs.
pub(super) struct Table {
    pub(super) alone: Figures,
    pub(super) native: Figures,
    pub(super) scheduled: Figures,
}

impl Table {
    fn is_better(&self) -> bool {
        [50, 99].iter().all(|&percent| self.scheduled.latency_ms(percent) < self.native.latency_ms(percent))
    }

    fn of_service(&self) -> String {
        let longer = |figures: &Figures| figures.latency_ms(50) - self.alone.latency_ms(50);
        let (native, scheduled) = (longer(&self.native), longer(&self.scheduled));
        if !self.is_better() {
            return format!(
                "Under xsched-ctl requests were NOT answered sooner than natively, in this run: {scheduled:.1} ms\n\
                 instead of {native:.1} ms longer than alone (p50). A busy machine shows its own delays: run it again."
            );
        }
        format!(
            "Beside the batch job a request takes {native:.1} ms longer than alone, under xsched-ctl {scheduled:.1} ms (p50);\n\
             one kernel of the batch job takes {:.1} ms.",
            self.scheduled.batch_kernel_ms
        )
    }

    fn of_batch(&self) -> String {
        let kept = |figures: &Figures| 100.0 * figures.batch_rate / self.alone.batch_rate;
        format!(
            "The batch job keeps {:.0} % of its kernels a second, natively {:.0} %; the service needs {:.0} % of the device.",
            kept(&self.scheduled),
            kept(&self.native),
            100.0 * self.scheduled.service_share
        )
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = [&self.alone, &self.native, &self.scheduled];
        let mut row = |name: &str, cells: [String; 3]| {
            let [alone, native, scheduled] = cells;
            writeln!(f, "{name:42}{alone:>10}{native:>10}{scheduled:>12}")
        };
        row("", ["alone", "native", "xsched-ctl"].map(str::to_owned))?;
        row("requests", columns.map(|figures| figures.requests().to_string()))?;
        for percent in [50, 99] {
            let cells = columns.map(|figures| format!("{:.1} ms", figures.latency_ms(percent)));
            row(&format!("request, p{percent}"), cells)?;
        }
        let [_, native, scheduled] = columns.map(|figures| format!("{:.1}", figures.between));
        row("batch kernels that start during a request", ["-".to_owned(), native, scheduled])?;
        row("batch kernels a second", columns.map(|figures| format!("{:.0}", figures.batch_rate)))?;
        write!(f, "\n{}\n{}", self.of_service(), self.of_batch())
    }
}
