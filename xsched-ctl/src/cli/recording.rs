//! Options of all verbs that record.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use xsched_abi::chain::DEPTH_MAX;
use xsched_chains::Label;
use xsched_recording::KernelNames;
use xsched_rules::Rules;
use xsched_tracer::{
    Compression, Destination, Driver, Executions, ExtraDevice, FilterError, Filters, Format, Functions, Kept,
    Options, Settings, Style, TracerError, Uprobes,
};

use super::driver::extra_device;
use super::units::{duration, large_size, ring_size};
use crate::failure::Failure;

#[derive(Args, Debug)]
pub(crate) struct Recording {
    /// Write the timeline to this file; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Stop after this time, such as 10s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,

    /// Stop before the file gets larger than this, such as 1G
    #[arg(long, value_name = "SIZE", value_parser = large_size)]
    max_size: Option<u64>,

    /// Keep only the last SIZE in memory, and write it to FILE, FILE.1, … on SIGUSR1 and at the end
    #[arg(long, value_name = "SIZE", value_parser = large_size, conflicts_with = "max_size")]
    ring: Option<u64>,

    /// With --ring: write it also when a launch took longer, such as 5ms; at most once in 10 s
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "ring")]
    dump_on_slower: Option<Duration>,

    /// Compress the timeline; done anyway for a FILE that ends in .gz or .zst
    #[arg(long, value_enum, value_name = "KIND")]
    compress: Option<Compression>,

    /// Size of the buffer between kernel and tracer, a power of two: 64K to 1G
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = ring_size)]
    ring_size: u32,

    /// Write `name<…>` for kernels instead of their whole names; the tables always do
    #[arg(long, hide_short_help = true)]
    fold_templates: bool,

    /// Write executions as Perfetto's typed GPU events, without arrows from the calls, for tools that need these
    #[arg(long, hide_short_help = true)]
    gpu_render_stages: bool,

    /// Follow call chains up to this many frames; 0 records immediate callers only
    #[arg(long, value_name = "FRAMES", default_value_t = DEPTH_MAX as u32, hide_short_help = true,
          value_parser = clap::value_parser!(u32).range(0..=DEPTH_MAX as i64))]
    depth: u32,

    /// How to show the frames of call chains
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Label::Name, hide = true)]
    chain_frames: Label,

    /// Take the libraries that count as part of the runtime from this file (TOML)
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    rules: Option<PathBuf>,

    /// Probe this copy of libamdhip64 or libcuda before it is loaded, so that first calls are not missing; may be repeated
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    runtime: Vec<PathBuf>,

    /// How to attach probes
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Uprobes::Auto, hide_short_help = true)]
    uprobes: Uprobes,

    /// Probe every launch: let no process record its own, which other programs' probes do not see
    #[arg(long, hide_short_help = true)]
    probe_all: bool,

    /// How to record calls to the kernel driver (ioctls on /dev/kfd and /dev/dri), to which filters do not apply
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Driver::Auto, hide_short_help = true)]
    driver: Driver,

    /// Treats another device as one of the driver's, for tests
    #[arg(long, value_name = "kfd=PATH|dri=PATH", hide = true, value_parser = extra_device)]
    driver_device: Vec<ExtraDevice>,

    // Last: options after it would appear under its heading.
    #[command(flatten)]
    filter: Filter,
}

/// Which calls to record. `!` before a pattern excludes its matches; a call must pass all filters.
#[derive(Args, Debug)]
#[command(next_help_heading = "Filters")]
struct Filter {
    /// Record these functions: names, globs, categories such as launch, with commas between them; `!` excludes
    ///
    /// Categories are launch, copy, set, memory, module, register, stream, synchronize, event, graph and device.
    #[arg(long, value_name = "LIST")]
    api: Option<Functions>,

    /// Record calls of these libraries, by origin or immediate caller; may be repeated; `!` excludes
    #[arg(long, value_name = "GLOB")]
    library: Vec<String>,

    /// Record calls with these kernels, by demangled names with or without types; may be repeated; `!` excludes
    #[arg(long, value_name = "GLOB")]
    kernel: Vec<String>,

    /// Record calls that take at least this long, such as 50us
    #[arg(long, value_name = "TIME", value_parser = duration)]
    min_duration: Option<Duration>,

    /// Record one in N launches, drawn at random
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    sample: u32,
}

impl Recording {
    /// The settings for the session.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        Ok(Settings {
            options: Options {
                ring_size: self.ring_size,
                depth: self.depth,
                uprobes: self.uprobes,
                driver: self.driver,
                extra_devices: self.driver_device.clone(),
            },
            filters: self.filter.filters()?,
            label: self.chain_frames,
            runtimes: self.runtime.clone(),
            own_calls: !self.probe_all,
            rules: self.rules.as_deref().map_or_else(|| Ok(Rules::default()), crate::rules::read)?,
        })
    }

    /// The format of the timeline.
    pub(crate) fn style(&self) -> Style {
        let names = if self.fold_templates { KernelNames::Folded } else { KernelNames::Full };
        let executions = if self.gpu_render_stages { Executions::RenderStages } else { Executions::Slices };
        Style { names, executions }
    }

    /// The destination of the timeline and how it is written.
    pub(crate) fn output(&self) -> Result<(Destination, Format), Failure> {
        let of_name = self.output.as_deref().and_then(Compression::of_name);
        if let (Some(asked), Some(named)) = (self.compress, of_name)
            && asked != named
        {
            return Err(Failure::Usage(format!(
                "`--compress` contradicts the ending .{} of the file",
                named.ending()
            )));
        }
        let compression = self.compress.or(of_name);
        let destination = Destination::choose(self.output.as_deref(), compression);
        Ok((destination, Format { compression, size_max: self.max_size, kept: self.kept()? }))
    }

    fn kept(&self) -> Result<Option<Kept>, Failure> {
        if self.dump_on_slower.is_some() && !self.filter.filters()?.include_launches() {
            return Err(TracerError::from(FilterError::NoLaunches("dump-on-slower")).into());
        }
        Ok(self.ring.map(|size| Kept {
            size_max: usize::try_from(size).unwrap_or(usize::MAX),
            slow_ns: self.dump_on_slower.map(nanoseconds),
        }))
    }

    /// Like [`output`](Self::output), for verbs that write a timeline only on request.
    pub(crate) fn output_if_asked(&self) -> Result<Option<(Destination, Format)>, Failure> {
        if self.output.is_some() {
            return self.output().map(Some);
        }
        let about_files = [
            ("--max-size", self.max_size.is_some()),
            ("--ring", self.ring.is_some()),
            ("--compress", self.compress.is_some()),
        ];
        match about_files.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::Usage(format!("`{option}` needs `-o FILE`"))),
            None => Ok(None),
        }
    }
}

impl Filter {
    fn filters(&self) -> Result<Filters, Failure> {
        let functions = self.api.clone().unwrap_or_default();
        let min_duration_ns = self.min_duration.map_or(0, nanoseconds);
        Ok(Filters::new(functions, &self.library, &self.kernel, min_duration_ns, self.sample)
            .map_err(TracerError::from)?)
    }
}

/// Longer durations count as endless.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
