//! Modules and kernels.

use std::ffi::{CStr, c_char, c_void};

use super::{functions, give, give_list, taken};
use crate::module::Module;
use crate::objects::{CONTEXTS, Handle, KERNELS, LOGS, MODULES, device};
use crate::status::{
    INVALID_ARGUMENT, INVALID_NULL_POINTER, INVALID_SIZE, SUCCESS, Status, UNSUPPORTED_FEATURE,
};
use crate::structures::{KernelDescription, KernelProperties, ModuleDescription, Number, extensions, kind};

functions! {
    zeModuleCreate(
        context: Handle, handle: Handle, description: *const ModuleDescription, module: *mut Handle,
        log: *mut Handle,
    ) {
        CONTEXTS.get(context)?;
        device(handle)?;
        let description = taken(description)?;
        if description.module.is_null() {
            return Err(INVALID_NULL_POINTER);
        }
        let bytes = std::slice::from_raw_parts(description.module, description.bytes);
        let (status, text) = match Module::new(bytes) {
            Ok(made) => {
                give(module, MODULES.insert(made))?;
                (SUCCESS, String::new())
            }
            Err(error) => error,
        };
        if !log.is_null() {
            give(log, LOGS.insert(text))?;
        }
        if status == SUCCESS { Ok(()) } else { Err(status) }
    }

    zeModuleDestroy(module: Handle) { MODULES.remove(module).map(drop) }

    zeModuleBuildLogDestroy(log: Handle) { LOGS.remove(log).map(drop) }

    zeModuleBuildLogGetString(log: Handle, bytes: *mut usize, text: *mut c_char) {
        give_text(&LOGS.get(log)?, bytes, text)
    }

    zeModuleGetKernelNames(module: Handle, count: *mut u32, names: *mut *const c_char) {
        let module = MODULES.get(module)?;
        give_list(count, names, &module.names(), |place, name| place.write(name))
    }

    zeModuleGetNativeBinary(module: Handle, bytes: *mut usize, binary: *mut u8) {
        let module = MODULES.get(module)?;
        if !binary.is_null() {
            let room = taken(bytes)?;
            if room < module.spirv.len() {
                return Err(INVALID_SIZE);
            }
            binary.copy_from_nonoverlapping(module.spirv.as_ptr(), module.spirv.len());
        }
        give(bytes, module.spirv.len())
    }

    zeModuleGetProperties(module: Handle, properties: *mut Number) {
        MODULES.get(module)?;
        // It imports nothing.
        let header = taken(properties)?.header;
        give(properties, Number { header, value: 0 })
    }

    zeModuleDynamicLink(_count: u32, _modules: *const Handle, log: *mut Handle) {
        if !log.is_null() {
            give(log, LOGS.insert(String::new()))?;
        }
        Ok(())
    }

    zeModuleGetGlobalPointer(_module: Handle, _name: *const c_char, _bytes: *mut usize, _memory: *mut *mut c_void) {
        Err(UNSUPPORTED_FEATURE)
    }

    zeModuleGetFunctionPointer(_module: Handle, _name: *const c_char, _function: *mut *mut c_void) {
        Err(UNSUPPORTED_FEATURE)
    }

    zeKernelCreate(module: Handle, description: *const KernelDescription, kernel: *mut Handle) {
        let (module, name) = (MODULES.get(module)?, taken(description)?.name);
        if name.is_null() {
            return Err(INVALID_NULL_POINTER);
        }
        let name = CStr::from_ptr(name).to_str().map_err(|_| INVALID_ARGUMENT)?;
        give(kernel, KERNELS.insert(module.kernel(name)?))
    }

    zeKernelDestroy(kernel: Handle) { KERNELS.remove(kernel).map(drop) }

    zeKernelSetArgumentValue(kernel: Handle, number: u32, bytes: usize, value: *const c_void) {
        let value = (!value.is_null()).then(|| std::slice::from_raw_parts(value.cast::<u8>(), bytes));
        KERNELS.get(kernel)?.set(number as usize, bytes, value)
    }

    zeKernelSetGroupSize(kernel: Handle, x: u32, y: u32, z: u32) { KERNELS.get(kernel)?.set_group([x, y, z]) }

    zeKernelSuggestGroupSize(
        kernel: Handle, x: u32, y: u32, z: u32, group_x: *mut u32, group_y: *mut u32, group_z: *mut u32,
    ) {
        KERNELS.get(kernel)?;
        let mut left = 256;
        for (threads, group) in [(x, group_x), (y, group_y), (z, group_z)] {
            let side = (1..=left.min(threads)).rev().find(|side| threads.is_multiple_of(*side)).unwrap_or(1);
            left /= side;
            give(group, side)?;
        }
        Ok(())
    }

    zeKernelSuggestMaxCooperativeGroupCount(kernel: Handle, groups: *mut u32) {
        KERNELS.get(kernel)?;
        give(groups, 1)
    }

    zeKernelSetGlobalOffsetExp(kernel: Handle, x: u32, y: u32, z: u32) {
        KERNELS.get(kernel)?.set_offset([x, y, z]);
        Ok(())
    }

    zeKernelSetIndirectAccess(kernel: Handle, kinds: u32) {
        KERNELS.get(kernel)?.set_indirect(kinds);
        Ok(())
    }

    zeKernelGetIndirectAccess(kernel: Handle, kinds: *mut u32) { give(kinds, KERNELS.get(kernel)?.indirect()) }

    zeKernelSetCacheConfig(kernel: Handle, _flags: u32) { KERNELS.get(kernel).map(drop) }

    zeKernelGetName(kernel: Handle, bytes: *mut usize, name: *mut c_char) {
        give_text(&KERNELS.get(kernel)?.name, bytes, name)
    }

    zeKernelGetSourceAttributes(kernel: Handle, bytes: *mut u32, text: *mut *mut c_char) {
        KERNELS.get(kernel)?;
        if !text.is_null() && taken(bytes)? > 0 {
            // The memory is the caller's.
            give(taken(text)?, 0)?;
        }
        give(bytes, 1)
    }

    zeKernelGetProperties(kernel: Handle, properties: *mut KernelProperties) {
        let kernel = KERNELS.get(kernel)?;
        let header = taken(properties)?.header;
        for extension in extensions(header) {
            match (*extension).kind {
                kind::KERNEL_PREFERRED_GROUP => (*extension.cast::<Number>()).value = 16,
                kind::KERNEL_MAX_GROUP => (*extension.cast::<Number>()).value = kernel.max_group(),
                _ => {}
            }
        }
        give(properties, KernelProperties {
            header,
            arguments: kernel.parameters.len() as u32,
            required_group: [0; 3],
            required_subgroups: 0,
            required_subgroup_size: 0,
            max_subgroup_size: 32,
            max_subgroups: 64,
            local_memory: kernel.local_memory(),
            private_memory: 0,
            spilled_memory: 0,
            uuid: [0; 32],
        })
    }
}

/// Gives a text with a 0 behind it, or its size.
///
/// # Safety
/// `bytes` points to a number, and `place` is null or has that many bytes.
unsafe fn give_text(text: &str, bytes: *mut usize, place: *mut c_char) -> Result<(), Status> {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        let room = unsafe { taken(bytes)? };
        if room <= text.len() {
            return Err(INVALID_SIZE);
        }
        // SAFETY: the same; the text and the 0 have room.
        unsafe {
            place.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
            place.add(text.len()).write(0);
        }
    }
    // SAFETY: the same.
    unsafe { give(bytes, text.len() + 1) }
}
