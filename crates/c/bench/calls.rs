//! The cost of a call from C and from Fortran beyond the same exchange in Rust.
//!
//! `cargo bench -p haloport-c --bench calls`, with gfortran. One rank exchanges with itself, which shows the cost of calls alone:
//! one array or 20 arrays of 4³ cells each time, and 20 that lie at addresses that the plan has never seen. All cases take turns
//! in each round; the table has the medians of the times, and of the differences within rounds. C and Fortran call the shared
//! library. The halos are checked at the end.
#![allow(missing_docs, reason = "a benchmark has no users")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use haloport::cpu::CpuDevice;
use haloport::device::Pointer;
use haloport::exchange::FieldLayout;
use haloport::field::BlockLayout;
use haloport::{BindOptions, Communicator, ElementType, Error, Field, Grid, Halo, Pattern, Schedule, Split};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

const ROUNDS: usize = 400;
/// Calls of a batch. In a round each case runs two batches, of which the second counts.
const CALLS: usize = 50;
/// How far arrays at new addresses move from call to call, in elements.
const STEP: usize = 8;
const CELLS: usize = 4;

/// Runs a batch of calls.
type Batch<'a> = Box<dyn FnMut() -> Result<(), Error> + 'a>;

fn main() -> Result<(), Error> {
    haloport::run_ranks(1, |comm| measure(&comm))?;
    Ok(())
}

