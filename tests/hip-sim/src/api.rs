//! The dispatch tables: every HIP function, implemented or counted as unsupported.
//!
//! Layout of the genuine tables: a `size_t` size in bytes, then one pointer for each function, in an order
//! that only grows. A library reports the size of its release, even though the table has entries beyond that.

use core::mem::size_of;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

mod unsupported;

use crate::{
    array, capture, context, copy, device, event, fat_binary, function, graph, host_function, launch,
    library, memory, module, occupancy, peer, pointer, proc_address, set, stream, stream_value, symbol,
    version,
};

include!(concat!(env!("OUT_DIR"), "/entries.rs"));

/// Number of the table in generated code.
pub(crate) const COMPILER: usize = 0;
/// See [`COMPILER`].
pub(crate) const RUNTIME: usize = 1;

/// A dispatch table. Entries are atomic because a tool may replace them while calls run.
#[repr(C)]
pub(crate) struct DispatchTable<const N: usize> {
    size: AtomicUsize,
    entries: [AtomicPtr<()>; N],
}

impl<const N: usize> DispatchTable<N> {
    const fn new(functions: &[*const (); N]) -> Self {
        let mut entries = [const { AtomicPtr::new(core::ptr::null_mut()) }; N];
        let mut index = 0;
        while index < N {
            entries[index] = AtomicPtr::new(functions[index].cast_mut());
            index += 1;
        }
        Self { size: AtomicUsize::new(size_of::<Self>()), entries }
    }

    /// Reduces the reported size to a release's functions: up to the first that is newer.
    fn cut_to(&self, release: i32, releases: &[i32; N]) {
        let len = releases.iter().position(|first| *first > release).unwrap_or(N);
        let size = size_of::<usize>() + len * size_of::<AtomicPtr<()>>();
        self.size.store(size, Ordering::Relaxed);
    }
}

/// Makes both tables report the sizes that they have in a release that passes them to a tool.
pub(crate) fn cut_tables_to(release: i32) {
    COMPILER_TABLE.cut_to(release, &COMPILER_RELEASES);
    RUNTIME_TABLE.cut_to(release, &RUNTIME_RELEASES);
}

/// `__hip*` functions.
pub(crate) static COMPILER_TABLE: DispatchTable<{ COMPILER_NAMES.len() }> =
    DispatchTable::new(&IMPLEMENTED.compiler);
/// `hip*` functions.
pub(crate) static RUNTIME_TABLE: DispatchTable<{ RUNTIME_NAMES.len() }> =
    DispatchTable::new(&IMPLEMENTED.runtime);

/// Initial contents of both tables.
struct Functions {
    compiler: [*const (); COMPILER_NAMES.len()],
    runtime: [*const (); RUNTIME_NAMES.len()],
}

/// Puts implementations over the fallbacks. A function whose type differs from the list's does not compile.
macro_rules! implement {
    ($($name:ident => $function:path,)*) => {
        const IMPLEMENTED: Functions = {
            let mut functions = Functions { compiler: COMPILER_FALLBACKS, runtime: RUNTIME_FALLBACKS };
            $({
                let function: signature!($name) = $function;
                match position!($name) {
                    (COMPILER, index) => functions.compiler[index] = function as *const (),
                    (_, index) => functions.runtime[index] = function as *const (),
                }
            })*
            functions
        };
    };
}

