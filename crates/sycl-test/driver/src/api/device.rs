//! The driver, the device and contexts.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use super::event::{CounterDescription, zexCounterBasedEventCreate2};
use super::loader::INTERFACE;
use super::{functions, give, give_list, taken};
use crate::memory::PAGE;
use crate::module::MAX_GROUP;
use crate::objects::{CONTEXTS, DEVICE, DRIVER, Handle, device, driver};
use crate::opencl::runtime;
use crate::settings::settings;
use crate::status::{INVALID_ARGUMENT, INVALID_NULL_POINTER, Status, UNSUPPORTED_FEATURE};
use crate::structures::{
    CacheProperties, ComputeProperties, DeviceModuleProperties, DeviceProperties, DriverProperties,
    ExtensionProperties, Header, ImageProperties, MemoryAccess, MemoryExtension, MemoryProperties, Number,
    PciProperties, QueueGroupProperties, extensions, kind, text,
};
use crate::work::event::now;

/// A GPU.
const GPU: u32 = 1;
const INTEL: u32 = 0x8086;
/// A Data Center GPU Max, which DPC++ gives immediate command lists, and its architecture: 12.60.7.
const PONTE_VECCHIO: u32 = 0x0bd5;
const IP_VERSION: u32 = 12 << 22 | 60 << 14 | 7;

const MEMORY_BYTES: u64 = 4 << 30;
/// Made-up processors: slices, subslices of each, units of each and threads of each.
const SLICES: u32 = 1;
const SUBSLICES: u32 = 4;
const UNITS: u32 = 8;
const THREADS: u32 = 8;

/// What queues of a group can do, and their number: one group computes and copies, another one copies.
const QUEUE_GROUPS: [(u32, u32); 2] = [(COMPUTE | COPY | COOPERATIVE, 4), (COPY, 1)];
const COMPUTE: u32 = 1;
const COPY: u32 = 2;
const COOPERATIVE: u32 = 4;

/// Reading and writing, atomic accesses, and those at once from several sides.
const ALL_ACCESSES: u32 = 0xf;

/// Extensions, with their versions.
const EXTENSIONS: [(&str, u32); 4] = [
    ("ZE_experimental_global_offset", 1 << 16),
    ("ZE_experimental_event_pool_counter_based", 1 << 16),
    ("ZE_experimental_immediate_command_list_append", 1 << 16),
    ("ZE_extension_eu_count", 1 << 16),
];

