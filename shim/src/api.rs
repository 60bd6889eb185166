//! The one list of functions: everything that the shim exports of HIP.
//!
//! A line reads
//!
//! ```text
//! family { class slot fn name(arguments) -> result; }
//! ```
//!
//! * The *family* is the file under `hooks/` that its hooks live in. Families are wrapped whole or not at all.
//! * The *class* says how a call relates to the stream order, see [`Class`]. Family and class together name the
//!   hook: a `deferrable` line of `launch` runs `hooks::launch::deferrable`; a line that `passes` has no hook
//!   and is counted only.
//! * The *slot* is where a runtime of ROCm 6.2 or later keeps the function in the dispatch tables for profilers: an index into
//!   the table `"hip_compiler"` or `"hip"`. It is `symbol` for a name that is in no table because only older runtimes export it.
//! * The signature is HIP's, in the types of [`crate::abi`]. A function that passes has `..` for its arguments: the shim
//!   jumps to the real function and reads none of them.
//!
//! Exports, hooks, names and tests are expansions of this list, by passing [`for_each_function`] the name of a macro.
//! A test compares it with `tests/data/hip-api.tsv`.

mod function;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::abi::{
    Allocation, Array, ChannelFormatDesc, Context, Device, DevicePtr, Dim3, Enum, Event, Extent,
    ExternalMemory, ExternalSemaphore, Function, Graph, GraphExec, GraphNode, GraphicsResource, HipError,
    HostFn, IpcEventHandle, Kernel, Library, MemLocation, MemPool, MemcpyKind, MipmappedArray, Module,
    PitchedPtr, Stream, StreamCallback, SurfaceObject, TextureObject,
};

pub(crate) use function::{ApiFunction, Class, Family, Slot};

