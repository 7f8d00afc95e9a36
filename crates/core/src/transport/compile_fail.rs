//! Code that must not compile: without `unsafe`, no code sends, takes or lends messages and windows of exchanges. Each
//! case differs by one line from code that compiles, and names the expected error code.
//!
//! Code that compiles:
//!
//! ```
//! # use haloport_core::*;
//! # fn run(comm: &Communicator) -> Result<(), TransportError> {
//! comm.barrier()?;
//! comm.is_near(0);
//! # Ok(()) }
//! ```
//!
//! Taking the transport of a communicator, and with it the messages and windows of its exchanges:
//!
//! ```compile_fail,E0133
//! # use haloport_core::*;
//! # fn run(comm: &Communicator) {
//! comm.raw_transport(); // `unsafe { comm.raw_transport() }` compiles
//! # }
//! ```
//!
//! ```compile_fail,E0624
//! # use haloport_core::*;
//! # fn run(comm: &Communicator) {
//! comm.transport();
//! # }
//! ```
//!
//! Two communicators on one transport: their exchanges would have the same tags:
//!
//! ```compile_fail,E0382
//! # use haloport_core::{*, transport::Transport};
//! # fn run(transport: impl Transport + 'static) {
//! let comm = Communicator::new(transport);
//! let other = Communicator::new(transport); // <- the added line
//! # }
//! ```
//!
//! Calling a transport that a communicator owns:
//!
//! ```compile_fail,E0382
//! # use haloport_core::{*, transport::Transport};
//! # fn run(transport: impl Transport + 'static) -> Result<(), TransportError> {
//! let comm = Communicator::new(transport);
//! transport.send_message(0, 100, Vec::new())?; // <- the added line
//! # Ok(()) }
//! ```
//!
//! Another handle to the transport of a communicator:
//!
//! ```compile_fail,E0277
//! # use haloport_core::{*, transport::Transport}; use std::sync::Arc;
//! # fn run(transport: Arc<dyn Transport>) {
//! let comm = Communicator::new(Arc::clone(&transport));
//! # }
//! ```
//!
//! Taking tags: ranks would then have different tags for the same exchange:
//!
//! ```compile_fail,E0624
//! # use haloport_core::*;
//! # fn run(comm: &Communicator) {
//! comm.take_tags(1);
//! # }
//! ```
//!
//! Making a window on any memory, and reading the memory of one:
//!
//! ```compile_fail,E0624
//! # use haloport_core::transport::Window;
//! Window::new(());
//! ```
//!
//! ```compile_fail,E0624
//! # use haloport_core::transport::Window;
//! # fn run(window: &Window) {
//! window.lent::<()>();
//! # }
//! ```
//!
//! ```compile_fail,E0624
//! # use haloport_core::transport::Window;
//! # fn run(window: &Window) {
//! window.begin_read();
//! # }
//! ```
//!
//! Declaring memory to be shared:
//!
//! ```compile_fail,E0133
//! # use haloport_core::{device::Pointer, transport::SharedMemory};
//! # fn run(pointer: Pointer) {
//! SharedMemory::new(pointer, 8, [0..8], Box::new(())); // compiles in `unsafe`
//! # }
//! ```
