//! Events.

use crate::context::enter;
use crate::export::exports;
use crate::hip;
use crate::result::{Handle, of_hip};

exports! {
    @2000 cuEventCreate(event: *mut Handle, flags: u32) { enter()?; of_hip(hip::hipEventCreateWithFlags(event, flags)) }
    @2000 [stream: cuEventRecord_ptsz] cuEventRecord(event: Handle, stream: Handle) {
        enter()?;
        of_hip(hip::hipEventRecord(event, stream))
    }
    @11010 [stream: cuEventRecordWithFlags_ptsz] cuEventRecordWithFlags(event: Handle, stream: Handle, flags: u32) {
        enter()?;
        of_hip(hip::hipEventRecordWithFlags(event, stream, flags))
    }
    @2000 cuEventQuery(event: Handle) { of_hip(hip::hipEventQuery(event)) }
    @2000 cuEventSynchronize(event: Handle) { of_hip(hip::hipEventSynchronize(event)) }
    @2000 cuEventElapsedTime(ms: *mut f32, start: Handle, stop: Handle) {
        of_hip(hip::hipEventElapsedTime(ms, start, stop))
    }
    @12080 cuEventElapsedTime_v2(ms: *mut f32, start: Handle, stop: Handle) {
        of_hip(hip::hipEventElapsedTime(ms, start, stop))
    }
    @4000 cuEventDestroy_v2(event: Handle) { of_hip(hip::hipEventDestroy(event)) }
}
