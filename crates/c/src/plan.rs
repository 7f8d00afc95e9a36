//! Plans and their exchanges.

use std::ffi::{c_char, c_void};
use std::ops::Range;

use haloport::comm::TransportError;
use haloport::device::Pointer;
use haloport::exchange::{Combine, ExchangeError};
use haloport::{AnyDevice, BindOptions, DataPath, Exchange, Passed};

use crate::arguments::{Struct, check_place, clear, count, make, sized, slice, text, write};
use crate::array::CArray;
use crate::comm::agree;
use crate::domains::{AnyPattern, FieldPatterns, any_of_handle};
use crate::fields::{Field, data_of, empty, fields_of, patterns_of, span_of, take, wrong_address};
use crate::flights::{Flight, Flights, NO_TICKET, Ticket};
use crate::handle::{Handle, kind};
use crate::status::{Failure, Status, call};
use crate::stream::{CStream, Order, Queue};
use crate::{describe, device};

/// `hp_options` of the header.
#[repr(C)]
pub(crate) struct COptions {
    pub(crate) size: u32,
    pub(crate) fixed: i32,
    pub(crate) in_flight: i32,
    pub(crate) threads: i32,
    pub(crate) path: *const c_char,
    pub(crate) queue: CStream,
    pub(crate) accumulate: *const c_char,
    pub(crate) zero_halo: i32,
    pub(crate) share: i32,
}

// SAFETY: numbers, and pointers that may be null.
unsafe impl Struct for COptions {}

/// Those options, checked.
struct Options {
    fixed: bool,
    share: bool,
    in_flight: usize,
    threads: usize,
    path: DataPath,
    queue: Option<Queue>,
    accumulate: Option<Combine>,
    zero_halo: bool,
}

/// A plan and its exchanges in flight.
pub(crate) struct Prepared {
    exchange: Exchange<Passed>,
    devices: Vec<AnyDevice>,
    /// A queue of the context that arrays are in.
    queue: Option<Queue>,
    flights: Flights,
    /// The addresses of a call, kept so that the call allocates nothing.
    addresses: Vec<Pointer>,
    /// For each address of a call, whether its block has no element.
    empty: Vec<bool>,
    /// Of a fixed plan, its addresses.
    fixed: Option<Vec<Pointer>>,
    /// For each address its device, a number in `devices`, and the bytes from there on; empty if all are of the host:
    /// then no address is looked up.
    placed: Vec<(usize, Range<isize>)>,
    /// The addresses that were checked last.
    known: Vec<Pointer>,
}

kind!(Prepared, "hp_plan", 0x486c);

