//! Programs in the portable dialect.

use std::sync::{Arc, PoisonError};

use haloport_core::device::{DeviceError, dialect};

use crate::driver::{Kernel, Program};
use crate::kind::Kind;
use crate::opened::Opened;

/// The program of a source in the portable dialect, built once for all handles of the device, and compiled only if the
/// kernel cache of the process does not have it.
pub(crate) fn portable(
    opened: &Opened,
    name: &str,
    source: &'static str,
) -> Result<Arc<Program>, DeviceError> {
    let known = || opened.programs.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = known().get(source) {
        return Ok(Arc::clone(program));
    }
    // Built without the lock: several threads may build at once, and all use the program that is stored first.
    let text = match opened.place.kind() {
        Kind::Cpu => dialect::opencl_for_cores(source),
        _ => dialect::opencl(source),
    };
    let program = Arc::new(opened.place.program(name, source, &text)?);
    Ok(Arc::clone(known().entry(source).or_insert(program)))
}

/// A kernel of a program, without arguments.
pub(crate) fn kernel(opened: &Opened, program: &Program, name: &str) -> Result<Kernel, DeviceError> {
    program.kernel(name).ok_or_else(|| {
        let log = format!("the program holds no kernel `{name}`");
        DeviceError::Compile { kernel: name.into(), device: opened.id(), log }
    })
}