implement! {
    __hipPopCallConfiguration => launch::pop_call_configuration,
    __hipPushCallConfiguration => launch::push_call_configuration,
    __hipRegisterFatBinary => fat_binary::register,
    __hipRegisterFunction => fat_binary::register_function,
    __hipRegisterManagedVar => fat_binary::register_managed_variable,
    __hipRegisterVar => fat_binary::register_variable,
    __hipUnregisterFatBinary => fat_binary::unregister,

    hipInit => device::init,
    hipGetDeviceCount => device::count,
    hipGetDevice => device::current,
    hipSetDevice => device::set_current,
    hipGetDeviceFlags => device::flags,
    hipSetDeviceFlags => device::set_flags,
    hipDeviceGet => device::get,
    hipDeviceGetName => device::name,
    hipDeviceGetPCIBusId => device::pci_bus_id,
    hipDeviceGetByPCIBusId => device::by_pci_bus_id,
    hipDeviceTotalMem => device::total_memory,
    hipDeviceComputeCapability => device::compute_capability,
    hipDeviceGetAttribute => device::attribute,
    hipGetDevicePropertiesR0600 => device::properties,
    hipGetDevicePropertiesR0000 => device::properties_before_6,
    hipDeviceSynchronize => device::synchronize,
    hipDeviceGetStreamPriorityRange => device::stream_priority_range,
    hipDeviceCanAccessPeer => peer::can_access,
    hipDeviceEnablePeerAccess => peer::enable,
    hipDeviceDisablePeerAccess => peer::disable,
    hipDeviceGetP2PAttribute => peer::attribute,
    hipExtGetLinkTypeAndHopCount => peer::link,

    hipGetLastError => crate::error::last,
    hipExtGetLastError => crate::error::last,
    hipPeekAtLastError => crate::error::peek,
    hipGetErrorName => crate::error::name,
    hipGetErrorString => crate::error::string,
    hipDrvGetErrorName => crate::error::driver_name,
    hipDrvGetErrorString => crate::error::driver_string,

    hipRuntimeGetVersion => version::runtime,
    hipDriverGetVersion => version::driver,
    hipGetProcAddress => proc_address::get,
    hipGetProcAddress_spt => proc_address::get_spt,
    hipGetDriverEntryPoint => proc_address::entry_point,
    hipGetDriverEntryPoint_spt => proc_address::entry_point_spt,
    hipCreateChannelDesc => memory::channel_format,

    hipMalloc => memory::malloc,
    hipExtMallocWithFlags => memory::malloc_with_flags,
    hipFree => memory::free,
    hipMallocAsync => memory::malloc_async,
    hipFreeAsync => memory::free_async,
    hipMallocManaged => memory::malloc_managed,
    hipHostMalloc => memory::host_malloc,
    hipHostAlloc => memory::host_malloc,
    hipExtHostAlloc => memory::host_malloc,
    hipMallocHost => memory::host_malloc_default,
    hipMemAllocHost => memory::host_malloc_default,
    hipHostFree => memory::host_free,
    hipFreeHost => memory::host_free,
    hipHostRegister => memory::host_register,
    hipHostUnregister => memory::host_unregister,
    hipHostGetDevicePointer => memory::host_device_pointer,
    hipHostGetFlags => memory::host_flags,
    hipMemGetInfo => memory::info,
    hipMemGetAddressRange => memory::address_range,
    hipMemPtrGetInfo => memory::pointer_size,
    hipPointerGetAttributes => memory::pointer_attributes,

    hipMemcpy => copy::memcpy,
    hipMemcpy_spt => copy::memcpy_spt,
    hipMemcpyAsync => copy::memcpy_async,
    hipMemcpyAsync_spt => copy::memcpy_async_spt,
    hipMemcpyWithStream => copy::memcpy_with_stream,
    hipMemcpyHtoD => copy::host_to_device,
    hipMemcpyHtoDAsync => copy::host_to_device_async,
    hipMemcpyDtoH => copy::device_to_host,
    hipMemcpyDtoHAsync => copy::device_to_host_async,
    hipMemcpyDtoD => copy::device_to_device,
    hipMemcpyDtoDAsync => copy::device_to_device_async,

    hipMemset => set::memset,
    hipMemset_spt => set::memset_spt,
    hipMemsetAsync => set::memset_async,
    hipMemsetAsync_spt => set::memset_async_spt,
    hipMemsetD8 => set::memset_d8,
    hipMemsetD8Async => set::memset_d8_async,
    hipMemsetD16 => set::memset_d16,
    hipMemsetD16Async => set::memset_d16_async,
    hipMemsetD32 => set::memset_d32,
    hipMemsetD32Async => set::memset_d32_async,

    hipStreamCreate => stream::create,
    hipStreamCreateWithFlags => stream::create_with_flags,
    hipStreamCreateWithPriority => stream::create_with_priority,
    hipStreamDestroy => stream::destroy,
    hipStreamQuery => stream::query,
    hipStreamQuery_spt => stream::query_spt,
    hipStreamSynchronize => stream::synchronize,
    hipStreamSynchronize_spt => stream::synchronize_spt,
    hipStreamGetFlags => stream::flags,
    hipStreamGetFlags_spt => stream::flags_spt,
    hipStreamGetPriority => stream::priority,
    hipStreamGetPriority_spt => stream::priority_spt,
    hipStreamGetDevice => stream::device,
    hipGetStreamDeviceId => stream::device_id,
    hipStreamWaitEvent => stream::wait_event,
    hipStreamWaitEvent_spt => stream::wait_event_spt,

    hipEventCreate => event::create,
    hipEventCreateWithFlags => event::create_with_flags,
    hipEventDestroy => event::destroy,
    hipEventRecord => event::record,
    hipEventRecord_spt => event::record_spt,
    hipEventQuery => event::query,
    hipEventSynchronize => event::synchronize,
    hipEventElapsedTime => event::elapsed_time,

    hipModuleLoad => module::load,
    hipModuleLoadData => module::load_data,
    hipModuleLoadDataEx => module::load_data_ex,
    hipModuleLoadFatBinary => module::load_data,
    hipModuleUnload => module::unload,
    hipModuleGetFunction => module::function,
    hipModuleGetFunctionCount => module::function_count,
    hipModuleGetGlobal => module::global,

    hipFuncGetAttribute => function::attribute,
    hipFuncGetAttributes => function::attributes,
    hipFuncSetAttribute => function::set_attribute,
    hipFuncSetCacheConfig => function::set_cache_config,
    hipFuncSetSharedMemConfig => function::set_bank_size,
    hipKernelGetAttribute => function::kernel_attribute,
    hipKernelSetAttribute => function::set_kernel_attribute,
    hipKernelGetParamInfo => function::parameter,

    hipLibraryLoadData => library::load_data,
    hipLibraryLoadFromFile => library::load_file,
    hipLibraryUnload => library::unload,
    hipLibraryGetKernel => library::kernel,
    hipLibraryGetKernelCount => library::kernel_count,
    hipLibraryEnumerateKernels => library::kernels,
    hipKernelGetLibrary => library::of_kernel,
    hipKernelGetName => library::name_of_kernel,
    hipKernelGetFunction => library::function_of_kernel,

    hipGetSymbolAddress => symbol::address,
    hipGetSymbolSize => symbol::size,
    hipMemcpyToSymbol => symbol::copy_to,
    hipMemcpyFromSymbol => symbol::copy_from,

    hipLaunchKernel => launch::kernel,
    hipLaunchKernel_spt => launch::kernel_spt,
    hipExtLaunchKernel => launch::kernel_with_events,
    hipLaunchKernelExC => launch::kernel_by_config,
    hipLaunchCooperativeKernel => launch::cooperative,
    hipLaunchCooperativeKernel_spt => launch::cooperative_spt,
    hipModuleLaunchKernel => launch::function,
    hipModuleLaunchCooperativeKernel => launch::cooperative_function,
    hipExtModuleLaunchKernel => launch::function_with_events,
    hipHccModuleLaunchKernel => launch::function_with_events_hcc,
    hipGetFuncBySymbol => launch::function_of_symbol,
    hipKernelNameRef => launch::function_name,
    hipKernelNameRefByPtr => launch::function_name_by_symbol,

    hipLaunchHostFunc => host_function::launch,
    hipLaunchHostFunc_spt => host_function::launch_spt,
    hipStreamAddCallback => host_function::add_callback,
    hipStreamAddCallback_spt => host_function::add_callback_spt,

    hipArrayCreate => array::create,
    hipArray3DCreate => array::create_3d,
    hipArrayDestroy => array::free,
    hipArrayGetDescriptor => array::descriptor,
    hipArray3DGetDescriptor => array::descriptor_3d,
    hipArrayGetInfo => array::info,
    hipFreeArray => array::free,
    hipGetChannelDesc => array::channels,
    hipMallocArray => array::malloc,
    hipMalloc3DArray => array::malloc_3d,

    hipMemcpy2D => copy::memcpy_2d,
    hipMemcpy2D_spt => copy::memcpy_2d_spt,
    hipMemcpy2DAsync => copy::memcpy_2d_async,
    hipMemcpy2DAsync_spt => copy::memcpy_2d_async_spt,
    hipMemcpy3D => copy::memcpy_3d,
    hipMemcpy3D_spt => copy::memcpy_3d_spt,
    hipMemcpy3DAsync => copy::memcpy_3d_async,
    hipMemcpy3DAsync_spt => copy::memcpy_3d_async_spt,
    hipDrvMemcpy3D => copy::driver_3d,
    hipDrvMemcpy3DAsync => copy::driver_3d_async,
    hipMemcpyParam2D => copy::param_2d,
    hipMemcpyParam2DAsync => copy::param_2d_async,
    hipDrvMemcpy2DUnaligned => copy::param_2d,
    hipMemcpy3DPeer => copy::peer_3d,
    hipMemcpy3DPeerAsync => copy::peer_3d_async,
    hipMemcpyPeer => copy::peer,
    hipMemcpyPeerAsync => copy::peer_async,
    hipMemcpyBatchAsync => copy::batch_async,
    hipMemcpy3DBatchAsync => copy::batch_3d_async,
    hipMemcpy2DToArray => copy::to_array_2d,
    hipMemcpy2DToArray_spt => copy::to_array_2d_spt,
    hipMemcpy2DToArrayAsync => copy::to_array_2d_async,
    hipMemcpy2DToArrayAsync_spt => copy::to_array_2d_async_spt,
    hipMemcpy2DFromArray => copy::from_array_2d,
    hipMemcpy2DFromArray_spt => copy::from_array_2d_spt,
    hipMemcpy2DFromArrayAsync => copy::from_array_2d_async,
    hipMemcpy2DFromArrayAsync_spt => copy::from_array_2d_async_spt,
    hipMemcpy2DArrayToArray => copy::array_to_array_2d,
    hipMemcpyToArray => copy::to_array,
    hipMemcpyFromArray => copy::from_array,
    hipMemcpyFromArray_spt => copy::from_array_spt,
    hipMemcpyHtoA => copy::host_to_array,
    hipMemcpyHtoAAsync => copy::host_to_array_async,
    hipMemcpyAtoH => copy::array_to_host,
    hipMemcpyAtoHAsync => copy::array_to_host_async,
    hipMemcpyAtoD => copy::array_to_device,
    hipMemcpyDtoA => copy::device_to_array,
    hipMemcpyAtoA => copy::array_to_array,

    hipMemset2D => set::memset_2d,
    hipMemset2D_spt => set::memset_2d_spt,
    hipMemset2DAsync => set::memset_2d_async,
    hipMemset2DAsync_spt => set::memset_2d_async_spt,
    hipMemset3D => set::memset_3d,
    hipMemset3D_spt => set::memset_3d_spt,
    hipMemset3DAsync => set::memset_3d_async,
    hipMemset3DAsync_spt => set::memset_3d_async_spt,
    hipMemsetD2D8 => set::memset_d2_d8,
    hipMemsetD2D8Async => set::memset_d2_d8_async,
    hipMemsetD2D16 => set::memset_d2_d16,
    hipMemsetD2D16Async => set::memset_d2_d16_async,
    hipMemsetD2D32 => set::memset_d2_d32,
    hipMemsetD2D32Async => set::memset_d2_d32_async,

    hipStreamWaitValue32 => stream_value::wait_32,
    hipStreamWaitValue64 => stream_value::wait_64,
    hipStreamWriteValue32 => stream_value::write_32,
    hipStreamWriteValue64 => stream_value::write_64,
    hipStreamBatchMemOp => stream_value::batch,

    hipEventRecordWithFlags => event::record_with_flags,

    hipStreamBeginCapture => capture::begin,
    hipStreamBeginCapture_spt => capture::begin_spt,
    hipStreamBeginCaptureToGraph => capture::begin_to_graph,
    hipStreamEndCapture => capture::end,
    hipStreamEndCapture_spt => capture::end_spt,
    hipStreamIsCapturing => capture::is_capturing,
    hipStreamIsCapturing_spt => capture::is_capturing_spt,
    hipStreamGetCaptureInfo => capture::info,
    hipStreamGetCaptureInfo_spt => capture::info_spt,
    hipStreamGetCaptureInfo_v2 => capture::info_v2,
    hipStreamGetCaptureInfo_v2_spt => capture::info_v2_spt,
    hipStreamUpdateCaptureDependencies => capture::update_dependencies,
    hipThreadExchangeStreamCaptureMode => capture::exchange_mode,

    hipGraphCreate => graph::create,
    hipGraphDestroy => graph::destroy,
    hipGraphClone => graph::clone,
    hipGraphNodeFindInClone => graph::find_in_clone,
    hipGraphDestroyNode => graph::destroy_node,
    hipGraphAddDependencies => graph::add_dependencies,
    hipGraphRemoveDependencies => graph::remove_dependencies,
    hipGraphGetNodes => graph::nodes,
    hipGraphGetRootNodes => graph::roots,
    hipGraphGetEdges => graph::edges,
    hipGraphNodeGetDependencies => graph::dependencies,
    hipGraphNodeGetDependentNodes => graph::dependents,
    hipGraphNodeGetType => graph::node_type,
    hipGraphChildGraphNodeGetGraph => graph::child_graph,
    hipGraphDebugDotPrint => graph::debug_dot_print,

    hipGraphAddNode => graph::add_node,
    hipGraphAddEmptyNode => graph::add_empty,
    hipGraphAddKernelNode => graph::add_kernel,
    hipGraphAddMemcpyNode => graph::add_memcpy,
    hipGraphAddMemcpyNode1D => graph::add_memcpy_1d,
    hipGraphAddMemcpyNodeToSymbol => graph::add_memcpy_to_symbol,
    hipGraphAddMemcpyNodeFromSymbol => graph::add_memcpy_from_symbol,
    hipGraphAddMemsetNode => graph::add_memset,
    hipGraphAddHostNode => graph::add_host,
    hipGraphAddEventRecordNode => graph::add_event_record,
    hipGraphAddEventWaitNode => graph::add_event_wait,
    hipGraphAddChildGraphNode => graph::add_child,
    hipGraphAddMemAllocNode => graph::add_mem_alloc,
    hipGraphAddMemFreeNode => graph::add_mem_free,
    hipGraphAddBatchMemOpNode => graph::add_batch,
    hipDrvGraphAddMemcpyNode => graph::add_memcpy_driver,
    hipDrvGraphAddMemsetNode => graph::add_memset_driver,
    hipDrvGraphAddMemFreeNode => graph::add_mem_free_driver,

    hipGraphKernelNodeGetParams => graph::get_kernel,
    hipGraphMemcpyNodeGetParams => graph::get_memcpy,
    hipGraphMemsetNodeGetParams => graph::get_memset,
    hipGraphHostNodeGetParams => graph::get_host,
    hipGraphEventRecordNodeGetEvent => graph::get_event_record,
    hipGraphEventWaitNodeGetEvent => graph::get_event_wait,
    hipGraphMemAllocNodeGetParams => graph::get_mem_alloc,
    hipGraphMemFreeNodeGetParams => graph::get_mem_free,
    hipDrvGraphMemcpyNodeGetParams => graph::get_driver_memcpy,
    hipGraphKernelNodeGetAttribute => graph::get_attribute,
    hipGraphKernelNodeSetAttribute => graph::set_attribute,
    hipGraphKernelNodeCopyAttributes => graph::copy_attributes,

    hipGraphNodeSetParams => graph::set_any,
    hipGraphKernelNodeSetParams => graph::set_kernel,
    hipGraphMemcpyNodeSetParams => graph::set_memcpy,
    hipGraphMemcpyNodeSetParams1D => graph::set_memcpy_1d,
    hipGraphMemcpyNodeSetParamsToSymbol => graph::set_memcpy_to_symbol,
    hipGraphMemcpyNodeSetParamsFromSymbol => graph::set_memcpy_from_symbol,
    hipGraphMemsetNodeSetParams => graph::set_memset,
    hipGraphHostNodeSetParams => graph::set_host,
    hipGraphEventRecordNodeSetEvent => graph::set_event_record,
    hipGraphEventWaitNodeSetEvent => graph::set_event_wait,
    hipDrvGraphMemcpyNodeSetParams => graph::set_driver_memcpy,

    hipGraphInstantiate => graph::instantiate,
    hipGraphInstantiateWithFlags => graph::instantiate_with_flags,
    hipGraphInstantiateWithParams => graph::instantiate_with_params,
    hipGraphUpload => graph::upload,
    hipGraphLaunch => graph::launch,
    hipGraphLaunch_spt => graph::launch_spt,
    hipGraphExecDestroy => graph::exec_destroy,
    hipGraphExecGetFlags => graph::exec_flags,
    hipGraphExecUpdate => graph::update,
    hipGraphNodeSetEnabled => graph::set_enabled,
    hipGraphNodeGetEnabled => graph::is_enabled,
    hipGraphExecNodeSetParams => graph::set_exec_any,
    hipGraphExecKernelNodeSetParams => graph::set_exec_kernel,
    hipGraphExecMemcpyNodeSetParams => graph::set_exec_memcpy,
    hipGraphExecMemcpyNodeSetParams1D => graph::set_exec_memcpy_1d,
    hipGraphExecMemcpyNodeSetParamsToSymbol => graph::set_exec_memcpy_to_symbol,
    hipGraphExecMemcpyNodeSetParamsFromSymbol => graph::set_exec_memcpy_from_symbol,
    hipGraphExecMemsetNodeSetParams => graph::set_exec_memset,
    hipGraphExecHostNodeSetParams => graph::set_exec_host,
    hipGraphExecEventRecordNodeSetEvent => graph::set_exec_event_record,
    hipGraphExecEventWaitNodeSetEvent => graph::set_exec_event_wait,
    hipGraphExecChildGraphNodeSetParams => graph::set_exec_child,
    hipDrvGraphExecMemcpyNodeSetParams => graph::set_exec_driver_memcpy,
    hipDrvGraphExecMemsetNodeSetParams => graph::set_exec_driver_memset,

    hipUserObjectCreate => graph::create_user_object,
    hipUserObjectRetain => graph::retain_user_object,
    hipUserObjectRelease => graph::release_user_object,
    hipGraphRetainUserObject => graph::retain_user_object_by_graph,
    hipGraphReleaseUserObject => graph::release_user_object_from_graph,

    hipCtxCreate => context::create,
    hipCtxDestroy => context::destroy,
    hipCtxPushCurrent => context::push,
    hipCtxPopCurrent => context::pop,
    hipCtxSetCurrent => context::set_current,
    hipCtxGetCurrent => context::current,
    hipCtxGetDevice => device::current,
    hipCtxGetFlags => context::flags,
    hipCtxSynchronize => device::synchronize,
    hipCtxEnablePeerAccess => context::enable_peer,
    hipCtxDisablePeerAccess => context::disable_peer,
    hipCtxSetCacheConfig => context::set_cache_config,
    hipCtxGetCacheConfig => context::cache_config,
    hipCtxSetSharedMemConfig => context::set_bank_size,
    hipCtxGetSharedMemConfig => context::bank_size,
    hipDeviceSetCacheConfig => context::set_cache_config,
    hipDeviceGetCacheConfig => context::cache_config,
    hipDeviceSetSharedMemConfig => context::set_bank_size,
    hipDeviceGetSharedMemConfig => context::bank_size,
    hipDevicePrimaryCtxRetain => context::retain_primary,
    hipDevicePrimaryCtxRelease => context::release_primary,
    hipDevicePrimaryCtxReset => context::release_primary,
    hipDevicePrimaryCtxSetFlags => context::set_primary_flags,
    hipDevicePrimaryCtxGetState => context::primary_state,

    hipDeviceReset => device::reset,
    hipDeviceGetUuid => device::uuid,
    hipDeviceGetLimit => device::limit,
    hipDeviceSetLimit => device::set_limit,
    hipChooseDevice => device::choose,
    hipChooseDeviceR0000 => device::choose_before_6,
    hipProfilerStart => device::profiler,
    hipProfilerStop => device::profiler,

    hipMallocPitch => memory::malloc_pitch,
    hipMemAllocPitch => memory::malloc_pitch_driver,
    hipMalloc3D => memory::malloc_3d,
    hipMemPrefetchAsync => memory::prefetch,
    hipMemPrefetchAsync_v2 => memory::prefetch_v2,
    hipMemAdvise => memory::advise,
    hipMemAdvise_v2 => memory::advise_v2,
    hipMemRangeGetAttribute => memory::range_attribute,
    hipMemRangeGetAttributes => memory::range_attributes,
    hipStreamAttachMemAsync => memory::attach,

    hipDeviceGetDefaultMemPool => memory::device_default_pool,
    hipDeviceGetMemPool => memory::device_pool,
    hipDeviceSetMemPool => memory::set_device_pool,
    hipMemPoolCreate => memory::pool_create,
    hipMemPoolDestroy => memory::pool_destroy,
    hipMemPoolTrimTo => memory::pool_trim,
    hipMemPoolGetAttribute => memory::pool_attribute,
    hipMemPoolSetAttribute => memory::set_pool_attribute,
    hipMemPoolGetAccess => memory::pool_access,
    hipMemPoolSetAccess => memory::set_pool_access,
    hipMallocFromPoolAsync => memory::malloc_from_pool,

    hipPointerGetAttribute => pointer::attribute,
    hipDrvPointerGetAttributes => pointer::attributes,
    hipPointerSetAttribute => pointer::set,

    hipMemcpyToSymbol_spt => symbol::copy_to_spt,
    hipMemcpyFromSymbol_spt => symbol::copy_from_spt,
    hipMemcpyToSymbolAsync => symbol::copy_to_async,
    hipMemcpyFromSymbolAsync => symbol::copy_from_async,
    hipMemcpyToSymbolAsync_spt => symbol::copy_to_async_spt,
    hipMemcpyFromSymbolAsync_spt => symbol::copy_from_async_spt,

    hipExtStreamCreateWithCUMask => stream::create_with_mask,
    hipExtStreamGetCUMask => stream::mask,
    hipStreamGetId => stream::id,
    hipStreamGetAttribute => stream::attribute,
    hipStreamSetAttribute => stream::set_attribute,
    hipStreamCopyAttributes => stream::copy_attributes,

    hipConfigureCall => launch::configure_call,
    hipSetupArgument => launch::setup_argument,
    hipLaunchByPtr => launch::by_pointer,
    hipDrvLaunchKernelEx => launch::by_driver_config,
    hipExtLaunchMultiKernelMultiDevice => launch::on_devices,
    hipLaunchCooperativeKernelMultiDevice => launch::cooperative_on_devices,
    hipModuleLaunchCooperativeKernelMultiDevice => launch::cooperative_functions_on_devices,

    hipOccupancyMaxActiveBlocksPerMultiprocessor => occupancy::max_blocks,
    hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags => occupancy::max_blocks_with_flags,
    hipOccupancyMaxPotentialBlockSize => occupancy::best_block,
    hipOccupancyAvailableDynamicSMemPerBlock => occupancy::available_lds,
    hipModuleOccupancyMaxActiveBlocksPerMultiprocessor => occupancy::max_blocks_of_function,
    hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags => occupancy::max_blocks_of_function_with_flags,
    hipModuleOccupancyMaxPotentialBlockSize => occupancy::best_block_of_function,
    hipModuleOccupancyMaxPotentialBlockSizeWithFlags => occupancy::best_block_of_function_with_flags,
}

