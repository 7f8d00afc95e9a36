//! Programs in the portable dialect: compiled once per process and loaded once per device.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use haloport_core::device::{DeviceError, KernelCache, KernelKey, KernelParts, dialect};

use crate::driver::device_context::DeviceContext;
use crate::program::compiler::{Compiler, Request, compiler};
use crate::program::loaded::Program;

/// The portable programs that a device has loaded, by their source.
#[derive(Debug, Default)]
pub(crate) struct Programs(Mutex<HashMap<&'static str, Arc<Program>>>);

impl Programs {
    /// Returns the program of a source in the portable dialect. It is loaded once for all handles of the device, and
    /// compiled only if the kernel cache of the process does not have it.
    pub(crate) fn portable(
        &self,
        device: &DeviceContext,
        name: &str,
        source: &'static str,
    ) -> Result<Arc<Program>, DeviceError> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = known().get(source) {
            return Ok(Arc::clone(program));
        }
        // Without the lock: several threads may build at once, and the first program stays.
        let program = Arc::new(cached(KernelCache::of_process(), device, name, &dialect::cuda(source))?);
        Ok(Arc::clone(known().entry(source).or_insert(program)))
    }
}

/// Loads a program in CUDA C++ from the cache, or compiles it. If the driver refuses the cached image, the cache drops
/// it and the text is compiled again.
fn cached(
    cache: &KernelCache,
    device: &DeviceContext,
    name: &str,
    text: &str,
) -> Result<Program, DeviceError> {
    let driver_version = device.context.driver.version;
    let compiler = compiler(driver_version / 1000)?;
    let request = Request { name, text, capability: device.capability, device: device.id() };
    let key = key(compiler, &request)?;
    // Another thread may meanwhile have stored the refused image again, so try more than once, but not for ever.
    for _ in 0..2 {
        let mut compiled = false;
        let image = cache.get_or_compile(&key, || {
            compiled = true;
            compiler.compile(&request)
        })?;
        let from = if compiled { "compiled from source" } else { "taken from the kernel cache" };
        match Program::load(&device.context, name, Arc::clone(&image)) {
            Ok(program) => {
                tracing::debug!(kernel = name, device = %device.id(), "{from}");
                return Ok(program);
            }
            Err(error @ DeviceError::Compile { .. }) => {
                cache.forget(&key, &image);
                // A new image would be refused again.
                if compiled {
                    return Err(with_reason(error, compiler.mismatch(driver_version)));
                }
                tracing::debug!(kernel = name, %error, "the driver refuses a kernel of the cache");
            }
            Err(error) => return Err(error),
        }
    }
    Program::load(&device.context, name, compiler.compile(&request)?.into())
        .map_err(|error| with_reason(error, compiler.mismatch(driver_version)))
}

/// Adds the reason why the driver has refused a program, if one is known.
fn with_reason(error: DeviceError, reason: Option<String>) -> DeviceError {
    match (error, reason) {
        (DeviceError::Compile { kernel, device, log }, Some(reason)) => {
            DeviceError::Compile { kernel, device, log: format!("{reason}\n{log}") }
        }
        (error, _) => error,
    }
}

/// The key of machine code: text, options with the architecture, and compiler with its file. It does not depend on the driver.
fn key(compiler: &Compiler, request: &Request<'_>) -> Result<KernelKey, DeviceError> {
    let options = compiler.options(request)?;
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    Ok(KernelKey::new(&KernelParts {
        source: request.text.as_bytes(),
        options: &options,
        compiler: &compiler.identity,
        device: &format!("sm_{}", request.capability),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::select::Selector;
    use crate::program::loaded::Function;

    /// The checksum of an entry cannot find this: a complete image that the driver refuses.
    #[test]
    fn an_image_that_the_driver_refuses_is_compiled_again() {
        let Ok(candidate) = "cuda".parse::<Selector>().unwrap().find() else {
            eprintln!("skipped: no CUDA device");
            return;
        };
        let device = DeviceContext::new(candidate).unwrap();
        let Ok(compiler) = compiler(device.context.driver.version / 1000) else {
            eprintln!("skipped: no NVRTC");
            return;
        };
        let cache = KernelCache::in_memory();
        let text = dialect::cuda("KERNEL void f(GLOBAL int *x) { x[0] = 1; }");
        let request = Request { name: "f", text: &text, capability: device.capability, device: device.id() };
        let key = key(compiler, &request).unwrap();
        cache.get_or_compile(&key, || Ok::<_, DeviceError>(b"no PTX\0".to_vec())).unwrap();
        let program = Arc::new(cached(&cache, &device, "f", &text).unwrap());
        let cached = cache.get_or_compile(&key, || Err(DeviceError::invalid("", "", "an empty cache")));
        assert_eq!(cached.unwrap()[..], program.image[..]);
        Function::new(&device.context, program, "f").unwrap();
    }
}
