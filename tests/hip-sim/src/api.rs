//! The dispatch tables: every HIP function, implemented or counted as unsupported.
//!
//! Shape of the genuine tables: `size_t` size in bytes, then one pointer a function, in an order that only grows. A
//! library says the size that its release has, whatever lies behind.

use core::mem::size_of;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

mod unsupported;

use crate::{
    copy, device, event, fat_binary, function, host_function, launch, library, memory, module, proc_address,
    set, stream, symbol, version,
};

include!(concat!(env!("OUT_DIR"), "/entries.rs"));

pub(crate) use unsupported::counts as unsupported_counts;

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

    /// Says as many entries as a release has: up to the first function that is younger.
    fn cut_to(&self, release: i32, releases: &[i32; N]) {
        let len = releases.iter().position(|first| *first > release).unwrap_or(N);
        let size = size_of::<usize>() + len * size_of::<AtomicPtr<()>>();
        self.size.store(size, Ordering::Relaxed);
    }
}

/// Makes both tables say the sizes that they have in a release that hands them out.
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

/// Both tables' initial contents.
struct Functions {
    compiler: [*const (); COMPILER_NAMES.len()],
    runtime: [*const (); RUNTIME_NAMES.len()],
}

/// Puts implementations over the fallbacks; a function whose type differs from the list's does not compile.
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
    hipDeviceCanAccessPeer => device::can_access_peer,

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
    hipModuleUnload => module::unload,
    hipModuleGetFunction => module::function,
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
}

/// Does what a tool does: puts another function in the place of a runtime function; returns the one before.
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
    fn tables_say_the_size_that_their_release_has() {
        let runtime = DispatchTable::new(&IMPLEMENTED.runtime);
        let size_in = |release| {
            runtime.cut_to(release, &RUNTIME_RELEASES);
            runtime.size.load(Ordering::Relaxed)
        };
        assert_eq!(size_in(60_500_000), 8 + 8 * 477);
        assert_eq!(size_in(70_200_000), 8 + 8 * 517);
        assert_eq!(COMPILER_TABLE.size.load(Ordering::Relaxed), 8 + 8 * 9);
    }

    #[test]
    fn what_is_implemented_is_reached_and_the_rest_falls_back() {
        let index = |name| RUNTIME_NAMES.iter().position(|n| *n == name).expect("listed");
        assert!(!is_fallback(index("hipLaunchKernel")));
        assert!(is_fallback(index("hipGraphLaunch")));
    }
}