fn measure(comm: &Communicator) -> Result<(), Error> {
    let fortran = Fortran::load()?;
    let c = C::new(&fortran)?;
    let mut rust = Rust::new(comm)?;
    let [mut one, mut twenty, mut new] = [1, 20, 20].map(|fields| Arrays::new(&rust.layout, fields));
    let [mut c_one, mut c_twenty, mut c_new] = [1, 20, 20].map(|fields| Arrays::new(&rust.layout, fields));
    let Rust { one: rust_one, twenty: rust_twenty, new: rust_new, layout } = &mut rust;

    let mut cases: Vec<(&str, Batch<'_>)> = vec![
        ("Rust, 1 array", Box::new(|| one.batch(false, |data| run(rust_one, data)))),
        ("C, 1 array", Box::new(|| c_one.batch(false, |data| c.exchange(c.one, data)))),
        ("Fortran, 1 array", Box::new(|| fortran.batch(fortran.one))),
        ("Rust, 20 arrays", Box::new(|| twenty.batch(false, |data| run(rust_twenty, data)))),
        ("C, 20 arrays", Box::new(|| c_twenty.batch(false, |data| c.exchange(c.twenty, data)))),
        ("Fortran, 20 arrays", Box::new(|| fortran.batch(fortran.twenty))),
        ("Rust, 20 new addresses", Box::new(|| new.batch(true, |data| run(rust_new, data)))),
        ("C, 20 new addresses", Box::new(|| c_new.batch(true, |data| c.exchange(c.new, data)))),
    ];
    let mut times = vec![Vec::with_capacity(ROUNDS); cases.len()];
    for _ in 0..ROUNDS {
        for ((_, batch), times) in cases.iter_mut().zip(&mut times) {
            batch()?;
            let began = Instant::now();
            batch()?;
            times.push(began.elapsed().as_secs_f64() * 1e6 / CALLS as f64);
        }
    }
    let names: Vec<&str> = cases.iter().map(|(name, _)| *name).collect();
    drop(cases);
    one.check(layout, |data| run(rust_one, data))?;
    twenty.check(layout, |data| run(rust_twenty, data))?;
    new.check(layout, |data| run(rust_new, data))?;
    c_one.check(layout, |data| c.exchange(c.one, data))?;
    c_twenty.check(layout, |data| c.exchange(c.twenty, data))?;
    c_new.check(layout, |data| c.exchange(c.new, data))?;
    if !fortran.is_right() {
        return Err("cells of Fortran have wrong values".into());
    }

    println!("{:<24} {:>8} {:>14}", "µs", "median", "beyond Rust");
    for (case, name) in names.iter().enumerate() {
        // Those of the same arrays follow Rust's.
        let base = (0..=case).rev().find(|&base| names[base].starts_with("Rust")).unwrap_or(case);
        let beyond = times[case].iter().zip(&times[base]).map(|(time, base)| time - base).collect();
        println!("{name:<24} {:>8.2} {:>+14.2}", median(times[case].clone()), median(beyond));
    }
    for [c, fortran] in [[1, 2], [4, 5]] {
        let beyond = times[fortran].iter().zip(&times[c]).map(|(time, base)| time - base).collect();
        println!("{} beyond C: {:+.2}", names[fortran], median(beyond));
    }
    let moved = times[7].iter().zip(&times[4]).map(|(time, base)| time - base).collect();
    println!("C, 20 new addresses beyond known ones: {:+.2}", median(moved));
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Plans of Rust.
struct Rust {
    layout: BlockLayout,
    one: haloport::Exchange<haloport::Passed>,
    twenty: haloport::Exchange<haloport::Passed>,
    new: haloport::Exchange<haloport::Passed>,
}

impl Rust {
    fn new(comm: &Communicator) -> Result<Rust, Error> {
        let grid = Grid::new([CELLS; 3])?.periodic([true; 3])?;
        let all = Split::even(&grid, [1; 3])?.part(0).ok_or("no part")?;
        let pattern = Pattern::structured(comm, &grid, &[all], &Halo::uniform(1))?;
        let device = CpuDevice::with_threads(1)?;
        let layouts = Field::<f64, CpuDevice>::builder(&pattern).layouts()?;
        let plan = |fields| {
            let described = vec![FieldLayout::new(&device, ElementType::F64, layouts.clone()); fields];
            pattern.plan_layouts(&described, BindOptions::default())
        };
        Ok(Rust { one: plan(1)?, twenty: plan(20)?, new: plan(20)?, layout: layouts[0].clone() })
    }
}

fn run(plan: &mut haloport::Exchange<haloport::Passed>, data: &[Pointer]) -> Result<(), Error> {
    // SAFETY: the memory has the layout of the plan, and nothing uses it during the exchange.
    unsafe { plan.run_at(data, Schedule::DefaultStream)? };
    Ok(())
}

/// The functions and plans of the shared library.
struct C {
    exchange: unsafe extern "C" fn(*mut c_void, *const Pointer, Stream) -> c_int,
    message: unsafe extern "C" fn() -> *const c_char,
    one: *mut c_void,
    twenty: *mut c_void,
    new: *mut c_void,
}

/// `hp_stream` of the header.
#[repr(C)]
struct Stream {
    kind: i32,
    unused: i32,
    handle: usize,
}

impl C {
    fn new(fortran: &Fortran) -> Result<C, Error> {
        // SAFETY: the signatures are those of the header and of `calls.c`.
        let (exchange, message, plan) = unsafe {
            let library = &fortran.haloport;
            let plan: unsafe extern "C" fn(c_int) -> *mut c_void = *fortran.calls.get(b"calls_plan")?;
            (*library.get(b"hp_exchange")?, *library.get(b"hp_message")?, plan)
        };
        // SAFETY: it makes a plan for that many arrays.
        let [one, twenty, new] = [1, 20, 20].map(|fields| unsafe { plan(fields) });
        if [one, twenty, new].contains(&std::ptr::null_mut()) {
            return Err("a plan of C could not be made".into());
        }
        Ok(C { exchange, message, one, twenty, new })
    }

    fn exchange(&self, plan: *mut c_void, data: &[Pointer]) -> Result<(), Error> {
        // SAFETY: as in `run`; a pointer to cells is an address.
        let status =
            unsafe { (self.exchange)(plan, data.as_ptr(), Stream { kind: 0, unused: 0, handle: 0 }) };
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the text lives until the next call.
        Err(unsafe { CStr::from_ptr((self.message)()) }.to_string_lossy().into())
    }
}

/// The shared library, and `calls.f90` and `calls.c`, compiled.
struct Fortran {
    haloport: Library,
    one: unsafe extern "C" fn(c_int),
    twenty: unsafe extern "C" fn(c_int),
    are_right: unsafe extern "C" fn() -> c_int,
    calls: Library,
}

impl Fortran {
    fn load() -> Result<Fortran, Error> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = std::env::current_exe()?;
        let folder = program.parent().and_then(Path::parent).ok_or("no folder of the library")?;
        let library = folder.join("libhaloport_c.so");
        let calls = compile(here, &folder.join("calls-of-fortran"))?;
        // SAFETY: their initialisation has no requirements.
        let (haloport, calls) = unsafe {
            (Library::open(Some(&library), RTLD_NOW | RTLD_GLOBAL)?, Library::open(Some(&calls), RTLD_NOW)?)
        };
        // SAFETY: the signatures are those of `calls.f90`.
        let made = unsafe {
            let prepare: unsafe extern "C" fn() = *calls.get(b"calls_prepare")?;
            prepare();
            Fortran {
                one: *calls.get(b"calls_one")?,
                twenty: *calls.get(b"calls_twenty")?,
                are_right: *calls.get(b"calls_are_right")?,
                haloport,
                calls,
            }
        };
        Ok(made)
    }

    fn batch(&self, calls: unsafe extern "C" fn(c_int)) -> Result<(), Error> {
        // SAFETY: it updates arrays of its own. A failure ends the program with its text.
        unsafe { calls(CALLS as c_int) };
        Ok(())
    }

    fn is_right(&self) -> bool {
        // SAFETY: it reads arrays of its own.
        unsafe { (self.are_right)() == 1 }
    }
}