/// Hands the list to the macro named `$consumer`.
macro_rules! for_each_function {
    ($consumer:ident) => { $consumer! {
        // Fat binaries, kernels and variables, registered by compiled code. The whole family or none: a
        // kernel registered in one runtime copy and launched in another is error 98.
        registration {
            observes compiler 2 fn __hipRegisterFatBinary(data: *const c_void) -> *mut *mut c_void;
            observes compiler 3 fn __hipRegisterFunction(
                modules: *mut *mut c_void, host_function: *const c_void, device_function: *mut c_char,
                device_name: *const c_char, thread_limit: c_uint, tid: *mut c_void, bid: *mut c_void,
                block_dim: *mut Dim3, grid_dim: *mut Dim3, w_size: *mut c_int
            ) -> ();
            passes compiler 4 fn __hipRegisterManagedVar(..) -> ();
            passes compiler 5 fn __hipRegisterSurface(..) -> ();
            passes compiler 6 fn __hipRegisterTexture(..) -> ();
            passes compiler 7 fn __hipRegisterVar(..) -> ();
            drains compiler 8 fn __hipUnregisterFatBinary(modules: *mut *mut c_void) -> ();
        }

        // Kernel launches and the call configuration that compiled launches push and pop.
        launch {
            passes compiler 0 fn __hipPopCallConfiguration(..) -> HipError;
            passes compiler 1 fn __hipPushCallConfiguration(..) -> HipError;
            passes runtime 13 fn hipConfigureCall(..) -> HipError;
            deferrable runtime 84 fn hipExtLaunchKernel(
                function_address: *const c_void, num_blocks: Dim3, dim_blocks: Dim3, args: *mut *mut c_void,
                shared_mem_bytes: usize, stream: Stream, start_event: Event, stop_event: Event, flags: c_int
            ) -> HipError;
            drains runtime 85 fn hipExtLaunchMultiKernelMultiDevice(
                launch_params_list: *mut c_void, num_devices: c_int, flags: c_uint
            ) -> HipError;
            passes runtime 208 fn hipKernelNameRef(..) -> *const c_char;
            passes runtime 209 fn hipKernelNameRefByPtr(..) -> *const c_char;
            drains runtime 210 fn hipLaunchByPtr(func: *const c_void) -> HipError;
            deferrable runtime 211 fn hipLaunchCooperativeKernel(
                f: *const c_void, grid_dim: Dim3, block_dim_x: Dim3, kernel_params: *mut *mut c_void,
                shared_mem_bytes: c_uint, stream: Stream
            ) -> HipError;
            drains runtime 212 fn hipLaunchCooperativeKernelMultiDevice(
                launch_params_list: *mut c_void, num_devices: c_int, flags: c_uint
            ) -> HipError;
            deferrable runtime 214 fn hipLaunchKernel(
                function_address: *const c_void, num_blocks: Dim3, dim_blocks: Dim3, args: *mut *mut c_void,
                shared_mem_bytes: usize, stream: Stream
            ) -> HipError;
            deferrable runtime 306 fn hipModuleLaunchCooperativeKernel(
                f: Function, grid_dim_x: c_uint, grid_dim_y: c_uint, grid_dim_z: c_uint, block_dim_x: c_uint,
                block_dim_y: c_uint, block_dim_z: c_uint, shared_mem_bytes: c_uint, stream: Stream,
                kernel_params: *mut *mut c_void
            ) -> HipError;
            drains runtime 307 fn hipModuleLaunchCooperativeKernelMultiDevice(
                launch_params_list: *mut c_void, num_devices: c_uint, flags: c_uint
            ) -> HipError;
            deferrable runtime 308 fn hipModuleLaunchKernel(
                f: Function, grid_dim_x: c_uint, grid_dim_y: c_uint, grid_dim_z: c_uint, block_dim_x: c_uint,
                block_dim_y: c_uint, block_dim_z: c_uint, shared_mem_bytes: c_uint, stream: Stream,
                kernel_params: *mut *mut c_void, extra: *mut *mut c_void
            ) -> HipError;
            passes runtime 329 fn hipSetupArgument(..) -> HipError;
            deferrable runtime 388 fn hipExtModuleLaunchKernel(
                f: Function, global_work_size_x: u32, global_work_size_y: u32, global_work_size_z: u32,
                local_work_size_x: u32, local_work_size_y: u32, local_work_size_z: u32,
                shared_mem_bytes: usize, stream: Stream, kernel_params: *mut *mut c_void,
                extra: *mut *mut c_void, start_event: Event, stop_event: Event, flags: u32
            ) -> HipError;
            deferrable symbol fn _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j(
                f: Function, global_work_size_x: u32, global_work_size_y: u32, global_work_size_z: u32,
                local_work_size_x: u32, local_work_size_y: u32, local_work_size_z: u32,
                shared_mem_bytes: usize, stream: Stream, kernel_params: *mut *mut c_void,
                extra: *mut *mut c_void, start_event: Event, stop_event: Event, flags: u32
            ) -> HipError;
            deferrable runtime 389 fn hipHccModuleLaunchKernel(
                f: Function, global_work_size_x: u32, global_work_size_y: u32, global_work_size_z: u32,
                local_work_size_x: u32, local_work_size_y: u32, local_work_size_z: u32,
                shared_mem_bytes: usize, stream: Stream, kernel_params: *mut *mut c_void,
                extra: *mut *mut c_void, start_event: Event, stop_event: Event
            ) -> HipError;
            deferrable symbol fn _Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_(
                f: Function, global_work_size_x: u32, global_work_size_y: u32, global_work_size_z: u32,
                local_work_size_x: u32, local_work_size_y: u32, local_work_size_z: u32,
                shared_mem_bytes: usize, stream: Stream, kernel_params: *mut *mut c_void,
                extra: *mut *mut c_void, start_event: Event, stop_event: Event
            ) -> HipError;
            deferrable runtime 418 fn hipLaunchCooperativeKernel_spt(
                f: *const c_void, grid_dim: Dim3, block_dim: Dim3, kernel_params: *mut *mut c_void,
                shared_mem_bytes: u32, stream: Stream
            ) -> HipError;
            deferrable runtime 419 fn hipLaunchKernel_spt(
                function_address: *const c_void, num_blocks: Dim3, dim_blocks: Dim3, args: *mut *mut c_void,
                shared_mem_bytes: usize, stream: Stream
            ) -> HipError;
            deferrable runtime 474 fn hipLaunchKernelExC(
                config: *const c_void, f_ptr: *const c_void, args: *mut *mut c_void
            ) -> HipError;
            deferrable runtime 475 fn hipDrvLaunchKernelEx(
                config: *const c_void, f: Function, params: *mut *mut c_void, extra: *mut *mut c_void
            ) -> HipError;
        }

        // Copies.
        copy {
            drains runtime 72 fn hipDrvMemcpy2DUnaligned(p_copy: *const c_void) -> HipError;
            drains runtime 73 fn hipDrvMemcpy3D(p_copy: *const c_void) -> HipError;
            deferrable runtime 74 fn hipDrvMemcpy3DAsync(p_copy: *const c_void, stream: Stream) -> HipError;
            drains runtime 259 fn hipMemcpy(
                dst: *mut c_void, src: *const c_void, size_bytes: usize, kind: MemcpyKind
            ) -> HipError;
            drains runtime 260 fn hipMemcpy2D(
                dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize,
                height: usize, kind: MemcpyKind
            ) -> HipError;
            deferrable runtime 261 fn hipMemcpy2DAsync(
                dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize,
                height: usize, kind: MemcpyKind, stream: Stream
            ) -> HipError;
            drains runtime 262 fn hipMemcpy2DFromArray(
                dst: *mut c_void, dpitch: usize, src: Array, w_offset: usize, h_offset: usize, width: usize,
                height: usize, kind: MemcpyKind
            ) -> HipError;
            deferrable runtime 263 fn hipMemcpy2DFromArrayAsync(
                dst: *mut c_void, dpitch: usize, src: Array, w_offset: usize, h_offset: usize, width: usize,
                height: usize, kind: MemcpyKind, stream: Stream
            ) -> HipError;
            drains runtime 264 fn hipMemcpy2DToArray(
                dst: Array, w_offset: usize, h_offset: usize, src: *const c_void, spitch: usize, width: usize,
                height: usize, kind: MemcpyKind
            ) -> HipError;
            deferrable runtime 265 fn hipMemcpy2DToArrayAsync(
                dst: Array, w_offset: usize, h_offset: usize, src: *const c_void, spitch: usize, width: usize,
                height: usize, kind: MemcpyKind, stream: Stream
            ) -> HipError;
            drains runtime 266 fn hipMemcpy3D(p: *const c_void) -> HipError;
            deferrable runtime 267 fn hipMemcpy3DAsync(p: *const c_void, stream: Stream) -> HipError;
            deferrable runtime 268 fn hipMemcpyAsync(
                dst: *mut c_void, src: *const c_void, size_bytes: usize, kind: MemcpyKind, stream: Stream
            ) -> HipError;
            drains runtime 269 fn hipMemcpyAtoH(
                dst: *mut c_void, src_array: Array, src_offset: usize, count: usize
            ) -> HipError;
            drains runtime 270 fn hipMemcpyDtoD(
                dst: DevicePtr, src: DevicePtr, size_bytes: usize
            ) -> HipError;
            deferrable runtime 271 fn hipMemcpyDtoDAsync(
                dst: DevicePtr, src: DevicePtr, size_bytes: usize, stream: Stream
            ) -> HipError;
            drains runtime 272 fn hipMemcpyDtoH(
                dst: *mut c_void, src: DevicePtr, size_bytes: usize
            ) -> HipError;
            deferrable runtime 273 fn hipMemcpyDtoHAsync(
                dst: *mut c_void, src: DevicePtr, size_bytes: usize, stream: Stream
            ) -> HipError;
            drains runtime 274 fn hipMemcpyFromArray(
                dst: *mut c_void, src_array: Array, w_offset: usize, h_offset: usize, count: usize,
                kind: MemcpyKind
            ) -> HipError;
            drains runtime 275 fn hipMemcpyFromSymbol(
                dst: *mut c_void, symbol: *const c_void, size_bytes: usize, offset: usize, kind: MemcpyKind
            ) -> HipError;
            deferrable runtime 276 fn hipMemcpyFromSymbolAsync(
                dst: *mut c_void, symbol: *const c_void, size_bytes: usize, offset: usize, kind: MemcpyKind,
                stream: Stream
            ) -> HipError;
            drains runtime 277 fn hipMemcpyHtoA(
                dst_array: Array, dst_offset: usize, src_host: *const c_void, count: usize
            ) -> HipError;
            drains runtime 278 fn hipMemcpyHtoD(
                dst: DevicePtr, src: *const c_void, size_bytes: usize
            ) -> HipError;
            deferrable runtime 279 fn hipMemcpyHtoDAsync(
                dst: DevicePtr, src: *const c_void, size_bytes: usize, stream: Stream
            ) -> HipError;
            drains runtime 280 fn hipMemcpyParam2D(p_copy: *const c_void) -> HipError;
            deferrable runtime 281 fn hipMemcpyParam2DAsync(
                p_copy: *const c_void, stream: Stream
            ) -> HipError;
            drains runtime 282 fn hipMemcpyPeer(
                dst: *mut c_void, dst_device_id: c_int, src: *const c_void, src_device_id: c_int,
                size_bytes: usize
            ) -> HipError;
            deferrable runtime 283 fn hipMemcpyPeerAsync(
                dst: *mut c_void, dst_device_id: c_int, src: *const c_void, src_device: c_int,
                size_bytes: usize, stream: Stream
            ) -> HipError;
            drains runtime 284 fn hipMemcpyToArray(
                dst: Array, w_offset: usize, h_offset: usize, src: *const c_void, count: usize,
                kind: MemcpyKind
            ) -> HipError;
            drains runtime 285 fn hipMemcpyToSymbol(
                symbol: *const c_void, src: *const c_void, size_bytes: usize, offset: usize, kind: MemcpyKind
            ) -> HipError;
            deferrable runtime 286 fn hipMemcpyToSymbolAsync(
                symbol: *const c_void, src: *const c_void, size_bytes: usize, offset: usize, kind: MemcpyKind,
                stream: Stream
            ) -> HipError;
            drains runtime 287 fn hipMemcpyWithStream(
                dst: *mut c_void, src: *const c_void, size_bytes: usize, kind: MemcpyKind, stream: Stream
            ) -> HipError;
            drains runtime 390 fn hipMemcpy_spt(
                dst: *mut c_void, src: *const c_void, size_bytes: usize, kind: MemcpyKind
            ) -> HipError;
            drains runtime 391 fn hipMemcpyToSymbol_spt(
                symbol: *const c_void, src: *const c_void, size_bytes: usize, offset: usize, kind: MemcpyKind
            ) -> HipError;
            drains runtime 392 fn hipMemcpyFromSymbol_spt(
                dst: *mut c_void, symbol: *const c_void, size_bytes: usize, offset: usize, kind: MemcpyKind
            ) -> HipError;
            drains runtime 393 fn hipMemcpy2D_spt(
                dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize,
                height: usize, kind: MemcpyKind
            ) -> HipError;
            drains runtime 394 fn hipMemcpy2DFromArray_spt(
                dst: *mut c_void, dpitch: usize, src: Array, w_offset: usize, h_offset: usize, width: usize,
                height: usize, kind: MemcpyKind
            ) -> HipError;
            drains runtime 395 fn hipMemcpy3D_spt(p: *const c_void) -> HipError;
            deferrable runtime 402 fn hipMemcpyAsync_spt(
                dst: *mut c_void, src: *const c_void, size_bytes: usize, kind: MemcpyKind, stream: Stream
            ) -> HipError;
            deferrable runtime 403 fn hipMemcpy3DAsync_spt(p: *const c_void, stream: Stream) -> HipError;
            deferrable runtime 404 fn hipMemcpy2DAsync_spt(
                dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize,
                height: usize, kind: MemcpyKind, stream: Stream
            ) -> HipError;
            deferrable runtime 405 fn hipMemcpyFromSymbolAsync_spt(
                dst: *mut c_void, symbol: *const c_void, size_bytes: usize, offset: usize, kind: MemcpyKind,
                stream: Stream
            ) -> HipError;
            deferrable runtime 406 fn hipMemcpyToSymbolAsync_spt(
                symbol: *const c_void, src: *const c_void, size_bytes: usize, offset: usize, kind: MemcpyKind,
                stream: Stream
            ) -> HipError;
            drains runtime 407 fn hipMemcpyFromArray_spt(
                dst: *mut c_void, src: Array, w_offset_src: usize, h_offset: usize, count: usize,
                kind: MemcpyKind
            ) -> HipError;
            drains runtime 408 fn hipMemcpy2DToArray_spt(
                dst: Array, w_offset: usize, h_offset: usize, src: *const c_void, spitch: usize, width: usize,
                height: usize, kind: MemcpyKind
            ) -> HipError;
            deferrable runtime 409 fn hipMemcpy2DFromArrayAsync_spt(
                dst: *mut c_void, dpitch: usize, src: Array, w_offset_src: usize, h_offset_src: usize,
                width: usize, height: usize, kind: MemcpyKind, stream: Stream
            ) -> HipError;
            deferrable runtime 410 fn hipMemcpy2DToArrayAsync_spt(
                dst: Array, w_offset: usize, h_offset: usize, src: *const c_void, spitch: usize, width: usize,
                height: usize, kind: MemcpyKind, stream: Stream
            ) -> HipError;
            drains runtime 446 fn hipMemcpyAtoD(
                dst_device: DevicePtr, src_array: Array, src_offset: usize, byte_count: usize
            ) -> HipError;
            drains runtime 447 fn hipMemcpyDtoA(
                dst_array: Array, dst_offset: usize, src_device: DevicePtr, byte_count: usize
            ) -> HipError;
            drains runtime 448 fn hipMemcpyAtoA(
                dst_array: Array, dst_offset: usize, src_array: Array, src_offset: usize, byte_count: usize
            ) -> HipError;
            deferrable runtime 449 fn hipMemcpyAtoHAsync(
                dst_host: *mut c_void, src_array: Array, src_offset: usize, byte_count: usize, stream: Stream
            ) -> HipError;
            deferrable runtime 450 fn hipMemcpyHtoAAsync(
                dst_array: Array, dst_offset: usize, src_host: *const c_void, byte_count: usize,
                stream: Stream
            ) -> HipError;
            drains runtime 451 fn hipMemcpy2DArrayToArray(
                dst: Array, w_offset_dst: usize, h_offset_dst: usize, src: Array, w_offset_src: usize,
                h_offset_src: usize, width: usize, height: usize, kind: MemcpyKind
            ) -> HipError;
            deferrable runtime 487 fn hipMemcpyBatchAsync(
                dsts: *mut *mut c_void, srcs: *mut *mut c_void, sizes: *mut usize, count: usize,
                attrs: *mut c_void, attrs_idxs: *mut usize, num_attrs: usize, fail_idx: *mut usize,
                stream: Stream
            ) -> HipError;
            deferrable runtime 488 fn hipMemcpy3DBatchAsync(
                num_ops: usize, op_list: *mut c_void, fail_idx: *mut usize, flags: u64, stream: Stream
            ) -> HipError;
            drains runtime 489 fn hipMemcpy3DPeer(p: *mut c_void) -> HipError;
            deferrable runtime 490 fn hipMemcpy3DPeerAsync(p: *mut c_void, stream: Stream) -> HipError;
        }

        // Fills.
        set {
            drains runtime 288 fn hipMemset(dst: *mut c_void, value: c_int, size_bytes: usize) -> HipError;
            drains runtime 289 fn hipMemset2D(
                dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize
            ) -> HipError;
            deferrable runtime 290 fn hipMemset2DAsync(
                dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize, stream: Stream
            ) -> HipError;
            drains runtime 291 fn hipMemset3D(
                pitched_dev_ptr: PitchedPtr, value: c_int, extent: Extent
            ) -> HipError;
            deferrable runtime 292 fn hipMemset3DAsync(
                pitched_dev_ptr: PitchedPtr, value: c_int, extent: Extent, stream: Stream
            ) -> HipError;
            deferrable runtime 293 fn hipMemsetAsync(
                dst: *mut c_void, value: c_int, size_bytes: usize, stream: Stream
            ) -> HipError;
            drains runtime 294 fn hipMemsetD16(dest: DevicePtr, value: u16, count: usize) -> HipError;
            deferrable runtime 295 fn hipMemsetD16Async(
                dest: DevicePtr, value: u16, count: usize, stream: Stream
            ) -> HipError;
            drains runtime 296 fn hipMemsetD32(dest: DevicePtr, value: c_int, count: usize) -> HipError;
            deferrable runtime 297 fn hipMemsetD32Async(
                dst: DevicePtr, value: c_int, count: usize, stream: Stream
            ) -> HipError;
            drains runtime 298 fn hipMemsetD8(dest: DevicePtr, value: u8, count: usize) -> HipError;
            deferrable runtime 299 fn hipMemsetD8Async(
                dest: DevicePtr, value: u8, count: usize, stream: Stream
            ) -> HipError;
            drains runtime 396 fn hipMemset_spt(
                dst: *mut c_void, value: c_int, size_bytes: usize
            ) -> HipError;
            deferrable runtime 397 fn hipMemsetAsync_spt(
                dst: *mut c_void, value: c_int, size_bytes: usize, stream: Stream
            ) -> HipError;
            drains runtime 398 fn hipMemset2D_spt(
                dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize
            ) -> HipError;
            deferrable runtime 399 fn hipMemset2DAsync_spt(
                dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize, stream: Stream
            ) -> HipError;
            deferrable runtime 400 fn hipMemset3DAsync_spt(
                pitched_dev_ptr: PitchedPtr, value: c_int, extent: Extent, stream: Stream
            ) -> HipError;
            drains runtime 401 fn hipMemset3D_spt(
                pitched_dev_ptr: PitchedPtr, value: c_int, extent: Extent
            ) -> HipError;
            drains runtime 478 fn hipMemsetD2D8(
                dst: DevicePtr, dst_pitch: usize, value: u8, width: usize, height: usize
            ) -> HipError;
            deferrable runtime 479 fn hipMemsetD2D8Async(
                dst: DevicePtr, dst_pitch: usize, value: u8, width: usize, height: usize, stream: Stream
            ) -> HipError;
            drains runtime 480 fn hipMemsetD2D16(
                dst: DevicePtr, dst_pitch: usize, value: u16, width: usize, height: usize
            ) -> HipError;
            deferrable runtime 481 fn hipMemsetD2D16Async(
                dst: DevicePtr, dst_pitch: usize, value: u16, width: usize, height: usize, stream: Stream
            ) -> HipError;
            drains runtime 482 fn hipMemsetD2D32(
                dst: DevicePtr, dst_pitch: usize, value: c_uint, width: usize, height: usize
            ) -> HipError;
            deferrable runtime 483 fn hipMemsetD2D32Async(
                dst: DevicePtr, dst_pitch: usize, value: c_uint, width: usize, height: usize, stream: Stream
            ) -> HipError;
        }

        // Streams: life, attributes, memory operations and capture.
        stream {
            observes runtime 87 fn hipExtStreamCreateWithCUMask(
                stream: *mut Stream, cu_mask_size: u32, cu_mask: *const u32
            ) -> HipError;
            passes runtime 88 fn hipExtStreamGetCUMask(..) -> HipError;
            deferrable runtime 332 fn hipStreamAttachMemAsync(
                stream: Stream, dev_ptr: *mut c_void, length: usize, flags: c_uint
            ) -> HipError;
            captures runtime 333 fn hipStreamBeginCapture(stream: Stream, mode: Enum) -> HipError;
            observes runtime 334 fn hipStreamCreate(stream: *mut Stream) -> HipError;
            observes runtime 335 fn hipStreamCreateWithFlags(stream: *mut Stream, flags: c_uint) -> HipError;
            observes runtime 336 fn hipStreamCreateWithPriority(
                stream: *mut Stream, flags: c_uint, priority: c_int
            ) -> HipError;
            drains runtime 337 fn hipStreamDestroy(stream: Stream) -> HipError;
            captures runtime 338 fn hipStreamEndCapture(stream: Stream, p_graph: *mut Graph) -> HipError;
            captures runtime 339 fn hipStreamGetCaptureInfo(
                stream: Stream, p_capture_status: *mut c_void, p_id: *mut u64
            ) -> HipError;
            captures runtime 340 fn hipStreamGetCaptureInfo_v2(
                stream: Stream, capture_status_out: *mut c_void, id_out: *mut u64, graph_out: *mut Graph,
                dependencies_out: *mut *const GraphNode, num_dependencies_out: *mut usize
            ) -> HipError;
            passes runtime 341 fn hipStreamGetDevice(..) -> HipError;
            passes runtime 342 fn hipStreamGetFlags(..) -> HipError;
            passes runtime 343 fn hipStreamGetPriority(..) -> HipError;
            captures runtime 344 fn hipStreamIsCapturing(
                stream: Stream, p_capture_status: *mut c_void
            ) -> HipError;
            drains runtime 345 fn hipStreamQuery(stream: Stream) -> HipError;
            captures runtime 347 fn hipStreamUpdateCaptureDependencies(
                stream: Stream, dependencies: *mut GraphNode, num_dependencies: usize, flags: c_uint
            ) -> HipError;
            deferrable runtime 348 fn hipStreamWaitEvent(
                stream: Stream, event: Event, flags: c_uint
            ) -> HipError;
            deferrable runtime 349 fn hipStreamWaitValue32(
                stream: Stream, ptr: *mut c_void, value: u32, flags: c_uint, mask: u32
            ) -> HipError;
            deferrable runtime 350 fn hipStreamWaitValue64(
                stream: Stream, ptr: *mut c_void, value: u64, flags: c_uint, mask: u64
            ) -> HipError;
            deferrable runtime 351 fn hipStreamWriteValue32(
                stream: Stream, ptr: *mut c_void, value: u32, flags: c_uint
            ) -> HipError;
            deferrable runtime 352 fn hipStreamWriteValue64(
                stream: Stream, ptr: *mut c_void, value: u64, flags: c_uint
            ) -> HipError;
            captures runtime 381 fn hipThreadExchangeStreamCaptureMode(mode: *mut Enum) -> HipError;
            drains runtime 411 fn hipStreamQuery_spt(stream: Stream) -> HipError;
            passes runtime 413 fn hipStreamGetPriority_spt(..) -> HipError;
            deferrable runtime 414 fn hipStreamWaitEvent_spt(
                stream: Stream, event: Event, flags: c_uint
            ) -> HipError;
            passes runtime 415 fn hipStreamGetFlags_spt(..) -> HipError;
            captures runtime 421 fn hipStreamBeginCapture_spt(stream: Stream, mode: Enum) -> HipError;
            captures runtime 422 fn hipStreamEndCapture_spt(stream: Stream, p_graph: *mut Graph) -> HipError;
            captures runtime 423 fn hipStreamIsCapturing_spt(
                stream: Stream, p_capture_status: *mut c_void
            ) -> HipError;
            captures runtime 424 fn hipStreamGetCaptureInfo_spt(
                stream: Stream, p_capture_status: *mut c_void, p_id: *mut u64
            ) -> HipError;
            captures runtime 425 fn hipStreamGetCaptureInfo_v2_spt(
                stream: Stream, capture_status_out: *mut c_void, id_out: *mut u64, graph_out: *mut Graph,
                dependencies_out: *mut *const GraphNode, num_dependencies_out: *mut usize
            ) -> HipError;
            passes runtime 427 fn hipGetStreamDeviceId(..) -> c_int;
            captures runtime 443 fn hipStreamBeginCaptureToGraph(
                stream: Stream, graph: Graph, dependencies: *const GraphNode, dependency_data: *const c_void,
                num_dependencies: usize, mode: Enum
            ) -> HipError;
            deferrable runtime 463 fn hipStreamBatchMemOp(
                stream: Stream, count: c_uint, param_array: *mut c_void, flags: c_uint
            ) -> HipError;
            passes runtime 484 fn hipStreamGetAttribute(..) -> HipError;
            drains runtime 485 fn hipStreamSetAttribute(
                stream: Stream, attr: Enum, value: *const c_void
            ) -> HipError;
            passes runtime 495 fn hipStreamGetId(..) -> HipError;
            drains runtime 501 fn hipStreamCopyAttributes(dst: Stream, src: Stream) -> HipError;
        }

        // Events.
        event {
            passes runtime 76 fn hipEventCreate(..) -> HipError;
            passes runtime 77 fn hipEventCreateWithFlags(..) -> HipError;
            drains runtime 78 fn hipEventDestroy(event: Event) -> HipError;
            drains runtime 79 fn hipEventElapsedTime(ms: *mut f32, start: Event, stop: Event) -> HipError;
            drains runtime 80 fn hipEventQuery(event: Event) -> HipError;
            deferrable runtime 81 fn hipEventRecord(event: Event, stream: Stream) -> HipError;
            drains runtime 204 fn hipIpcGetEventHandle(handle: *mut IpcEventHandle, event: Event) -> HipError;
            observes runtime 206 fn hipIpcOpenEventHandle(
                event: *mut Event, handle: IpcEventHandle
            ) -> HipError;
            deferrable runtime 417 fn hipEventRecord_spt(event: Event, stream: Stream) -> HipError;
            deferrable runtime 473 fn hipEventRecordWithFlags(
                event: Event, stream: Stream, flags: c_uint
            ) -> HipError;
        }

        // Waits of the host.
        synchronise {
            drains runtime 31 fn hipCtxSynchronize() -> HipError;
            drains runtime 66 fn hipDeviceSynchronize() -> HipError;
            drains runtime 82 fn hipEventSynchronize(event: Event) -> HipError;
            drains runtime 346 fn hipStreamSynchronize(stream: Stream) -> HipError;
            drains runtime 412 fn hipStreamSynchronize_spt(stream: Stream) -> HipError;
        }

        // Host functions in stream order.
        host {
            deferrable runtime 213 fn hipLaunchHostFunc(
                stream: Stream, function: HostFn, user_data: *mut c_void
            ) -> HipError;
            deferrable runtime 331 fn hipStreamAddCallback(
                stream: Stream, callback: StreamCallback, user_data: *mut c_void, flags: c_uint
            ) -> HipError;
            deferrable runtime 416 fn hipStreamAddCallback_spt(
                stream: Stream, callback: StreamCallback, user_data: *mut c_void, flags: c_uint
            ) -> HipError;
            deferrable runtime 426 fn hipLaunchHostFunc_spt(
                stream: Stream, function: HostFn, user_data: *mut c_void
            ) -> HipError;
        }

        // Graphs: building, instantiating, launching.
        graph {
            passes runtime 71 fn hipDrvGraphAddMemcpyNode(..) -> HipError;
            passes runtime 118 fn hipGraphAddChildGraphNode(..) -> HipError;
            passes runtime 119 fn hipGraphAddDependencies(..) -> HipError;
            passes runtime 120 fn hipGraphAddEmptyNode(..) -> HipError;
            passes runtime 121 fn hipGraphAddEventRecordNode(..) -> HipError;
            passes runtime 122 fn hipGraphAddEventWaitNode(..) -> HipError;
            passes runtime 123 fn hipGraphAddHostNode(..) -> HipError;
            passes runtime 124 fn hipGraphAddKernelNode(..) -> HipError;
            passes runtime 125 fn hipGraphAddMemAllocNode(..) -> HipError;
            passes runtime 126 fn hipGraphAddMemFreeNode(..) -> HipError;
            passes runtime 127 fn hipGraphAddMemcpyNode(..) -> HipError;
            passes runtime 128 fn hipGraphAddMemcpyNode1D(..) -> HipError;
            passes runtime 129 fn hipGraphAddMemcpyNodeFromSymbol(..) -> HipError;
            passes runtime 130 fn hipGraphAddMemcpyNodeToSymbol(..) -> HipError;
            passes runtime 131 fn hipGraphAddMemsetNode(..) -> HipError;
            passes runtime 132 fn hipGraphChildGraphNodeGetGraph(..) -> HipError;
            passes runtime 133 fn hipGraphClone(..) -> HipError;
            passes runtime 134 fn hipGraphCreate(..) -> HipError;
            passes runtime 135 fn hipGraphDebugDotPrint(..) -> HipError;
            passes runtime 136 fn hipGraphDestroy(..) -> HipError;
            passes runtime 137 fn hipGraphDestroyNode(..) -> HipError;
            passes runtime 138 fn hipGraphEventRecordNodeGetEvent(..) -> HipError;
            passes runtime 139 fn hipGraphEventRecordNodeSetEvent(..) -> HipError;
            passes runtime 140 fn hipGraphEventWaitNodeGetEvent(..) -> HipError;
            passes runtime 141 fn hipGraphEventWaitNodeSetEvent(..) -> HipError;
            drains runtime 142 fn hipGraphExecChildGraphNodeSetParams(
                h_graph_exec: GraphExec, node: GraphNode, child_graph: Graph
            ) -> HipError;
            drains runtime 143 fn hipGraphExecDestroy(graph_exec: GraphExec) -> HipError;
            drains runtime 144 fn hipGraphExecEventRecordNodeSetEvent(
                h_graph_exec: GraphExec, node: GraphNode, event: Event
            ) -> HipError;
            drains runtime 145 fn hipGraphExecEventWaitNodeSetEvent(
                h_graph_exec: GraphExec, node: GraphNode, event: Event
            ) -> HipError;
            drains runtime 146 fn hipGraphExecHostNodeSetParams(
                h_graph_exec: GraphExec, node: GraphNode, p_node_params: *const c_void
            ) -> HipError;
            drains runtime 147 fn hipGraphExecKernelNodeSetParams(
                h_graph_exec: GraphExec, node: GraphNode, p_node_params: *const c_void
            ) -> HipError;
            drains runtime 148 fn hipGraphExecMemcpyNodeSetParams(
                h_graph_exec: GraphExec, node: GraphNode, p_node_params: *mut c_void
            ) -> HipError;
            drains runtime 149 fn hipGraphExecMemcpyNodeSetParams1D(
                h_graph_exec: GraphExec, node: GraphNode, dst: *mut c_void, src: *const c_void, count: usize,
                kind: MemcpyKind
            ) -> HipError;
            drains runtime 150 fn hipGraphExecMemcpyNodeSetParamsFromSymbol(
                h_graph_exec: GraphExec, node: GraphNode, dst: *mut c_void, symbol: *const c_void,
                count: usize, offset: usize, kind: MemcpyKind
            ) -> HipError;
            drains runtime 151 fn hipGraphExecMemcpyNodeSetParamsToSymbol(
                h_graph_exec: GraphExec, node: GraphNode, symbol: *const c_void, src: *const c_void,
                count: usize, offset: usize, kind: MemcpyKind
            ) -> HipError;
            drains runtime 152 fn hipGraphExecMemsetNodeSetParams(
                h_graph_exec: GraphExec, node: GraphNode, p_node_params: *const c_void
            ) -> HipError;
            drains runtime 153 fn hipGraphExecUpdate(
                h_graph_exec: GraphExec, graph: Graph, h_error_node_out: *mut GraphNode,
                update_result_out: *mut c_void
            ) -> HipError;
            passes runtime 154 fn hipGraphGetEdges(..) -> HipError;
            passes runtime 155 fn hipGraphGetNodes(..) -> HipError;
            passes runtime 156 fn hipGraphGetRootNodes(..) -> HipError;
            passes runtime 157 fn hipGraphHostNodeGetParams(..) -> HipError;
            passes runtime 158 fn hipGraphHostNodeSetParams(..) -> HipError;
            observes runtime 159 fn hipGraphInstantiate(
                p_graph_exec: *mut GraphExec, graph: Graph, p_error_node: *mut GraphNode,
                p_log_buffer: *mut c_char, buffer_size: usize
            ) -> HipError;
            observes runtime 160 fn hipGraphInstantiateWithFlags(
                p_graph_exec: *mut GraphExec, graph: Graph, flags: u64
            ) -> HipError;
            passes runtime 161 fn hipGraphKernelNodeCopyAttributes(..) -> HipError;
            passes runtime 162 fn hipGraphKernelNodeGetAttribute(..) -> HipError;
            passes runtime 163 fn hipGraphKernelNodeGetParams(..) -> HipError;
            passes runtime 164 fn hipGraphKernelNodeSetAttribute(..) -> HipError;
            passes runtime 165 fn hipGraphKernelNodeSetParams(..) -> HipError;
            deferrable runtime 166 fn hipGraphLaunch(graph_exec: GraphExec, stream: Stream) -> HipError;
            passes runtime 167 fn hipGraphMemAllocNodeGetParams(..) -> HipError;
            passes runtime 168 fn hipGraphMemFreeNodeGetParams(..) -> HipError;
            passes runtime 169 fn hipGraphMemcpyNodeGetParams(..) -> HipError;
            passes runtime 170 fn hipGraphMemcpyNodeSetParams(..) -> HipError;
            passes runtime 171 fn hipGraphMemcpyNodeSetParams1D(..) -> HipError;
            passes runtime 172 fn hipGraphMemcpyNodeSetParamsFromSymbol(..) -> HipError;
            passes runtime 173 fn hipGraphMemcpyNodeSetParamsToSymbol(..) -> HipError;
            passes runtime 174 fn hipGraphMemsetNodeGetParams(..) -> HipError;
            passes runtime 175 fn hipGraphMemsetNodeSetParams(..) -> HipError;
            passes runtime 176 fn hipGraphNodeFindInClone(..) -> HipError;
            passes runtime 177 fn hipGraphNodeGetDependencies(..) -> HipError;
            passes runtime 178 fn hipGraphNodeGetDependentNodes(..) -> HipError;
            passes runtime 179 fn hipGraphNodeGetEnabled(..) -> HipError;
            passes runtime 180 fn hipGraphNodeGetType(..) -> HipError;
            drains runtime 181 fn hipGraphNodeSetEnabled(
                h_graph_exec: GraphExec, node: GraphNode, is_enabled: c_uint
            ) -> HipError;
            passes runtime 182 fn hipGraphReleaseUserObject(..) -> HipError;
            passes runtime 183 fn hipGraphRemoveDependencies(..) -> HipError;
            passes runtime 184 fn hipGraphRetainUserObject(..) -> HipError;
            deferrable runtime 185 fn hipGraphUpload(graph_exec: GraphExec, stream: Stream) -> HipError;
            deferrable runtime 420 fn hipGraphLaunch_spt(graph_exec: GraphExec, stream: Stream) -> HipError;
            passes runtime 428 fn hipDrvGraphAddMemsetNode(..) -> HipError;
            passes runtime 429 fn hipGraphAddExternalSemaphoresWaitNode(..) -> HipError;
            passes runtime 430 fn hipGraphAddExternalSemaphoresSignalNode(..) -> HipError;
            passes runtime 431 fn hipGraphExternalSemaphoresSignalNodeSetParams(..) -> HipError;
            passes runtime 432 fn hipGraphExternalSemaphoresWaitNodeSetParams(..) -> HipError;
            passes runtime 433 fn hipGraphExternalSemaphoresSignalNodeGetParams(..) -> HipError;
            passes runtime 434 fn hipGraphExternalSemaphoresWaitNodeGetParams(..) -> HipError;
            drains runtime 435 fn hipGraphExecExternalSemaphoresSignalNodeSetParams(
                h_graph_exec: GraphExec, node: GraphNode, node_params: *const c_void
            ) -> HipError;
            drains runtime 436 fn hipGraphExecExternalSemaphoresWaitNodeSetParams(
                h_graph_exec: GraphExec, node: GraphNode, node_params: *const c_void
            ) -> HipError;
            passes runtime 437 fn hipGraphAddNode(..) -> HipError;
            observes runtime 438 fn hipGraphInstantiateWithParams(
                p_graph_exec: *mut GraphExec, graph: Graph, instantiate_params: *mut c_void
            ) -> HipError;
            passes runtime 452 fn hipDrvGraphAddMemFreeNode(..) -> HipError;
            drains runtime 453 fn hipDrvGraphExecMemcpyNodeSetParams(
                h_graph_exec: GraphExec, node: GraphNode, copy_params: *const c_void, ctx: Context
            ) -> HipError;
            drains runtime 454 fn hipDrvGraphExecMemsetNodeSetParams(
                h_graph_exec: GraphExec, node: GraphNode, memset_params: *const c_void, ctx: Context
            ) -> HipError;
            passes runtime 455 fn hipGraphExecGetFlags(..) -> HipError;
            passes runtime 456 fn hipGraphNodeSetParams(..) -> HipError;
            drains runtime 457 fn hipGraphExecNodeSetParams(
                graph_exec: GraphExec, node: GraphNode, node_params: *mut c_void
            ) -> HipError;
            passes runtime 459 fn hipDrvGraphMemcpyNodeGetParams(..) -> HipError;
            passes runtime 460 fn hipDrvGraphMemcpyNodeSetParams(..) -> HipError;
            passes runtime 464 fn hipGraphAddBatchMemOpNode(..) -> HipError;
            passes runtime 465 fn hipGraphBatchMemOpNodeGetParams(..) -> HipError;
            passes runtime 466 fn hipGraphBatchMemOpNodeSetParams(..) -> HipError;
            drains runtime 467 fn hipGraphExecBatchMemOpNodeSetParams(
                h_graph_exec: GraphExec, node: GraphNode, node_params: *const c_void
            ) -> HipError;
        }

        // Modules, libraries, linking, kernel handles, and other ways to a pointer.
        module {
            passes runtime 95 fn hipFuncGetAttribute(..) -> HipError;
            passes runtime 96 fn hipFuncGetAttributes(..) -> HipError;
            drains runtime 97 fn hipFuncSetAttribute(
                func: *const c_void, attr: Enum, value: c_int
            ) -> HipError;
            drains runtime 98 fn hipFuncSetCacheConfig(func: *const c_void, config: Enum) -> HipError;
            drains runtime 99 fn hipFuncSetSharedMemConfig(func: *const c_void, config: Enum) -> HipError;
            passes runtime 111 fn hipGetSymbolAddress(..) -> HipError;
            passes runtime 112 fn hipGetSymbolSize(..) -> HipError;
            observes runtime 303 fn hipModuleGetFunction(
                function: *mut Function, module: Module, kname: *const c_char
            ) -> HipError;
            passes runtime 304 fn hipModuleGetGlobal(..) -> HipError;
            passes runtime 305 fn hipModuleGetTexRef(..) -> HipError;
            observes runtime 309 fn hipModuleLoad(module: *mut Module, fname: *const c_char) -> HipError;
            observes runtime 310 fn hipModuleLoadData(module: *mut Module, image: *const c_void) -> HipError;
            observes runtime 311 fn hipModuleLoadDataEx(
                module: *mut Module, image: *const c_void, num_options: c_uint, options: *mut c_void,
                option_values: *mut *mut c_void
            ) -> HipError;
            drains runtime 316 fn hipModuleUnload(module: Module) -> HipError;
            observes runtime 442 fn hipGetProcAddress(
                symbol: *const c_char, pfn: *mut *mut c_void, hip_version: c_int, flags: u64,
                symbol_status: *mut c_void
            ) -> HipError;
            observes runtime 444 fn hipGetFuncBySymbol(
                function_ptr: *mut Function, symbol_ptr: *const c_void
            ) -> HipError;
            passes runtime 468 fn hipLinkAddData(..) -> HipError;
            passes runtime 469 fn hipLinkAddFile(..) -> HipError;
            passes runtime 470 fn hipLinkComplete(..) -> HipError;
            passes runtime 471 fn hipLinkCreate(..) -> HipError;
            passes runtime 472 fn hipLinkDestroy(..) -> HipError;
            passes runtime 477 fn hipModuleGetFunctionCount(..) -> HipError;
            observes runtime 486 fn hipModuleLoadFatBinary(
                module: *mut Module, fatbin: *const c_void
            ) -> HipError;
            observes runtime 491 fn hipGetDriverEntryPoint(
                symbol: *const c_char, func_ptr: *mut *mut c_void, flags: u64, status: *mut c_void
            ) -> HipError;
            observes runtime 492 fn hipGetDriverEntryPoint_spt(
                symbol: *const c_char, func_ptr: *mut *mut c_void, flags: u64, status: *mut c_void
            ) -> HipError;
            observes runtime 496 fn hipLibraryLoadData(
                library: *mut Library, code: *const c_void, jit_options: *mut c_void,
                jit_options_values: *mut *mut c_void, num_jit_options: c_uint, library_options: *mut c_void,
                library_option_values: *mut *mut c_void, num_library_options: c_uint
            ) -> HipError;
            observes runtime 497 fn hipLibraryLoadFromFile(
                library: *mut Library, file_name: *const c_char, jit_options: *mut c_void,
                jit_options_values: *mut *mut c_void, num_jit_options: c_uint, library_options: *mut c_void,
                library_option_values: *mut *mut c_void, num_library_options: c_uint
            ) -> HipError;
            drains runtime 498 fn hipLibraryUnload(library: Library) -> HipError;
            observes runtime 499 fn hipLibraryGetKernel(
                p_kernel: *mut Kernel, library: Library, name: *const c_char
            ) -> HipError;
            passes runtime 500 fn hipLibraryGetKernelCount(..) -> HipError;
            observes runtime 502 fn hipLibraryEnumerateKernels(
                kernels: *mut Kernel, num_kernels: c_uint, library: Library
            ) -> HipError;
            passes runtime 503 fn hipKernelGetLibrary(..) -> HipError;
            passes runtime 504 fn hipKernelGetName(..) -> HipError;
            observes runtime 506 fn hipGetProcAddress_spt(
                symbol: *const c_char, pfn: *mut *mut c_void, hip_version: c_int, flags: u64,
                symbol_status: *mut c_void
            ) -> HipError;
            passes runtime 507 fn hipKernelGetParamInfo(..) -> HipError;
            passes runtime 514 fn hipKernelGetAttribute(..) -> HipError;
            drains runtime 515 fn hipKernelSetAttribute(
                attrib: Enum, value: c_int, kernel: Kernel, dev: Device
            ) -> HipError;
            observes runtime 516 fn hipKernelGetFunction(p_func: *mut Function, kernel: Kernel) -> HipError;
        }

        // Allocation, pools, virtual memory, host memory, IPC, advice.
        memory {
            passes runtime 1 fn hipArray3DCreate(..) -> HipError;
            passes runtime 2 fn hipArray3DGetDescriptor(..) -> HipError;
            passes runtime 3 fn hipArrayCreate(..) -> HipError;
            drains runtime 4 fn hipArrayDestroy(array: Array) -> HipError;
            passes runtime 5 fn hipArrayGetDescriptor(..) -> HipError;
            passes runtime 44 fn hipDeviceGetDefaultMemPool(..) -> HipError;
            passes runtime 45 fn hipDeviceGetGraphMemAttribute(..) -> HipError;
            passes runtime 47 fn hipDeviceGetMemPool(..) -> HipError;
            drains runtime 54 fn hipDeviceGraphMemTrim(device: c_int) -> HipError;
            passes runtime 62 fn hipDeviceSetGraphMemAttribute(..) -> HipError;
            passes runtime 64 fn hipDeviceSetMemPool(..) -> HipError;
            passes runtime 75 fn hipDrvPointerGetAttributes(..) -> HipError;
            passes runtime 86 fn hipExtMallocWithFlags(..) -> HipError;
            drains runtime 90 fn hipFree(ptr: *mut c_void) -> HipError;
            drains runtime 91 fn hipFreeArray(array: Array) -> HipError;
            deferrable runtime 92 fn hipFreeAsync(dev_ptr: *mut c_void, stream: Stream) -> HipError;
            drains runtime 93 fn hipFreeHost(ptr: *mut c_void) -> HipError;
            drains runtime 94 fn hipFreeMipmappedArray(mipmapped_array: MipmappedArray) -> HipError;
            passes runtime 110 fn hipGetMipmappedArrayLevel(..) -> HipError;
            passes runtime 193 fn hipHostAlloc(..) -> HipError;
            drains runtime 194 fn hipHostFree(ptr: *mut c_void) -> HipError;
            passes runtime 195 fn hipHostGetDevicePointer(..) -> HipError;
            passes runtime 196 fn hipHostGetFlags(..) -> HipError;
            passes runtime 197 fn hipHostMalloc(..) -> HipError;
            passes runtime 198 fn hipHostRegister(..) -> HipError;
            drains runtime 199 fn hipHostUnregister(host_ptr: *mut c_void) -> HipError;
            drains runtime 203 fn hipIpcCloseMemHandle(dev_ptr: *mut c_void) -> HipError;
            passes runtime 205 fn hipIpcGetMemHandle(..) -> HipError;
            passes runtime 207 fn hipIpcOpenMemHandle(..) -> HipError;
            passes runtime 215 fn hipMalloc(..) -> HipError;
            passes runtime 216 fn hipMalloc3D(..) -> HipError;
            passes runtime 217 fn hipMalloc3DArray(..) -> HipError;
            passes runtime 218 fn hipMallocArray(..) -> HipError;
            drains runtime 219 fn hipMallocAsync(
                dev_ptr: *mut *mut c_void, size: usize, stream: Stream
            ) -> HipError;
            drains runtime 220 fn hipMallocFromPoolAsync(
                dev_ptr: *mut *mut c_void, size: usize, mem_pool: MemPool, stream: Stream
            ) -> HipError;
            passes runtime 221 fn hipMallocHost(..) -> HipError;
            passes runtime 222 fn hipMallocManaged(..) -> HipError;
            passes runtime 223 fn hipMallocMipmappedArray(..) -> HipError;
            passes runtime 224 fn hipMallocPitch(..) -> HipError;
            drains runtime 225 fn hipMemAddressFree(dev_ptr: *mut c_void, size: usize) -> HipError;
            passes runtime 226 fn hipMemAddressReserve(..) -> HipError;
            passes runtime 227 fn hipMemAdvise(..) -> HipError;
            passes runtime 228 fn hipMemAllocHost(..) -> HipError;
            passes runtime 229 fn hipMemAllocPitch(..) -> HipError;
            passes runtime 230 fn hipMemCreate(..) -> HipError;
            passes runtime 231 fn hipMemExportToShareableHandle(..) -> HipError;
            passes runtime 232 fn hipMemGetAccess(..) -> HipError;
            passes runtime 233 fn hipMemGetAddressRange(..) -> HipError;
            passes runtime 234 fn hipMemGetAllocationGranularity(..) -> HipError;
            passes runtime 235 fn hipMemGetAllocationPropertiesFromHandle(..) -> HipError;
            passes runtime 236 fn hipMemGetInfo(..) -> HipError;
            passes runtime 237 fn hipMemImportFromShareableHandle(..) -> HipError;
            passes runtime 238 fn hipMemMap(..) -> HipError;
            deferrable runtime 239 fn hipMemMapArrayAsync(
                map_info_list: *mut c_void, count: c_uint, stream: Stream
            ) -> HipError;
            passes runtime 240 fn hipMemPoolCreate(..) -> HipError;
            drains runtime 241 fn hipMemPoolDestroy(mem_pool: MemPool) -> HipError;
            passes runtime 242 fn hipMemPoolExportPointer(..) -> HipError;
            passes runtime 243 fn hipMemPoolExportToShareableHandle(..) -> HipError;
            passes runtime 244 fn hipMemPoolGetAccess(..) -> HipError;
            passes runtime 245 fn hipMemPoolGetAttribute(..) -> HipError;
            passes runtime 246 fn hipMemPoolImportFromShareableHandle(..) -> HipError;
            passes runtime 247 fn hipMemPoolImportPointer(..) -> HipError;
            passes runtime 248 fn hipMemPoolSetAccess(..) -> HipError;
            passes runtime 249 fn hipMemPoolSetAttribute(..) -> HipError;
            drains runtime 250 fn hipMemPoolTrimTo(mem_pool: MemPool, min_bytes_to_hold: usize) -> HipError;
            deferrable runtime 251 fn hipMemPrefetchAsync(
                dev_ptr: *const c_void, count: usize, device: c_int, stream: Stream
            ) -> HipError;
            passes runtime 252 fn hipMemPtrGetInfo(..) -> HipError;
            passes runtime 253 fn hipMemRangeGetAttribute(..) -> HipError;
            passes runtime 254 fn hipMemRangeGetAttributes(..) -> HipError;
            drains runtime 255 fn hipMemRelease(handle: Allocation) -> HipError;
            passes runtime 256 fn hipMemRetainAllocationHandle(..) -> HipError;
            drains runtime 257 fn hipMemSetAccess(
                ptr: *mut c_void, size: usize, desc: *const c_void, count: usize
            ) -> HipError;
            drains runtime 258 fn hipMemUnmap(ptr: *mut c_void, size: usize) -> HipError;
            passes runtime 300 fn hipMipmappedArrayCreate(..) -> HipError;
            drains runtime 301 fn hipMipmappedArrayDestroy(h_mipmapped_array: MipmappedArray) -> HipError;
            passes runtime 302 fn hipMipmappedArrayGetLevel(..) -> HipError;
            passes runtime 321 fn hipPointerGetAttribute(..) -> HipError;
            passes runtime 322 fn hipPointerGetAttributes(..) -> HipError;
            passes runtime 323 fn hipPointerSetAttribute(..) -> HipError;
            passes runtime 461 fn hipExtHostAlloc(..) -> HipError;
            passes runtime 476 fn hipMemGetHandleForAddressRange(..) -> HipError;
            deferrable runtime 493 fn hipMemPrefetchAsync_v2(
                dev_ptr: *const c_void, count: usize, location: MemLocation, flags: c_uint, stream: Stream
            ) -> HipError;
            passes runtime 494 fn hipMemAdvise_v2(..) -> HipError;
            passes runtime 511 fn hipMemSetMemPool(..) -> HipError;
            passes runtime 512 fn hipMemGetMemPool(..) -> HipError;
            passes runtime 513 fn hipMipmappedArrayGetMemoryRequirements(..) -> HipError;
        }

        // Textures, surfaces and their references.
        texture {
            passes runtime 6 fn hipArrayGetInfo(..) -> HipError;
            drains runtime 7 fn hipBindTexture(
                offset: *mut usize, tex: *const c_void, dev_ptr: *const c_void,
                desc: *const ChannelFormatDesc, size: usize
            ) -> HipError;
            drains runtime 8 fn hipBindTexture2D(
                offset: *mut usize, tex: *const c_void, dev_ptr: *const c_void,
                desc: *const ChannelFormatDesc, width: usize, height: usize, pitch: usize
            ) -> HipError;
            drains runtime 9 fn hipBindTextureToArray(
                tex: *const c_void, array: Array, desc: *const ChannelFormatDesc
            ) -> HipError;
            drains runtime 10 fn hipBindTextureToMipmappedArray(
                tex: *const c_void, mipmapped_array: MipmappedArray, desc: *const ChannelFormatDesc
            ) -> HipError;
            passes runtime 14 fn hipCreateSurfaceObject(..) -> HipError;
            passes runtime 15 fn hipCreateTextureObject(..) -> HipError;
            drains runtime 34 fn hipDestroySurfaceObject(surface_object: SurfaceObject) -> HipError;
            drains runtime 35 fn hipDestroyTextureObject(texture_object: TextureObject) -> HipError;
            passes runtime 101 fn hipGetChannelDesc(..) -> HipError;
            passes runtime 113 fn hipGetTextureAlignmentOffset(..) -> HipError;
            passes runtime 114 fn hipGetTextureObjectResourceDesc(..) -> HipError;
            passes runtime 115 fn hipGetTextureObjectResourceViewDesc(..) -> HipError;
            passes runtime 116 fn hipGetTextureObjectTextureDesc(..) -> HipError;
            passes runtime 117 fn hipGetTextureReference(..) -> HipError;
            passes runtime 353 fn hipTexObjectCreate(..) -> HipError;
            drains runtime 354 fn hipTexObjectDestroy(tex_object: TextureObject) -> HipError;
            passes runtime 355 fn hipTexObjectGetResourceDesc(..) -> HipError;
            passes runtime 356 fn hipTexObjectGetResourceViewDesc(..) -> HipError;
            passes runtime 357 fn hipTexObjectGetTextureDesc(..) -> HipError;
            passes runtime 358 fn hipTexRefGetAddress(..) -> HipError;
            passes runtime 359 fn hipTexRefGetAddressMode(..) -> HipError;
            passes runtime 360 fn hipTexRefGetFilterMode(..) -> HipError;
            passes runtime 361 fn hipTexRefGetFlags(..) -> HipError;
            passes runtime 362 fn hipTexRefGetFormat(..) -> HipError;
            passes runtime 363 fn hipTexRefGetMaxAnisotropy(..) -> HipError;
            passes runtime 364 fn hipTexRefGetMipMappedArray(..) -> HipError;
            passes runtime 365 fn hipTexRefGetMipmapFilterMode(..) -> HipError;
            passes runtime 366 fn hipTexRefGetMipmapLevelBias(..) -> HipError;
            passes runtime 367 fn hipTexRefGetMipmapLevelClamp(..) -> HipError;
            drains runtime 368 fn hipTexRefSetAddress(
                byte_offset: *mut usize, tex_ref: *mut c_void, dptr: DevicePtr, bytes: usize
            ) -> HipError;
            drains runtime 369 fn hipTexRefSetAddress2D(
                tex_ref: *mut c_void, desc: *const c_void, dptr: DevicePtr, pitch: usize
            ) -> HipError;
            drains runtime 370 fn hipTexRefSetAddressMode(
                tex_ref: *mut c_void, dim: c_int, am: Enum
            ) -> HipError;
            drains runtime 371 fn hipTexRefSetArray(
                tex: *mut c_void, array: Array, flags: c_uint
            ) -> HipError;
            drains runtime 372 fn hipTexRefSetBorderColor(
                tex_ref: *mut c_void, p_border_color: *mut f32
            ) -> HipError;
            drains runtime 373 fn hipTexRefSetFilterMode(tex_ref: *mut c_void, fm: Enum) -> HipError;
            drains runtime 374 fn hipTexRefSetFlags(tex_ref: *mut c_void, flags: c_uint) -> HipError;
            drains runtime 375 fn hipTexRefSetFormat(
                tex_ref: *mut c_void, fmt: Enum, num_packed_components: c_int
            ) -> HipError;
            drains runtime 376 fn hipTexRefSetMaxAnisotropy(
                tex_ref: *mut c_void, max_aniso: c_uint
            ) -> HipError;
            drains runtime 377 fn hipTexRefSetMipmapFilterMode(tex_ref: *mut c_void, fm: Enum) -> HipError;
            drains runtime 378 fn hipTexRefSetMipmapLevelBias(tex_ref: *mut c_void, bias: f32) -> HipError;
            drains runtime 379 fn hipTexRefSetMipmapLevelClamp(
                tex_ref: *mut c_void, min_mip_map_level_clamp: f32, max_mip_map_level_clamp: f32
            ) -> HipError;
            drains runtime 380 fn hipTexRefSetMipmappedArray(
                tex_ref: *mut c_void, mipmapped_array: *mut c_void, flags: c_uint
            ) -> HipError;
            drains runtime 382 fn hipUnbindTexture(tex: *const c_void) -> HipError;
            passes runtime 387 fn hipCreateChannelDesc(..) -> ChannelFormatDesc;
            passes runtime 440 fn hipTexRefGetBorderColor(..) -> HipError;
            passes runtime 441 fn hipTexRefGetArray(..) -> HipError;
        }

        // Memory and semaphores of other APIs.
        external {
            drains runtime 32 fn hipDestroyExternalMemory(ext_mem: ExternalMemory) -> HipError;
            drains runtime 33 fn hipDestroyExternalSemaphore(ext_sem: ExternalSemaphore) -> HipError;
            passes runtime 89 fn hipExternalMemoryGetMappedBuffer(..) -> HipError;
            passes runtime 100 fn hipGLGetDevices(..) -> HipError;
            passes runtime 186 fn hipGraphicsGLRegisterBuffer(..) -> HipError;
            passes runtime 187 fn hipGraphicsGLRegisterImage(..) -> HipError;
            drains runtime 188 fn hipGraphicsMapResources(
                count: c_int, resources: *mut GraphicsResource, stream: Stream
            ) -> HipError;
            passes runtime 189 fn hipGraphicsResourceGetMappedPointer(..) -> HipError;
            passes runtime 190 fn hipGraphicsSubResourceGetMappedArray(..) -> HipError;
            drains runtime 191 fn hipGraphicsUnmapResources(
                count: c_int, resources: *mut GraphicsResource, stream: Stream
            ) -> HipError;
            drains runtime 192 fn hipGraphicsUnregisterResource(resource: GraphicsResource) -> HipError;
            passes runtime 200 fn hipImportExternalMemory(..) -> HipError;
            passes runtime 201 fn hipImportExternalSemaphore(..) -> HipError;
            deferrable runtime 330 fn hipSignalExternalSemaphoresAsync(
                ext_sem_array: *const ExternalSemaphore, params_array: *const c_void, num_ext_sems: c_uint,
                stream: Stream
            ) -> HipError;
            deferrable runtime 386 fn hipWaitExternalSemaphoresAsync(
                ext_sem_array: *const ExternalSemaphore, params_array: *const c_void, num_ext_sems: c_uint,
                stream: Stream
            ) -> HipError;
            passes runtime 458 fn hipExternalMemoryGetMappedMipmappedArray(..) -> HipError;
        }

        // Devices, contexts, versions.
        device {
            passes runtime 11 fn hipChooseDevice(..) -> HipError;
            passes runtime 12 fn hipChooseDeviceR0000(..) -> HipError;
            observes runtime 16 fn hipCtxCreate(ctx: *mut Context, flags: c_uint, device: Device) -> HipError;
            drains runtime 17 fn hipCtxDestroy(ctx: Context) -> HipError;
            passes runtime 18 fn hipCtxDisablePeerAccess(..) -> HipError;
            passes runtime 19 fn hipCtxEnablePeerAccess(..) -> HipError;
            passes runtime 20 fn hipCtxGetApiVersion(..) -> HipError;
            passes runtime 21 fn hipCtxGetCacheConfig(..) -> HipError;
            passes runtime 22 fn hipCtxGetCurrent(..) -> HipError;
            passes runtime 23 fn hipCtxGetDevice(..) -> HipError;
            passes runtime 24 fn hipCtxGetFlags(..) -> HipError;
            passes runtime 25 fn hipCtxGetSharedMemConfig(..) -> HipError;
            passes runtime 26 fn hipCtxPopCurrent(..) -> HipError;
            observes runtime 27 fn hipCtxPushCurrent(ctx: Context) -> HipError;
            drains runtime 28 fn hipCtxSetCacheConfig(cache_config: Enum) -> HipError;
            observes runtime 29 fn hipCtxSetCurrent(ctx: Context) -> HipError;
            drains runtime 30 fn hipCtxSetSharedMemConfig(config: Enum) -> HipError;
            passes runtime 36 fn hipDeviceCanAccessPeer(..) -> HipError;
            passes runtime 37 fn hipDeviceComputeCapability(..) -> HipError;
            passes runtime 38 fn hipDeviceDisablePeerAccess(..) -> HipError;
            passes runtime 39 fn hipDeviceEnablePeerAccess(..) -> HipError;
            passes runtime 40 fn hipDeviceGet(..) -> HipError;
            passes runtime 41 fn hipDeviceGetAttribute(..) -> HipError;
            passes runtime 42 fn hipDeviceGetByPCIBusId(..) -> HipError;
            passes runtime 43 fn hipDeviceGetCacheConfig(..) -> HipError;
            passes runtime 46 fn hipDeviceGetLimit(..) -> HipError;
            passes runtime 48 fn hipDeviceGetName(..) -> HipError;
            passes runtime 49 fn hipDeviceGetP2PAttribute(..) -> HipError;
            passes runtime 50 fn hipDeviceGetPCIBusId(..) -> HipError;
            passes runtime 51 fn hipDeviceGetSharedMemConfig(..) -> HipError;
            passes runtime 52 fn hipDeviceGetStreamPriorityRange(..) -> HipError;
            passes runtime 53 fn hipDeviceGetUuid(..) -> HipError;
            passes runtime 55 fn hipDevicePrimaryCtxGetState(..) -> HipError;
            drains runtime 56 fn hipDevicePrimaryCtxRelease(dev: Device) -> HipError;
            drains runtime 57 fn hipDevicePrimaryCtxReset(dev: Device) -> HipError;
            passes runtime 58 fn hipDevicePrimaryCtxRetain(..) -> HipError;
            passes runtime 59 fn hipDevicePrimaryCtxSetFlags(..) -> HipError;
            drains runtime 60 fn hipDeviceReset() -> HipError;
            drains runtime 61 fn hipDeviceSetCacheConfig(cache_config: Enum) -> HipError;
            passes runtime 63 fn hipDeviceSetLimit(..) -> HipError;
            drains runtime 65 fn hipDeviceSetSharedMemConfig(config: Enum) -> HipError;
            passes runtime 67 fn hipDeviceTotalMem(..) -> HipError;
            passes runtime 68 fn hipDriverGetVersion(..) -> HipError;
            passes runtime 83 fn hipExtGetLinkTypeAndHopCount(..) -> HipError;
            passes runtime 102 fn hipGetDevice(..) -> HipError;
            passes runtime 103 fn hipGetDeviceCount(..) -> HipError;
            passes runtime 104 fn hipGetDeviceFlags(..) -> HipError;
            passes runtime 105 fn hipGetDevicePropertiesR0600(..) -> HipError;
            passes runtime 106 fn hipGetDevicePropertiesR0000(..) -> HipError;
            passes runtime 202 fn hipInit(..) -> HipError;
            passes runtime 326 fn hipRuntimeGetVersion(..) -> HipError;
            observes runtime 327 fn hipSetDevice(device_id: c_int) -> HipError;
            passes runtime 328 fn hipSetDeviceFlags(..) -> HipError;
            passes runtime 383 fn hipUserObjectCreate(..) -> HipError;
            passes runtime 384 fn hipUserObjectRelease(..) -> HipError;
            passes runtime 385 fn hipUserObjectRetain(..) -> HipError;
            passes runtime 445 fn hipSetValidDevices(..) -> HipError;
            passes runtime 462 fn hipDeviceGetTexture1DLinearMaxWidth(..) -> HipError;
        }

        // Occupancy queries.
        occupancy {
            passes runtime 312 fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(..) -> HipError;
            passes runtime 313 fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(..) -> HipError;
            passes runtime 314 fn hipModuleOccupancyMaxPotentialBlockSize(..) -> HipError;
            passes runtime 315 fn hipModuleOccupancyMaxPotentialBlockSizeWithFlags(..) -> HipError;
            passes runtime 317 fn hipOccupancyMaxActiveBlocksPerMultiprocessor(..) -> HipError;
            passes runtime 318 fn hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(..) -> HipError;
            passes runtime 319 fn hipOccupancyMaxPotentialBlockSize(..) -> HipError;
            passes runtime 505 fn hipOccupancyAvailableDynamicSMemPerBlock(..) -> HipError;
        }

        // Errors and names.
        error {
            passes runtime 0 fn hipApiName(..) -> *const c_char;
            passes runtime 69 fn hipDrvGetErrorName(..) -> HipError;
            passes runtime 70 fn hipDrvGetErrorString(..) -> HipError;
            passes runtime 107 fn hipGetErrorName(..) -> *const c_char;
            passes runtime 108 fn hipGetErrorString(..) -> *const c_char;
            passes runtime 109 fn hipGetLastError(..) -> HipError;
            passes runtime 320 fn hipPeekAtLastError(..) -> HipError;
            passes runtime 439 fn hipExtGetLastError(..) -> HipError;
        }

        // Profiler and log switches.
        profiling {
            passes runtime 324 fn hipProfilerStart(..) -> HipError;
            passes runtime 325 fn hipProfilerStop(..) -> HipError;
            passes runtime 508 fn hipExtDisableLogging(..) -> HipError;
            passes runtime 509 fn hipExtEnableLogging(..) -> HipError;
            passes runtime 510 fn hipExtSetLoggingParams(..) -> HipError;
        }
    }};
}
pub(crate) use for_each_function;

