//! The structures of `ze_api.h` that the driver reads or writes, with its names and layouts in Rust's style.
//!
//! Structures that are extended start with their type and the address of the next one.

use std::ffi::{c_char, c_void};

macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident = $bytes:literal { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Debug, Clone, Copy)]
            pub(crate) struct $name {
                $(pub(crate) $field: $type,)*
            }

            const _: () = assert!(size_of::<$name>() == $bytes);
        )*
    };
}

structures! {
    /// The start of every structure that is extended.
    Header = 16 { kind: u32, next: *mut c_void }
    /// `ze_driver_properties_t`
    DriverProperties = 40 { header: Header, uuid: [u8; 16], version: u32 }
    /// `ze_driver_extension_properties_t`
    ExtensionProperties = 260 { name: [u8; 256], version: u32 }
    /// `ze_device_properties_t`
    DeviceProperties = 368 {
        header: Header, kind: u32, vendor: u32, device: u32, flags: u32, subdevice: u32, clock: u32,
        max_allocation: u64, max_contexts: u32, max_priority: u32, threads_per_unit: u32, simd_width: u32,
        units_per_subslice: u32, subslices_per_slice: u32, slices: u32, timer_resolution: u64, timestamp_bits: u32,
        kernel_timestamp_bits: u32, uuid: [u8; 16], name: [u8; 256],
    }
    /// An extension with one number: `ze_device_ip_version_ext_t`, `ze_eu_count_ext_t`,
    /// `ze_kernel_preferred_group_size_properties_t`, `ze_kernel_max_group_size_properties_ext_t`, and the descriptions
    /// of contexts and modules.
    Number = 24 { header: Header, value: u32 }
    /// `ze_device_compute_properties_t`
    ComputeProperties = 88 {
        header: Header, max_group: u32, max_group_size: [u32; 3], max_group_count: [u32; 3], max_local_memory: u32,
        subgroup_sizes: u32, subgroup_size: [u32; 8],
    }
    /// `ze_device_module_properties_t`
    DeviceModuleProperties = 64 {
        header: Header, spirv_version: u32, flags: u32, half_flags: u32, single_flags: u32, double_flags: u32,
        max_arguments: u32, printf_buffer: u32, native_kernels: [u8; 16],
    }
    /// `ze_command_queue_group_properties_t`
    QueueGroupProperties = 40 { header: Header, flags: u32, max_fill_pattern: usize, queues: u32 }
    /// `ze_device_memory_properties_t`
    MemoryProperties = 296 {
        header: Header, flags: u32, max_clock: u32, max_bus_width: u32, bytes: u64, name: [u8; 256],
    }
    /// `ze_device_memory_ext_properties_t`
    MemoryExtension = 48 {
        header: Header, kind: u32, bytes: u64, read_bandwidth: u32, write_bandwidth: u32, unit: u32,
    }
    /// `ze_device_memory_access_properties_t`
    MemoryAccess = 40 {
        header: Header, host: u32, device: u32, shared: u32, shared_by_devices: u32, shared_with_system: u32,
    }
    /// `ze_device_cache_properties_t`
    CacheProperties = 32 { header: Header, flags: u32, bytes: usize }
    /// `ze_device_image_properties_t`
    ImageProperties = 56 {
        header: Header, max_extent: [u32; 3], max_buffer: u64, max_slices: u32, max_samplers: u32, max_read: u32,
        max_write: u32,
    }
    /// `ze_pci_ext_properties_t`
    PciProperties = 48 {
        header: Header, domain: u32, bus: u32, device: u32, function: u32, generation: i32, width: i32, bandwidth: i64,
    }
    /// `ze_command_queue_desc_t`
    QueueDescription = 40 { header: Header, ordinal: u32, index: u32, flags: u32, mode: u32, priority: u32 }
    /// `ze_command_list_desc_t`
    ListDescription = 24 { header: Header, ordinal: u32, flags: u32 }
    /// `ze_event_pool_desc_t`
    PoolDescription = 24 { header: Header, flags: u32, count: u32 }
    /// `ze_event_desc_t`
    EventDescription = 32 { header: Header, index: u32, signal: u32, wait: u32 }
    /// `ze_kernel_timestamp_result_t`
    Timestamps = 32 { global: [u64; 2], context: [u64; 2] }
    /// `ze_memory_allocation_properties_t`
    AllocationProperties = 40 { header: Header, kind: u32, id: u64, page: u64 }
    /// `ze_ipc_mem_handle_t`
    IpcHandle = 64 { bytes: [u8; 64] }
    /// `ze_module_desc_t`
    ModuleDescription = 56 {
        header: Header, format: u32, bytes: usize, module: *const u8, flags: *const c_char, constants: *const c_void,
    }
    /// `ze_kernel_desc_t`
    KernelDescription = 32 { header: Header, flags: u32, name: *const c_char }
    /// `ze_kernel_properties_t`
    KernelProperties = 96 {
        header: Header, arguments: u32, required_group: [u32; 3], required_subgroups: u32, required_subgroup_size: u32,
        max_subgroup_size: u32, max_subgroups: u32, local_memory: u32, private_memory: u32, spilled_memory: u32,
        uuid: [u8; 32],
    }
    /// `ze_group_count_t` and `ze_group_size_t`
    Extent = 12 { x: u32, y: u32, z: u32 }
    /// `ze_copy_region_t`
    Region = 24 { x: u32, y: u32, z: u32, width: u32, height: u32, depth: u32 }
    /// `zel_component_version_t`
    Component = 80 { name: [u8; 64], interface: u32, version: [i32; 3] }
}

/// The types of structures that the driver looks for.
pub(crate) mod kind {
    pub(crate) const KERNEL_PREFERRED_GROUP: u32 = 0x21;
    pub(crate) const EU_COUNT: u32 = 0x1_0005;
    pub(crate) const MEMORY_EXTENSION: u32 = 0x1_000e;
    pub(crate) const IP_VERSION: u32 = 0x1_000f;
    pub(crate) const KERNEL_MAX_GROUP: u32 = 0x1_0013;
    pub(crate) const DEVICE_PROPERTIES_IN_HERTZ: u32 = 0x2_0006;
    pub(crate) const COUNTER_POOL: u32 = 0x2_0014;
}

/// The structures that follow a structure in its chain.
///
/// # Safety
/// The chain is one of structures that are alive.
pub(crate) unsafe fn extensions(header: Header) -> impl Iterator<Item = *mut Header> {
    let first = header.next.cast::<Header>();
    std::iter::successors((!first.is_null()).then_some(first), |at| {
        // SAFETY: the caller's promise; the address is not null.
        let next = unsafe { (**at).next }.cast::<Header>();
        (!next.is_null()).then_some(next)
    })
}

/// A text in an array of bytes, with zeros behind it.
pub(crate) fn text<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let length = text.len().min(N - 1);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}