/// Compiles the module, its C file, `calls.f90` and `calls.c` into a library.
fn compile(here: &Path, folder: &Path) -> Result<PathBuf, Error> {
    std::fs::create_dir_all(folder)?;
    let made = folder.join("libcalls.so");
    let run = |command: &mut Command| -> Result<(), Error> {
        let status = command.current_dir(folder).status().map_err(|error| format!("{command:?}: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
    };
    run(Command::new("gcc")
        .args(["-c", "-O2", "-fPIC", "-I"])
        .args(["include", "fortran/haloport_fortran.c", "bench/calls.c"].map(|source| here.join(source))))?;
    run(Command::new("gfortran")
        .args(["-shared", "-O2", "-fPIC", "-o", "libcalls.so", "haloport_fortran.o", "calls.o"])
        .args(["fortran/haloport.f90", "bench/calls.f90"].map(|source| here.join(source))))?;
    Ok(made)
}

/// Arrays of one plan, with their addresses.
struct Arrays {
    memory: Vec<Vec<f64>>,
    data: Vec<Pointer>,
    /// How far the arrays have moved, in elements.
    shift: usize,
}

impl Arrays {
    fn new(layout: &BlockLayout, fields: usize) -> Arrays {
        let elements = layout.span().1 as usize + STEP * (2 * ROUNDS * CALLS + 1);
        let mut memory = vec![vec![0.0; elements]; fields];
        memory.iter_mut().for_each(|values| fill(layout, values));
        let data = memory.iter_mut().map(|values| Pointer::new(values.as_mut_ptr().cast())).collect();
        Arrays { memory, data, shift: 0 }
    }

    /// Calls a batch, with known addresses or with new ones at each call.
    fn batch(
        &mut self,
        new: bool,
        mut call: impl FnMut(&[Pointer]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for _ in 0..CALLS {
            if new {
                self.shift += STEP;
                for (values, place) in self.memory.iter_mut().zip(&mut self.data) {
                    *place = Pointer::new(values[self.shift..].as_mut_ptr().cast());
                }
            }
            call(&self.data)?;
        }
        Ok(())
    }

    /// Fills the arrays where they are now, calls once more, and fails unless all cells have their values.
    fn check(
        &mut self,
        layout: &BlockLayout,
        mut call: impl FnMut(&[Pointer]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.memory.iter_mut().for_each(|values| fill(layout, &mut values[self.shift..]));
        call(&self.data)?;
        let right = |values: &Vec<f64>| {
            cells(layout).all(|cell| {
                let wrapped = cell.map(|place| place.rem_euclid(CELLS as i64));
                let place = layout.offset(&cell, 0);
                place.is_some_and(|place| values[self.shift + place as usize] == value(wrapped))
            })
        };
        if self.memory.iter().all(right) { Ok(()) } else { Err("cells have wrong values".into()) }
    }
}

/// Fills an array: owned cells with their values, the others with -1.
fn fill(layout: &BlockLayout, values: &mut [f64]) {
    for cell in cells(layout) {
        let value = if layout.owned().contains(&cell) { value(cell) } else { -1.0 };
        layout.offset(&cell, 0).into_iter().for_each(|place| values[place as usize] = value);
    }
}

/// The value of a cell of the grid.
fn value([z, y, x]: [i64; 3]) -> f64 {
    ((z * 16 + y) * 16 + x) as f64
}

fn cells(layout: &BlockLayout) -> impl Iterator<Item = [i64; 3]> {
    let range = |axis: usize| layout.allocated().lower()[axis]..layout.allocated().upper()[axis];
    let (z, y, x) = (range(0), range(1), range(2));
    z.flat_map(move |z| {
        let x = x.clone();
        y.clone().flat_map(move |y| x.clone().map(move |x| [z, y, x]))
    })
}
