//! The driver's library and what it hands out; nothing here knows of programs, buffers or copies.
//!
//! - `library`: loads a library and declares a table of its functions; `functions`: that table for the driver.
//! - `context`: the primary context of a device, addresses, and the macro `call!`; `handles`: objects that are destroyed on drop;
//!   `raw_stream`: streams; `frees`: when memory is freed.
//! - `remote_writes`: how writes of network adapters become visible.
//! - `select`: lists the devices and finds the one that a name means; `device_context`: opens it; `handle_kinds`: how its
//!   memory reaches other processes.

pub(crate) mod context;
pub(crate) mod device_context;
pub(crate) mod frees;
pub(crate) mod functions;
pub(crate) mod handle_kinds;
pub(crate) mod handles;
pub(crate) mod library;
pub(crate) mod raw_stream;
pub(crate) mod remote_writes;
pub(crate) mod select;
