//! The driver's functions, as `cuda.h` declares them.

use std::sync::MutexGuard;

use crate::order::host_follows;
use crate::state::{State, current, state};
use crate::status::{SUCCESS, Status};

mod context;
mod memory;
mod pages;
mod program;
mod stream;

/// Records a call with its arguments, and executes it unless it is to fail.
fn call(
    name: &str,
    arguments: impl FnOnce() -> String,
    act: impl FnOnce(&mut State) -> Result<(), Status>,
) -> Status {
    let mut state = state();
    let done = state.record(name, arguments).and_then(|()| act(&mut state));
    end(state, done)
}

/// As [`call`], for calls that release something: they are executed even if they are to fail, because they also report
/// the errors of earlier work.
fn give_back(
    name: &str,
    arguments: impl FnOnce() -> String,
    act: impl FnOnce(&mut State) -> Result<(), Status>,
) -> Status {
    let mut state = state();
    let recorded = state.record(name, arguments);
    let done = act(&mut state);
    end(state, recorded.and(done))
}

/// Waits for what the call waits for. Meanwhile other threads can call the driver.
fn end(mut state: MutexGuard<'_, State>, done: Result<(), Status>) -> Status {
    let awaited = std::mem::take(&mut state.awaited);
    drop(state);
    awaited.iter().for_each(|point| host_follows(&point.wait()));
    let fault = if awaited.is_empty() || current() == 0 { SUCCESS } else { fault_now() };
    done.err().unwrap_or(fault)
}

/// The fault of the current context.
fn fault_now() -> Status {
    state().in_context().err().unwrap_or(SUCCESS)
}

/// Formats small numbers in decimal, handles and addresses in hexadecimal.
fn show(number: u64) -> String {
    if number < 0x1000 { number.to_string() } else { format!("{number:#x}") }
}

/// Declares functions of the driver: how each is recorded, and its effect.
macro_rules! functions {
    ($($how:ident $name:ident($($argument:ident: $type:ty),* $(,)?) |$state:ident| $work:block)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> $crate::status::Status {
                let arguments = || {
                    #[allow(unused_mut, reason = "some take no argument")]
                    let mut text = String::new();
                    $(text += &format!("{}={} ", stringify!($argument), $crate::api::show($argument as u64));)*
                    text
                };
                // SAFETY: the block follows only addresses that the caller of the driver's function vouches for.
                #[allow(unused_unsafe, unused_variables, reason = "some follow no address, some do not use the state")]
                $crate::api::$how(stringify!($name), arguments, |$state| unsafe { $work })
            }
        )*
    };
}
use functions;
