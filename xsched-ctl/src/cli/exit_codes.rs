//! Exit codes and environment variables, as `--help` shows them.

/// The tables for `--help`.
pub(super) const HELP: &str = "\
Exit codes:
  CMD's own status, or 128+N if signal N ended it; 0 without CMD
  64   the command line is wrong
  65   a file is damaged or of the wrong kind
  66   no such process, it does not use HIP or CUDA, or a file cannot be read
  69   the kernel lacks something, or no controller runs; `xsched-ctl doctor` says what
  70   a fault in xsched-ctl
  71   descriptors, memory or threads are short, or limited
  73   the output cannot be created
  74   writing the output failed; what was written loads
  77   not permitted; run as root
  126  CMD cannot be executed
  127  CMD was not found

Environment:
  XSCHED_SOCKET_DIR  folder of the controller's sockets, instead of /run/xsched or $XDG_RUNTIME_DIR/xsched
  XSCHED_CTL_LOG     what to log on standard error, such as debug or warn,audit=info";
