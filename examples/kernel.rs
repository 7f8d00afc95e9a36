//! A kernel of your own on any device, ordered with the exchange by one stream.
//!
//! ```sh
//! cargo run --release --example kernel                        # on the CPU
//! cargo run --release --example kernel --features sycl sycl   # on a device of OpenCL; `cuda` likewise
//! ```

use haloport::device::{Device, KernelArgument, KernelSource, LaunchConfig, ParameterType, Priority};
use haloport::{AnyDevice, Communicator, Error, Field, Grid, Halo, Pattern, Split, run_ranks};

const CELLS: usize = 1 << 12;
const STEPS: usize = 100;

/// Sets each cell to the sum of the cells on either side, modulo 2^32. In C for devices, in Rust for the CPU.
const ADD: KernelSource = KernelSource {
    name: "add_neighbours",
    portable: Some(
        "KERNEL void add_neighbours(GLOBAL const i32 *now, GLOBAL i32 *next, long cells) {
             long i = GLOBAL_INDEX(0);
             if (i < cells) next[i + 1] = (i32)((u32)now[i] + (u32)now[i + 2]);
         }",
    ),
    host: |range, arguments| {
        let [KernelArgument::Pointer(now), KernelArgument::Pointer(next), _] = arguments else { return };
        let (now, next) = (now.as_ptr().cast::<i32>(), next.as_ptr().cast::<i32>());
        for i in range.begin[0]..range.end[0] {
            // SAFETY: the launch promises that both blocks hold the range and a cell on either side of it, and that
            // nothing else uses `next` meanwhile.
            unsafe { *next.add(i + 1) = (*now.add(i)).wrapping_add(*now.add(i + 2)) };
        }
    },
    parameters: &[ParameterType::Pointer, ParameterType::Pointer, ParameterType::I64],
};

fn main() -> Result<(), Error> {
    let name = std::env::args().nth(1).unwrap_or("cpu:threads=1".into());
    let device = AnyDevice::select(&name)?;
    let on_device = |ranks| run_ranks(ranks, |comm| add(&comm, &device));
    let (alone, together) = (on_device(1)?, on_device(4)?);
    if alone.concat() != together.concat() {
        return Err("four ranks have other values than one".into());
    }
    println!("{STEPS} steps on `{name}`: the same on 1 and on 4 ranks");
    Ok(())
}

/// Returns the values of this rank's cells after all steps.
fn add<D: Device>(comm: &Communicator, device: &D) -> Result<Vec<i32>, Error> {
    let grid = Grid::new([CELLS])?.periodic([true])?;
    let mine = Split::even(&grid, [comm.size()])?.part(comm.rank()).ok_or("no such part")?;
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?;
    // Two fields take turns, each bound to an exchange of its own.
    let bind = || -> Result<_, Error> { Ok(pattern.bind(Field::<i32, D>::new(device, &pattern)?)?) };
    let mut exchanges = [bind()?, bind()?];
    let values: Vec<i32> = (mine.lower()[0] - 1..=mine.upper()[0]).map(|cell| (cell % 89) as i32).collect();
    exchanges[0].fields_mut().copy_from(0, &values)?;

    // Arguments are bound once; a launch passes nothing but the stream.
    let kernel = device.compile(&ADD)?;
    let ends = [exchanges[0].fields().pointer(0)?, exchanges[1].fields().pointer(0)?];
    let bind = |from, to| {
        let cells = KernelArgument::I64(mine.extent(0) as i64);
        let arguments = [KernelArgument::Pointer(from), KernelArgument::Pointer(to), cells];
        device.bind(&kernel, LaunchConfig::linear(mine.extent(0)), &arguments)
    };
    let launches = [bind(ends[0], ends[1])?, bind(ends[1], ends[0])?];

    // Each rank has a stream of its own. On a GPU the host waits for nothing in this loop: exchanges and kernels follow
    // each other in the stream.
    let stream = device.create_stream(Priority::Normal)?;
    for step in 0..STEPS {
        exchanges[step % 2].run_on(&stream)?;
        // SAFETY: both fields live until the stream is empty, and their blocks are used in this stream alone.
        unsafe { device.launch(&launches[step % 2], &stream)? };
    }
    device.synchronize(&stream)?;
    let block = exchanges[STEPS % 2].fields().to_vec(0)?;
    Ok(block[1..=mine.extent(0)].to_vec())
}