macro_rules! define_table {
    ($($family:ident {
        $($class:ident $table:ident $($index:literal)? fn $name:ident($(..)? $($arg:ident: $ty:ty),*) -> $ret:ty;)*
    })*) => {
        /// One function of the list. Its number indexes [`TABLE`] and every array with an entry per function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        #[expect(non_camel_case_types, clippy::enum_variant_names, reason = "these are HIP's names")]
        pub(crate) enum Id {
            $($($name,)*)*
        }

        /// Every function of the list, in its order.
        pub(crate) static TABLE: [ApiFunction; COUNT] = [$($(
            ApiFunction::new::<unsafe extern "C" fn($($arg: $ty),*) -> $ret>(
                Id::$name,
                concat!(stringify!($name), "\0"),
                Family::$family,
                Class::$class,
                Slot::$table($($index)?),
            ),
        )*)*];

        /// Every function's slot in the tables.
        const SLOTS: [Slot; COUNT] = [$($(Slot::$table($($index)?),)*)*];

        /// How many functions the list has.
        pub(crate) const COUNT: usize = [$($(Id::$name,)*)*].len();
    };
}
for_each_function!(define_table);

/// How many entries the tables have that the list knows, `"hip_compiler"` first. A newer runtime has more.
pub(crate) const KNOWN_ENTRIES: [usize; 2] = {
    let mut known = [0; 2];
    let mut id = 0;
    while id < COUNT {
        match SLOTS[id] {
            Slot::compiler(entry) if entry >= known[0] => known[0] = entry + 1,
            Slot::runtime(entry) if entry >= known[1] => known[1] = entry + 1,
            _ => {}
        }
        id += 1;
    }
    known
};

/// The function called `name`.
pub(crate) fn find(name: &CStr) -> Option<usize> {
    TABLE.iter().position(|function| function.name == name)
}

#[cfg(test)]
mod tests;
