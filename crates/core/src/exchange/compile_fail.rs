//! Code that the compiler refuses, since it touches cells in flight. Each example differs by a line or two from one that compiles.
//!
//! This compiles:
//!
//! ```
//! # use haloport_core::*; use haloport_cpu::CpuDevice;
//! # fn run(mut exchange: Exchange<Field<f64, CpuDevice>>) -> Result<(), Box<dyn std::error::Error>> {
//! let mut pending = exchange.start()?;
//! pending.interior_mut(|field| field, 0)?[[1]] = 2.0;
//! pending.finish()?;
//! exchange.fields_mut().view_mut(0)?[[1]] = 2.0;
//! # Ok(()) }
//! ```
//!
//! Writing a field whose exchange is pending:
//!
//! ```compile_fail,E0499
//! # use haloport_core::*; use haloport_cpu::CpuDevice;
//! # fn run(mut exchange: Exchange<Field<f64, CpuDevice>>) -> Result<(), Box<dyn std::error::Error>> {
//! let mut pending = exchange.start()?;
//! pending.interior_mut(|field| field, 0)?[[1]] = 2.0;
//! exchange.fields_mut().view_mut(0)?[[1]] = 2.0; // <- the line moved up
//! pending.finish()?;
//! # Ok(()) }
//! ```
//!
//! Reading a whole field, halo included, whose exchange is pending:
//!
//! ```compile_fail,E0502
//! # use haloport_core::*; use haloport_cpu::CpuDevice;
//! # fn run(mut exchange: Exchange<Field<f64, CpuDevice>>) -> Result<(), Box<dyn std::error::Error>> {
//! let pending = exchange.start()?;
//! exchange.fields().view(0)?.get(&[1]); // <- the added line
//! pending.finish()?;
//! # Ok(()) }
//! ```
//!
//! Using a field that was passed to a plan, and whose exchange is pending:
//!
//! ```compile_fail,E0502
//! # use haloport_core::*; use haloport_cpu::CpuDevice;
//! # fn run(plan: &mut Exchange<Passed>, mut field: Field<f64, CpuDevice>) -> Result<(), Box<dyn std::error::Error>> {
//! let pending = plan.start(&mut field)?;
//! field.view(0)?.get(&[1]); // <- the added line
//! pending.finish()?;
//! # Ok(()) }
//! ```
//!
//! Starting a plan again while its exchange is pending:
//!
//! ```compile_fail,E0499
//! # use haloport_core::*; use haloport_cpu::CpuDevice;
//! # fn run(plan: &mut Exchange<Passed>, u: &mut Field<f64, CpuDevice>, v: &mut Field<f64, CpuDevice>) -> Result<(), ExchangeError> {
//! let pending = plan.start(u)?;
//! plan.start(v)?; // <- the added line
//! pending.finish()
//! # }
//! ```
//!
//! Keeping a view across the start of an exchange:
//!
//! ```compile_fail,E0502
//! # use haloport_core::*; use haloport_cpu::CpuDevice;
//! # fn run(mut exchange: Exchange<Field<f64, CpuDevice>>) -> Result<(), Box<dyn std::error::Error>> {
//! let view = exchange.fields().view(0)?; // <- the added line
//! exchange.start()?.finish()?;
//! view.get(&[1]); // <- and its use
//! # Ok(()) }
//! ```
//!
//! Keeping a view of the interior beyond the end of the exchange:
//!
//! ```compile_fail,E0505
//! # use haloport_core::*; use haloport_cpu::CpuDevice;
//! # fn run(mut exchange: Exchange<Field<f64, CpuDevice>>) -> Result<(), Box<dyn std::error::Error>> {
//! let mut pending = exchange.start()?;
//! let mut interior = pending.interior_mut(|field| field, 0)?;
//! pending.finish()?;
//! interior[[1]] = 2.0; // <- the line moved down
//! # Ok(()) }
//! ```
//!
//! Reading owned cells while the interior is being written:
//!
//! ```compile_fail,E0502
//! # use haloport_core::*; use haloport_cpu::CpuDevice;
//! # fn run(mut exchange: Exchange<Field<f64, CpuDevice>>) -> Result<(), Box<dyn std::error::Error>> {
//! let mut pending = exchange.start()?;
//! let mut interior = pending.interior_mut(|field| field, 0)?;
//! let owned = pending.owned(|field| field, 0)?; // <- the added line
//! interior[[1]] = 2.0;
//! owned.get(&[1]);
//! # Ok(()) }
//! ```
//!
//! Starting an exchange that is pending:
//!
//! ```compile_fail,E0499
//! # use haloport_core::*; use haloport_cpu::CpuDevice;
//! # fn run(mut exchange: Exchange<Field<f64, CpuDevice>>) -> Result<(), Box<dyn std::error::Error>> {
//! let pending = exchange.start()?;
//! let again = exchange.start()?; // <- the added line
//! pending.finish()?;
//! # Ok(()) }
//! ```
//!
//! Using borrowed memory while an exchange is bound to it:
//!
//! ```compile_fail,E0506
//! # use haloport_core::*; use haloport_cpu::CpuDevice;
//! # fn run(pattern: &Pattern, device: &CpuDevice, layout: BlockLayout) -> Result<(), Box<dyn std::error::Error>> {
//! let mut memory = vec![0.0; 10];
//! let field = BorrowedField::new(device, vec![(&mut memory[..], layout)])?;
//! let mut exchange = pattern.bind(field)?;
//! memory = Vec::new(); // <- the added line
//! exchange.run()?;
//! # Ok(()) }
//! ```
//!
//! Binding a shared field, whose other owners could access it during an exchange:
//!
//! ```compile_fail,E0277
//! # use haloport_core::*; use haloport_cpu::CpuDevice;
//! # fn run(pattern: &Pattern, field: Field<f64, CpuDevice>) -> Result<(), Box<dyn std::error::Error>> {
//! let shared = std::rc::Rc::new(field);
//! pattern.bind(shared)?; // `pattern.bind(field)` compiles
//! # Ok(()) }
//! ```
//!
//! Making a set of shared fields:
//!
//! ```compile_fail,E0026
//! # use haloport_core::*; use haloport_cpu::CpuDevice; use std::rc::Rc;
//! struct Flow { depth: Field<f64, CpuDevice> }
//! struct Shared(Rc<Flow>);
//! impl std::ops::Deref for Shared { type Target = Flow; fn deref(&self) -> &Flow { &self.0 } }
//! field_set!(impl for Shared { depth }); // `impl for Flow { depth }` compiles
//! ```
//!
//! Naming a field twice in one set:
//!
//! ```compile_fail,E0025
//! # use haloport_core::*; use haloport_cpu::CpuDevice;
//! struct Flow { depth: Field<f64, CpuDevice> }
//! field_set!(impl for Flow { depth, depth }); // `{ depth }` compiles
//! ```
