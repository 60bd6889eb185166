//! Exit codes. A command's own status is passed on; xsched-ctl's own are those of sysexits(3) and shells.

/// The command line is wrong (`EX_USAGE`).
pub(crate) const USAGE: u8 = 64;
/// A file is damaged or of the wrong kind (`EX_DATAERR`).
pub(crate) const BAD_DATA: u8 = 65;
/// The process to trace does not exist or does not use HIP, or a file cannot be read (`EX_NOINPUT`).
pub(crate) const NO_TARGET: u8 = 66;
/// This kernel lacks something, or there is no controller (`EX_UNAVAILABLE`).
pub(crate) const UNAVAILABLE: u8 = 69;
/// A fault in xsched-ctl itself (`EX_SOFTWARE`).
pub(crate) const SOFTWARE: u8 = 70;
/// The output cannot be created (`EX_CANTCREAT`).
pub(crate) const CANNOT_CREATE: u8 = 73;
/// Writing the output failed (`EX_IOERR`).
pub(crate) const OUTPUT_FAILED: u8 = 74;
/// A privilege is missing (`EX_NOPERM`).
pub(crate) const NOT_PERMITTED: u8 = 77;
/// The command exists but cannot be executed, as in shells.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command does not exist, as in shells.
pub(crate) const NOT_FOUND: u8 = 127;

/// The tables for `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  CMD's own status, or 128+N if signal N ended it; 0 without CMD
  64   the command line is wrong
  65   a file is damaged or of the wrong kind
  66   no such process, it does not use HIP, or a file cannot be read
  69   the kernel lacks something, or no controller runs; `xsched-ctl doctor` says what
  70   a fault in xsched-ctl
  73   the output cannot be created
  74   writing the output failed; what was written loads
  77   not permitted; run as root
  126  CMD cannot be executed
  127  CMD was not found

Environment:
  XSCHED_SOCKET_DIR  folder of the controller's sockets, instead of /run/xsched or $XDG_RUNTIME_DIR/xsched
  XSCHED_CTL_LOG     what to log on standard error, such as debug or warn,audit=info";