functions! {
    zeInit(_flags: u32) { Ok(()) }

    zeInitDrivers(count: *mut u32, drivers: *mut Handle, _description: *mut c_void) {
        give_list(count, drivers, &[DRIVER], |place, handle| place.write(ptr::without_provenance_mut(handle)))
    }

    zeDriverGet(count: *mut u32, drivers: *mut Handle) {
        give_list(count, drivers, &[DRIVER], |place, handle| place.write(ptr::without_provenance_mut(handle)))
    }

    zeDriverGetApiVersion(handle: Handle, version: *mut u32) {
        driver(handle)?;
        give(version, INTERFACE)
    }

    zeDriverGetProperties(handle: Handle, properties: *mut DriverProperties) {
        driver(handle)?;
        let header = taken(properties)?.header;
        give(properties, DriverProperties { header, uuid: *b"haloport driver\0", version: settings().version })
    }

    zeDriverGetExtensionProperties(handle: Handle, count: *mut u32, properties: *mut ExtensionProperties) {
        driver(handle)?;
        give_list(count, properties, &EXTENSIONS, |place, (name, version)| {
            place.write(ExtensionProperties { name: text(name), version });
        })
    }

    zeDriverGetExtensionFunctionAddress(handle: Handle, name: *const c_char, address: *mut *mut c_void) {
        driver(handle)?;
        if name.is_null() {
            return Err(INVALID_NULL_POINTER);
        }
        let create: unsafe extern "C" fn(Handle, Handle, *const CounterDescription, *mut Handle) -> Status =
            zexCounterBasedEventCreate2;
        match CStr::from_ptr(name).to_bytes() {
            b"zexCounterBasedEventCreate2" => give(address, create as *mut c_void),
            _ => {
                give(address, ptr::null_mut())?;
                Err(INVALID_ARGUMENT)
            }
        }
    }

    zeDeviceGet(handle: Handle, count: *mut u32, devices: *mut Handle) {
        driver(handle)?;
        give_list(count, devices, &[DEVICE], |place, handle| place.write(ptr::without_provenance_mut(handle)))
    }

    zeDeviceGetRootDevice(handle: Handle, root: *mut Handle) {
        device(handle)?;
        give(root, ptr::null_mut())
    }

    zeDeviceGetSubDevices(handle: Handle, count: *mut u32, _devices: *mut Handle) {
        device(handle)?;
        give(count, 0)
    }

    zeDeviceGetProperties(handle: Handle, properties: *mut DeviceProperties) {
        device(handle)?;
        let header = taken(properties)?.header;
        for extension in extensions(header) {
            match (*extension).kind {
                kind::IP_VERSION => (*extension.cast::<Number>()).value = IP_VERSION,
                kind::EU_COUNT => (*extension.cast::<Number>()).value = SLICES * SUBSLICES * UNITS,
                _ => {}
            }
        }
        give(properties, device_properties(header))
    }

    zeDeviceGetComputeProperties(handle: Handle, properties: *mut ComputeProperties) {
        device(handle)?;
        give(properties, ComputeProperties {
            header: taken(properties)?.header,
            max_group: MAX_GROUP,
            max_group_size: [MAX_GROUP; 3],
            max_group_count: [u32::MAX; 3],
            max_local_memory: 64 << 10,
            subgroup_sizes: 2,
            subgroup_size: [16, 32, 0, 0, 0, 0, 0, 0],
        })
    }

    zeDeviceGetModuleProperties(handle: Handle, properties: *mut DeviceModuleProperties) {
        device(handle)?;
        // All but software's floating point.
        let (exact, half, double) = (0x7f, runtime()?.half_precision, settings().doubles);
        give(properties, DeviceModuleProperties {
            header: taken(properties)?.header,
            spirv_version: 1 << 16 | 2 << 8,
            // Half precision, double precision and atomic accesses of 64 bits.
            flags: u32::from(half) | u32::from(double) << 1 | 4,
            half_flags: if half { exact } else { 0 },
            single_flags: exact,
            double_flags: if double { exact } else { 0 },
            max_arguments: 2048,
            printf_buffer: 1 << 20,
            native_kernels: [0; 16],
        })
    }

    zeDeviceGetCommandQueueGroupProperties(handle: Handle, count: *mut u32, properties: *mut QueueGroupProperties) {
        device(handle)?;
        give_list(count, properties, &QUEUE_GROUPS, |place, (flags, queues)| {
            let header = (*place).header;
            place.write(QueueGroupProperties { header, flags, max_fill_pattern: 1 << 16, queues });
        })
    }

    zeDeviceGetMemoryProperties(handle: Handle, count: *mut u32, properties: *mut MemoryProperties) {
        device(handle)?;
        give_list(count, properties, &[MEMORY_BYTES], |place, bytes| {
            let header = (*place).header;
            for extension in extensions(header) {
                if (*extension).kind == kind::MEMORY_EXTENSION {
                    let header = *extension;
                    // DDR, and nothing is known of its speed.
                    extension.cast::<MemoryExtension>().write(MemoryExtension {
                        header, kind: 2, bytes, read_bandwidth: 0, write_bandwidth: 0, unit: 0,
                    });
                }
            }
            place.write(MemoryProperties {
                header, flags: 0, max_clock: 1000, max_bus_width: 64, bytes, name: text("memory of the host"),
            });
        })
    }

    zeDeviceGetMemoryAccessProperties(handle: Handle, properties: *mut MemoryAccess) {
        device(handle)?;
        give(properties, MemoryAccess {
            header: taken(properties)?.header,
            host: ALL_ACCESSES,
            device: ALL_ACCESSES,
            shared: ALL_ACCESSES,
            shared_by_devices: 0,
            shared_with_system: 0,
        })
    }

    zeDeviceGetCacheProperties(handle: Handle, count: *mut u32, properties: *mut CacheProperties) {
        device(handle)?;
        give_list(count, properties, &[1_usize << 20], |place, bytes| {
            let header = (*place).header;
            place.write(CacheProperties { header, flags: 0, bytes });
        })
    }

    zeDeviceGetImageProperties(handle: Handle, properties: *mut ImageProperties) {
        device(handle)?;
        give(properties, ImageProperties {
            header: taken(properties)?.header,
            max_extent: [0; 3],
            max_buffer: 0,
            max_slices: 0,
            max_samplers: 0,
            max_read: 0,
            max_write: 0,
        })
    }

    zeDevicePciGetPropertiesExt(handle: Handle, properties: *mut PciProperties) {
        device(handle)?;
        give(properties, PciProperties {
            header: taken(properties)?.header,
            domain: 0, bus: 3, device: 0, function: 0, generation: 4, width: 16, bandwidth: 32 << 30,
        })
    }

    zeDeviceGetGlobalTimestamps(handle: Handle, host: *mut u64, of_device: *mut u64) {
        device(handle)?;
        let time = now();
        give(host, time)?;
        give(of_device, time)
    }

    zeDeviceCanAccessPeer(handle: Handle, peer: Handle, value: *mut u8) {
        device(handle)?;
        device(peer)?;
        give(value, 1)
    }

    zeDeviceGetStatus(handle: Handle) { device(handle) }

    zeDeviceSynchronize(_handle: Handle) { Err(UNSUPPORTED_FEATURE) }

    zeContextCreate(handle: Handle, _description: *const c_void, context: *mut Handle) {
        driver(handle)?;
        give(context, CONTEXTS.insert(()))
    }

    zeContextCreateEx(
        handle: Handle, _description: *const c_void, _count: u32, _devices: *mut Handle, context: *mut Handle,
    ) {
        driver(handle)?;
        give(context, CONTEXTS.insert(()))
    }

    zeContextDestroy(context: Handle) { CONTEXTS.remove(context).map(drop) }

    zeContextGetStatus(context: Handle) { CONTEXTS.get(context).map(drop) }

    zeVirtualMemQueryPageSize(_context: Handle, handle: Handle, _bytes: usize, page: *mut usize) {
        device(handle)?;
        give(page, PAGE)
    }
}

fn device_properties(header: Header) -> DeviceProperties {
    DeviceProperties {
        header,
        kind: GPU,
        vendor: INTEL,
        device: PONTE_VECCHIO,
        flags: 0,
        subdevice: 0,
        clock: 1000,
        max_allocation: MEMORY_BYTES,
        max_contexts: 1024,
        max_priority: 2,
        threads_per_unit: THREADS,
        simd_width: 16,
        units_per_subslice: UNITS,
        subslices_per_slice: SUBSLICES,
        slices: SLICES,
        // A nanosecond, or that number of times in a second.
        timer_resolution: if header.kind == kind::DEVICE_PROPERTIES_IN_HERTZ { 1_000_000_000 } else { 1 },
        timestamp_bits: 56,
        kernel_timestamp_bits: 56,
        uuid: *b"haloport device\0",
        name: text("Haloport's GPU for tests"),
    }
}
