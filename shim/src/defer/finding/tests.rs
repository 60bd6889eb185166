use super::*;

fn key(copy: &RuntimeCopy, stream: Stream) -> StreamKey {
    StreamKey::created(copy, stream.0.addr())
}

/// Makes a stream known on which a command has failed after its call returned.
pub(crate) fn with_failure(copy: &'static RuntimeCopy, stream: Stream, code: u32) {
    let deferral = deferral();
    let on_device = HipStream { copy, device: 0, name: key(copy, stream).name() };
    let entry = deferral.dependencies().add_stream(key(copy, stream), 0, true, |status| {
        deferral.queues.create(on_device, None, status);
    });
    entry.failure.set(code);
}

pub(crate) fn is_known(copy: &RuntimeCopy, stream: Stream) -> bool {
    deferral().dependencies().stream(key(copy, stream)).is_some()
}