/// The arguments of a plan, checked on this rank.
struct Checked {
    fields: Vec<Field>,
    patterns: FieldPatterns,
    /// Of a fixed plan, the address of each block.
    addresses: Vec<Pointer>,
    fixed: bool,
    /// Whether neighbours may map pages of the arrays.
    share: bool,
    options: BindOptions,
    in_flight: usize,
    queue: Option<Queue>,
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_plan_create(
    pattern: Handle<AnyPattern>,
    fields: i32,
    like: *const CArray,
    data: *const *mut c_void,
    options: *const COptions,
    made: *mut Handle<Prepared>,
) -> Status {
    call("hp_plan_create", || {
        // SAFETY: by the contract of the header.
        unsafe { clear(made) };
        let of = pattern;
        let pattern = any_of_handle(of)?;
        // SAFETY: by the contract of the header.
        let checked = unsafe { Checked::new((of, &pattern), fields, like, data, options) };
        let checked = checked.and_then(|checked| check_place(made).map(|()| checked));
        let checked = agree(pattern.comm(), checked)?;
        // SAFETY: by the contract of the header; the memory of a fixed plan lives as long as the plan.
        unsafe { make(made, || Prepared::new(&pattern, checked)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_plan_describe(
    plan: Handle<Prepared>,
    text: *mut c_char,
    bytes: *mut usize,
) -> Status {
    call("hp_plan_describe", || {
        let found = plan.get()?.with(|plan| Ok(plan.describe()))?;
        // SAFETY: by the contract of the header.
        unsafe { describe::write(&found, text, bytes) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_plan_free(plan: Handle<Prepared>) -> Status {
    call("hp_plan_free", || plan.take_if(Prepared::check_free).map(drop))
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_start(
    plan: Handle<Prepared>,
    data: *const *mut c_void,
    stream: CStream,
    ticket: *mut Ticket,
) -> Status {
    call("hp_start", || {
        // SAFETY: by the contract of the header, here and below. If the start fails, there is no ticket.
        unsafe { write(ticket, NO_TICKET) };
        let is_named = !ticket.is_null();
        // SAFETY: as above.
        let given = plan.get()?.with(|plan| unsafe { plan.start(data, stream, is_named) })?;
        // SAFETY: as above.
        unsafe { write(ticket, given) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_finish(plan: Handle<Prepared>, ticket: Ticket, stream: CStream) -> Status {
    // SAFETY: by the contract of the header.
    call("hp_finish", || plan.get()?.with(|plan| unsafe { plan.finish(ticket, stream) }))
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_exchange(
    plan: Handle<Prepared>,
    data: *const *mut c_void,
    stream: CStream,
) -> Status {
    // SAFETY: by the contract of the header.
    call("hp_exchange", || plan.get()?.with(|plan| unsafe { plan.exchange(data, stream) }))
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_ready(plan: Handle<Prepared>, ticket: Ticket, ready: *mut i32) -> Status {
    call("hp_ready", || {
        // SAFETY: by the contract of the header, here and below. After a failure, nothing is ready.
        unsafe { write(ready, 0) };
        let found = plan.get()?.with(|plan| plan.is_ready(ticket))?;
        // SAFETY: as above.
        unsafe { write(ready, i32::from(found)) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_synchronize(plan: Handle<Prepared>) -> Status {
    call("hp_synchronize", || plan.get()?.with(Prepared::synchronize))
}

impl Checked {
    /// # Safety
    /// The pointers are as the header says.
    unsafe fn new(
        pattern: (Handle<AnyPattern>, &AnyPattern),
        fields: i32,
        like: *const CArray,
        data: *const *mut c_void,
        options: *const COptions,
    ) -> Result<Checked, Failure> {
        let fields = count(fields, "fields")?;
        if fields == 0 {
            return Err(Failure::argument("fields: expected 1 or more, found 0"));
        }
        // SAFETY: the caller's promise, here and below.
        let options = unsafe { options_of(options)? };
        let Options { fixed, share, in_flight, threads, path, queue, accumulate, zero_halo } = options;
        // SAFETY: as above.
        let (patterns, addresses) = unsafe { patterns_of(pattern, fields, like)? };
        // SAFETY: as above.
        let data = unsafe { data_of(data, addresses, fixed)? };
        // SAFETY: as above.
        let made = unsafe { fields_of(&patterns, fields, like, data, (queue.as_ref(), threads))? };
        let mut addresses = Vec::new();
        if fixed {
            take(data, &empty(&made), &mut addresses)?;
        }
        let mut options = BindOptions::default().in_flight(in_flight).path(path).zero_halo(zero_halo);
        if let Some(combine) = accumulate {
            options = options.accumulate(combine);
        }
        Ok(Checked { fields: made, patterns, addresses, fixed, share, options, in_flight, queue })
    }
}

/// # Safety
/// `options` is as the header says.
unsafe fn options_of(options: *const COptions) -> Result<Options, Failure> {
    if options.is_null() {
        return Ok(Options {
            fixed: false,
            share: false,
            in_flight: 1,
            threads: 1,
            path: DataPath::default(),
            queue: None,
            accumulate: None,
            zero_halo: false,
        });
    }
    // SAFETY: the caller's promise.
    let (options, path, accumulate) = unsafe {
        let options = sized(options, 0, "options")?;
        let path = text(options.path, "options.path")?;
        let accumulate = text(options.accumulate, "options.accumulate")?;
        (options, path, accumulate)
    };
    if options.share != 0 && options.fixed == 0 {
        return Err(Failure::argument("options.share: expected a fixed plan, found one that is not"));
    }
    let or_one = |number: i32, name| count(number, name).map(|number| number.max(1));
    let path = path.map(|path| path.parse::<DataPath>()).transpose();
    Ok(Options {
        fixed: options.fixed != 0,
        share: options.share != 0,
        in_flight: or_one(options.in_flight, "options.in_flight")?,
        threads: or_one(options.threads, "options.threads")?,
        path: path.map_err(|text| Failure::argument(format!("options.path: {text}")))?.unwrap_or_default(),
        // SAFETY: the caller's promise.
        queue: unsafe { Queue::of(options.queue)? },
        accumulate: accumulate.map_or(Ok(None), combine)?,
        zero_halo: options.zero_halo != 0,
    })
}

/// The operation of this name; `None` if there is no name.
fn combine(name: &str) -> Result<Option<Combine>, Failure> {
    if name.is_empty() {
        return Ok(None);
    }
    let all = [Combine::Sum, Combine::Min, Combine::Max, Combine::Replace];
    all.into_iter().find(|combine| combine.name() == name).map(Some).ok_or_else(|| {
        Failure::argument(format!("options.accumulate: expected sum, min, max or replace, found {name:?}"))
    })
}

impl Prepared {
    /// Collective.
    ///
    /// # Safety
    /// The memory of a fixed plan is as the header says, and lives as long as the plan.
    unsafe fn new(pattern: &AnyPattern, checked: Checked) -> Result<Prepared, Failure> {
        let Checked { fields, patterns, addresses, fixed, share, options, in_flight, queue } = checked;
        let mut devices: Vec<AnyDevice> = Vec::new();
        let mut placed = Vec::new();
        for field in &fields {
            let known = devices.iter().position(|known| known.info().id == field.device.info().id);
            let number = known.unwrap_or_else(|| {
                devices.push(field.device.clone());
                devices.len() - 1
            });
            placed.extend(field.blocks().map(|block| (number, span_of(block, field.element))));
        }
        if devices.iter().all(|device| matches!(device, AnyDevice::Cpu(_))) {
            placed.clear();
        }
        let empty = empty(&fields);
        let blocks = empty.len();
        let exchange = if fixed {
            let (mut addresses, mut made) = (addresses.iter().copied(), Vec::new());
            for field in fields {
                // SAFETY: the caller's promise.
                made.extend(unsafe { field.at(&mut addresses, share)? });
            }
            pattern.bind(made, &patterns, options)?
        } else {
            let layouts = fields.iter().map(Field::layout).collect::<Result<Vec<_>, Failure>>()?;
            pattern.plan_layouts(layouts, &patterns, options)?
        };
        Ok(Prepared {
            exchange,
            devices,
            queue,
            flights: Flights::new(in_flight),
            addresses: Vec::with_capacity(blocks),
            empty,
            fixed: fixed.then_some(addresses),
            placed,
            known: Vec::with_capacity(blocks),
        })
    }

    /// Returns the ticket of the exchange; `is_named` says whether the caller takes it.
    ///
    /// # Safety
    /// `data` and `stream` are as the header says.
    unsafe fn start(
        &mut self,
        data: *const *mut c_void,
        stream: CStream,
        is_named: bool,
    ) -> Result<Ticket, Failure> {
        self.flights.check_named(is_named)?;
        // SAFETY: the caller's promise.
        let order = unsafe { Order::of(stream, &self.devices, self.queue.as_ref())? };
        // SAFETY: as above.
        unsafe { self.take(data)? };
        // SAFETY: as above: the blocks are valid memory of the plan's layouts until the exchange is finished.
        let own = unsafe { self.exchange.start_at(&self.addresses, order.schedule())? };
        Ok(self.flights.add(own))
    }

    /// # Safety
    /// `stream` is as the header says.
    unsafe fn finish(&mut self, ticket: Ticket, stream: CStream) -> Result<(), Failure> {
        let Flight { ticket, own } = self.flights.find(ticket)?;
        // SAFETY: the caller's promise.
        let order = unsafe { Order::of(stream, &self.devices, self.queue.as_ref())? };
        let ended = self.exchange.finish(own, order.schedule());
        let is_in_flight = matches!(ended, Err(ExchangeError::Transport(TransportError::WrongThread { .. })));
        if !is_in_flight {
            self.flights.remove(ticket);
        }
        Ok(ended?)
    }

    /// # Safety
    /// `data` and `stream` are as the header says.
    unsafe fn exchange(&mut self, data: *const *mut c_void, stream: CStream) -> Result<(), Failure> {
        // SAFETY: the caller's promise.
        let order = unsafe { Order::of(stream, &self.devices, self.queue.as_ref())? };
        // SAFETY: as above.
        unsafe { self.take(data)? };
        // SAFETY: as in `start`.
        unsafe { self.exchange.run_at(&self.addresses, order.schedule())? };
        Ok(())
    }

    /// Takes the addresses of a call; none in a fixed plan, which has them.
    ///
    /// # Safety
    /// `data` is as the header says.
    unsafe fn take(&mut self, data: *const *mut c_void) -> Result<(), Failure> {
        self.addresses.clear();
        if self.fixed.is_some() && data.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        take(unsafe { slice(data, self.empty.len(), "data")? }, &self.empty, &mut self.addresses)?;
        match &self.fixed {
            Some(fixed) if self.addresses != *fixed => Err(Failure::argument(
                "data: expected the arrays that the fixed plan was made for, or null, found others",
            )),
            Some(_) => {
                self.addresses.clear();
                Ok(())
            }
            None => self.check_new(),
        }
    }

    /// Checks that the addresses are in memory of the devices: those that are others than in the last call, since drivers
    /// take up to a microsecond for each.
    fn check_new(&mut self) -> Result<(), Failure> {
        let there = self.addresses.iter().zip(&self.placed).enumerate();
        let there = there.filter(|(place, _)| !self.empty[*place]);
        for (place, (&at, (device, span))) in
            there.filter(|(place, (at, _))| self.known.get(*place) != Some(at))
        {
            let checked = device::check_address(&self.devices[*device], at, span.clone());
            checked.map_err(|error| wrong_address(place, error))?;
        }
        if !self.placed.is_empty() {
            self.known.clone_from(&self.addresses);
        }
        Ok(())
    }

    /// Waits for the exchanges that were finished, and not for the device: ranks that are threads share it, and the stream of
    /// another rank may wait for the next call of this one.
    fn synchronize(&mut self) -> Result<(), Failure> {
        self.exchange.synchronize()?;
        Ok(())
    }

    fn is_ready(&self, ticket: Ticket) -> Result<bool, Failure> {
        let Flight { own, .. } = self.flights.find(ticket)?;
        self.exchange.pattern().comm().check_thread()?;
        Ok(self.exchange.is_ready(own))
    }

    /// Exchanges in flight are ended first, which takes a thread that may.
    fn check_free(&self) -> Result<(), Failure> {
        match self.flights.are_none() {
            true => Ok(()),
            false => Ok(self.exchange.pattern().comm().check_thread()?),
        }
    }

    fn describe(&self) -> String {
        let devices = self.devices.iter().map(|device| device.info().id.to_string()).collect();
        describe::plan(self.exchange.describe(), devices)
    }
}
