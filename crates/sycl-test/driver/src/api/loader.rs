//! What programs ask of the loader: the static one in DPC++'s adapters opens this library, and looks for each function by
//! its name.

use std::ffi::c_void;

use super::{functions, give, taken};
use crate::objects::Handle;
use crate::status::{SUCCESS, Status};
use crate::structures::{Component, text};

/// The version of the interface: 1.13.
pub(super) const INTERFACE: u32 = 1 << 16 | 13;

const LOADER: Component = Component { name: [0; 64], interface: INTERFACE, version: [1, 26, 0] };

functions! {
    zeLoaderInit() { Ok(()) }

    zelLoaderGetVersion(version: *mut Component) {
        give(version, Component { name: text("loader"), ..LOADER })
    }

    zelLoaderGetVersionsInternal(count: *mut usize, versions: *mut Component) {
        if !versions.is_null() && taken(count)? > 0 {
            give(versions, Component { name: text("loader"), ..LOADER })?;
        }
        give(count, 1)
    }

    zelLoaderTranslateHandleInternal(_kind: u32, handle: Handle, translated: *mut Handle) {
        give(translated, handle)
    }
}

/// There are no layers.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zeLoaderGetTracingHandle() -> *mut c_void {
    std::ptr::null_mut()
}

/// Declares functions that fill tables of functions. They write nothing: the loader looks for each function by its name, too.
macro_rules! tables {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(_version: u32, _table: *mut c_void) -> Status {
                SUCCESS
            }
        )*
    };
}

tables! {
    zeGetCommandListExpProcAddrTable zeGetCommandListProcAddrTable zeGetCommandQueueProcAddrTable
    zeGetContextProcAddrTable zeGetDeviceExpProcAddrTable zeGetDeviceProcAddrTable zeGetDriverExpProcAddrTable
    zeGetDriverProcAddrTable zeGetEventExpProcAddrTable zeGetEventPoolProcAddrTable zeGetEventProcAddrTable
    zeGetFenceProcAddrTable zeGetGlobalProcAddrTable zeGetImageExpProcAddrTable zeGetImageProcAddrTable
    zeGetKernelExpProcAddrTable zeGetKernelProcAddrTable zeGetMemExpProcAddrTable zeGetMemProcAddrTable
    zeGetModuleBuildLogProcAddrTable zeGetModuleProcAddrTable zeGetPhysicalMemProcAddrTable
    zeGetSamplerProcAddrTable zeGetVirtualMemProcAddrTable zelGetTracerApiProcAddrTable
    zesGetDeviceProcAddrTable zesGetDiagnosticsProcAddrTable zesGetDriverProcAddrTable zesGetEngineProcAddrTable
    zesGetFabricPortProcAddrTable zesGetFanProcAddrTable zesGetFirmwareProcAddrTable zesGetFrequencyProcAddrTable
    zesGetGlobalProcAddrTable zesGetLedProcAddrTable zesGetMemoryProcAddrTable
    zesGetPerformanceFactorProcAddrTable zesGetPowerProcAddrTable zesGetPsuProcAddrTable zesGetRasProcAddrTable
    zesGetSchedulerProcAddrTable zesGetStandbyProcAddrTable zesGetTemperatureProcAddrTable
    zetGetCommandListProcAddrTable zetGetContextProcAddrTable zetGetDebugProcAddrTable zetGetDeviceProcAddrTable
    zetGetKernelProcAddrTable zetGetMetricGroupProcAddrTable zetGetMetricProcAddrTable
    zetGetMetricQueryPoolProcAddrTable zetGetMetricQueryProcAddrTable zetGetMetricStreamerProcAddrTable
    zetGetModuleProcAddrTable zetGetTracerExpProcAddrTable
}