/// Replaces a runtime function in the table, as a tool does, and returns the previous one.
#[cfg(test)]
pub(crate) fn replace_entry(name: &str, function: *const ()) -> *const () {
    let index = RUNTIME_NAMES.iter().position(|known| *known == name).expect("listed");
    RUNTIME_TABLE.entries[index].swap(function.cast_mut(), Ordering::AcqRel).cast_const()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_fallback(index: usize) -> bool {
        core::ptr::eq(RUNTIME_TABLE.entries[index].load(Ordering::Relaxed), RUNTIME_FALLBACKS[index])
    }

    #[test]
    fn table_sizes_match_the_claimed_release() {
        let runtime = DispatchTable::new(&IMPLEMENTED.runtime);
        let size_in = |release| {
            runtime.cut_to(release, &RUNTIME_RELEASES);
            runtime.size.load(Ordering::Relaxed)
        };
        assert_eq!(size_in(60_500_000), 8 + 8 * 477);
        assert_eq!(size_in(70_200_000), 8 + 8 * 517);
        assert_eq!(COMPILER_TABLE.size.load(Ordering::Relaxed), 8 + 8 * 9);
    }

    /// Names in the README's section of refused functions; a star at the end stands for a family.
    fn refused() -> Vec<&'static str> {
        let readme = include_str!("../README.md");
        let section = readme.split("## Refused functions").nth(1).expect("the section is there");
        let section = section.split("\n## ").next().expect("a split has a first part");
        section.split('`').skip(1).step_by(2).filter(|name| name.contains("hip")).collect()
    }

    #[test]
    fn the_readme_lists_exactly_what_is_refused() {
        let listed = refused();
        let is_listed = |name: &str| {
            listed.iter().any(|entry| match entry.strip_suffix('*') {
                Some(family) => name.starts_with(family),
                None => name == *entry,
            })
        };
        let fallbacks = |index: &usize| is_fallback(*index);
        let refused: Vec<_> = (0..RUNTIME_NAMES.len()).filter(fallbacks).map(|i| RUNTIME_NAMES[i]).collect();
        let unlisted: Vec<_> = refused.iter().filter(|name| !is_listed(name)).collect();
        assert!(unlisted.is_empty(), "refused and not listed: {unlisted:?}");
        let done = (0..RUNTIME_NAMES.len()).filter(|i| !is_fallback(*i)).map(|i| RUNTIME_NAMES[i]);
        let wrongly: Vec<_> = done.filter(|name| is_listed(name)).collect();
        assert!(wrongly.is_empty(), "listed and not refused: {wrongly:?}");
    }

    #[test]
    fn implemented_functions_are_reached_and_the_rest_fall_back() {
        let index = |name| RUNTIME_NAMES.iter().position(|n| *n == name).expect("listed");
        assert!(!is_fallback(index("hipLaunchKernel")));
        assert!(is_fallback(index("hipBindTexture")));
    }
}
