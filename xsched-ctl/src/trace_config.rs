//! The settings of a recording, for later readers.

use xsched_control_api::{answer::Answer, client, request::Request};

/// By name: versions, machine, and the controller if there is one.
pub(crate) async fn gather() -> Vec<(&'static str, String)> {
    let system = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let mut config = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("abi_version", xsched_abi::ABI_VERSION.to_string()),
        ("kernel", text(system.release())),
        ("machine", text(system.machine())),
        ("host", text(system.nodename())),
    ];
    match client::ask(&Request::Status {}).await {
        Ok(Answer::Status(status)) => config.extend([
            ("controller_version", status.version),
            ("controller_pid", status.pid.to_string()),
            ("policy", status.policy),
            ("state", status.state.to_string()),
            ("page_keeper", status.keeper.to_string()),
        ]),
        Ok(_) => {}
        Err(error) => config.push(("controller", format!("none: {error}"))),
    }
    config
}
