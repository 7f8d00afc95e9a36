//! The transport among MPI processes. Run it on any number of ranks:
//!
//! ```text
//! export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="timeout 120 mpirun --oversubscribe -n 3"
//! cargo test -p haloport-mpi --test mpi
//! ```
//!
//! The arguments choose the tests; `--` separates several for one start, except of those that initialise MPI themselves:
//!
//! - none, or `suite`: the conformance suite and the tests of MPI alone; `funneled` and `serialized`: the same, with MPI
//!   initialised by the test, with that thread level
//! - `cases N`: `N` random exchanges of boxes, and a third as many of unstructured domains, on cubed spheres and on
//!   folded grids, against their oracles, and exchanges in flight at once; as many sums of halos, bit for bit, and fields as whole arrays on one
//!   rank
//! - `same-sums DEVICE`: in memory of the `cpu`, of the device that `HALOPORT_SYCL_DEVICE` names (`sycl`), or of the first GPU
//!   (`cuda`): 50 exact sums of random terms, and 50 random meshes whose vertices are summed in the order of ids
//! - `large-fields N`: large fields of which ranks share only parts, and `N` random exchanges of such fields against the
//!   oracle, which take some seconds each
//! - `exported N`: `N` random exchanges of boxes and of unstructured domains on a device whose memory processes of a
//!   node can map, and the lifetime of that memory
//! - `cuda N`: `N` random exchanges of boxes and of unstructured domains on the first GPU, if there is one, and exchanges
//!   on its streams
//! - `sycl N`: the same on the device that `HALOPORT_SYCL_DEVICE` names
//! - `cuda-memory HANDLES N`: `N` random exchanges of boxes and of unstructured domains on CUDA devices, rank by rank,
//!   which may be a driver for tests, and the lifetime of memory that processes share by `fd`, `fabric` or `ipc`; `fd+ipc`: those of
//!   rank 0, of rank 1, and so on
//! - `stream-messages N`: the same in messages that streams send and receive, each rank on a GPU of its own, if there are
//!   as many
//! - `cuda-nodes N`: `N` random exchanges of each kind straight within nodes and in messages of streams between them, each rank
//!   on a GPU of its own; then a rank takes no part
//! - `sparse N`: `N` random sparse exchanges, and as many lines, against oracles
//! - `scheduled`: exchanges that end without a wait of the host, on the OpenCL device, if there is one; `scheduled
//!   funneled` and `scheduled serialized`: the same with that thread level
//! - `loaded FILE WORLD [OTHER]`: the conformance suite with the MPI library `FILE`, which the test loads by itself; its
//!   world is the number `WORLD` in Fortran. `OTHER` is the library of another MPI, which is only loaded.
//! - `repeated N`: `N` patterns, exchanges and plans that are made and dropped leave nothing
//! - `apart`: ranks share memory with those whose processes have numbers of the same namespace, and with no others
//! - `large`: messages above 2 GiB, of boxes and of unstructured domains, on 2 ranks

mod apart;
mod channels;
mod collectives;
mod cuda;
mod cuda_memory;
mod exported;
mod loaded;
mod on_device;
mod parts;
mod scheduled;
mod shared;
mod sources;
mod sycl;

use haloport_conformance::random::{numbers, sized};
use haloport_conformance::{
    accumulated, cubed_sphere, large, redistributed, repeated, same_bits, sets, structured, tripolar,
    unstructured, whole,
};
use haloport_core::Communicator;
use haloport_core::device::Device;
use haloport_core::transport::Transport;
use haloport_cpu::CpuDevice;
use haloport_mpi::plain::{self, ThreadLevel};

type Failure = haloport_core::Error;
type Outcome = Result<(), Failure>;

fn main() {
    haloport_mpi::install_abort_hook();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["scheduled", "funneled"] => within(ThreadLevel::Funneled, scheduled::suite),
        ["scheduled", "serialized"] => within(ThreadLevel::Serialized, scheduled::suite),
        ["loaded", file, world] => loaded::check(file, world, None),
        ["loaded", file, world, other] => loaded::check(file, world, Some(other)),
        ["funneled"] => within(ThreadLevel::Funneled, run),
        ["serialized"] => within(ThreadLevel::Serialized, run),
        [] => alone(run),
        _ => alone(|comm| words.split(|word| *word == "--").try_for_each(|test| chosen(comm, test))),
    };
    if let Err(error) = outcome {
        // A panic ends all ranks.
        panic!("{error}");
    }
}

/// Runs the test that these arguments choose.
fn chosen(comm: &Communicator, arguments: &[&str]) -> Outcome {
    match *arguments {
        ["suite"] => run(comm),
        ["cases", count] => cases(comm, count.parse()?),
        ["large-fields", count] => large_fields(comm, count.parse()?),
        ["sparse", count] => sparse(comm, count.parse()?),
        ["same-sums", "cpu"] => same_sums(comm, &CpuDevice::with_threads(1)?),
        ["same-sums", "sycl"] => sycl::device().map_or(Ok(()), |device| same_sums(comm, &device)),
        ["same-sums", "cuda"] => cuda::device()?.map_or(Ok(()), |device| same_sums(comm, &device)),
        ["exported", count] => exported::suite(comm, count.parse()?),
        ["sycl", count] => sycl::suite(comm, count.parse()?),
        ["cuda", count] => cuda::suite(comm, count.parse()?),
        ["cuda-memory", handles, count] => cuda_memory::suite(comm, handles, count.parse()?),
        ["stream-messages", count] => cuda::stream_messages(comm, count.parse()?),
        ["cuda-nodes", count] => cuda::nodes(comm, count.parse()?),
        ["apart"] => apart::check(comm),
        ["repeated", count] => repeated::check(comm, &CpuDevice::with_threads(1)?, count.parse()?),
        ["large"] => {
            large::check(comm, &CpuDevice::with_threads(1)?)?;
            large::check_indices(comm, &CpuDevice::with_threads(1)?, large::LEVELS)
        }
        ["scheduled"] => scheduled::suite(comm),
        _ => Err(format!("expected the arguments in the head of this file, found {arguments:?}").into()),
    }
}

/// Runs `body` with MPI initialised by the crate.
fn alone(body: impl FnOnce(&Communicator) -> Outcome) -> Outcome {
    let session = haloport_mpi::initialize()?;
    assert!(haloport_mpi::initialize().is_err(), "MPI cannot be initialised twice");
    body(&session.world()?)
}

/// Runs `body` with MPI initialised and finalised by the test.
fn within(level: ThreadLevel, body: impl FnOnce(&Communicator) -> Outcome) -> Outcome {
    // SAFETY: this process has one thread.
    unsafe { plain::initialize(level)? };
    assert!(plain::thread_level()? <= level);
    // SAFETY: the world lives until MPI is finalised.
    let comm = unsafe { haloport_mpi::from_raw(plain::world()?)? };
    body(&comm)?;
    drop(comm);
    // SAFETY: this thread has initialised MPI, and all others have ended.
    unsafe { plain::finalize()? };
    Ok(())
}

fn run(comm: &Communicator) -> Outcome {
    if comm.rank() == 0 {
        println!("{:?}", comm.info());
    }
    suite(comm)?;

    // Two groups of ranks, which run independently.
    // SAFETY: MPI was initialised for calls from this thread; the part is never freed.
    let half = unsafe {
        let part = plain::split_world((comm.rank() % 2) as i32, -(comm.rank() as i32))?;
        haloport_mpi::from_raw(part)?
    };
    assert_eq!(half.size(), (comm.size() + 1 - comm.rank() % 2) / 2);
    suite(&half)?;
    drop(half);
    comm.barrier()?;

    // A second communicator of the same ranks, from a raw handle.
    // SAFETY: the world lives until MPI is finalised, after this.
    let second = unsafe { haloport_mpi::from_raw(plain::world()?)? };
    suite(&second)?;
    suite(comm)?;
    if comm.rank() == 0 {
        println!("{} ranks: passed", comm.size());
    }
    Ok(())
}

/// The transport under a communicator.
fn bare(comm: &Communicator) -> &dyn Transport {
    // SAFETY: the tests use tags that no exchange has, and the channels that they have opened. All ranks call the same
    // collective of it, and no other collective meanwhile.
    unsafe { &**comm.raw_transport() }
}

fn suite(comm: &Communicator) -> Outcome {
    haloport_conformance::transport::suite(comm)?;
    haloport_conformance::out_of_step::check(comm, &CpuDevice::with_threads(1)?)?;
    channels::wrong_lengths(comm)?;
    channels::close_sending(comm)?;
    collectives::random_rounds(comm, 100)?;
    collectives::from_threads(comm)?;
    shared::fallbacks(comm)?;
    shared::in_turns(comm)?;
    shared::moved(comm)?;
    shared::moved_in_part(comm)?;
    sources::large_sources(comm)?;
    shared::handles(comm)?;
    shared::gone_neighbour(comm)?;
    collectives::messages_from_threads(comm)?;
    comm.barrier()?;
    Ok(())
}

fn same_sums<D: Device>(comm: &Communicator, device: &D) -> Outcome {
    for number in numbers(50) {
        same_bits::of_all_ranks(comm, device, number)?;
        same_bits::in_the_order_of_ids(comm, device, number)?;
    }
    if comm.rank() == 0 {
        println!(
            "{} ranks on {}: 50 exact sums, and those of 50 meshes in the order of ids, are right",
            comm.size(),
            device.info().name
        );
    }
    Ok(())
}

fn cases(comm: &Communicator, count: u64) -> Outcome {
    let device = CpuDevice::with_threads(1)?;
    let (ranks, fewer) = (comm.size(), count.div_ceil(3));
    for (number, size) in sized(count) {
        structured::check(comm, &device, &structured::Case::new(number, ranks, size))?;
        redistributed::check(comm, &device, number, size)?;
        accumulated::check(comm, &device, number, size)?;
        sets::check(comm, &device, number, size)?;
    }
    for (number, size) in sized(fewer) {
        same_bits::of_halos(comm, &device, &device, (number, size), 2)?;
        whole::check(comm, &device, number, size)?;
    }
    for (number, size) in sized(fewer) {
        let case = unstructured::Case::new(number, ranks, size);
        unstructured::check(comm, &device, &case)?;
        let case = cubed_sphere::Case::new(number, ranks, size)?;
        cubed_sphere::check(comm, &device, &case)?;
        let case = tripolar::Case::new(number, ranks, size);
        tripolar::check(comm, &device, &case)?;
    }
    for number in numbers(fewer) {
        structured::check(comm, &device, &structured::Case::planes(number, ranks))?;
    }
    for number in numbers(count.div_ceil(20)) {
        structured::interleaved(comm, &device, number)?;
    }
    // SAFETY: the world lives until MPI is finalised, after this.
    let outside = unsafe { haloport_mpi::from_raw(plain::world()?)? };
    for number in numbers(fewer.div_ceil(20)) {
        unstructured::interleaved(comm, &device, number)?;
    }
    shared::nothing_to_copy(comm, &outside)?;
    for number in numbers(fewer.div_ceil(3)) {
        structured::uneven(comm, &outside, &device, number)?;
        unstructured::uneven(comm, &outside, &device, number)?;
    }
    comm.barrier()?;
    if comm.rank() == 0 {
        let near = (0..ranks).filter(|&peer| comm.is_near(peer)).count();
        println!(
            "{ranks} ranks, {near} near rank 0: {count} random exchanges of boxes, redistributions and accumulations match \
             the oracle, {fewer} exchanges of unstructured domains, and {fewer} each on cubed spheres and folded grids"
        );
    }
    Ok(())
}

fn large_fields(comm: &Communicator, count: u64) -> Outcome {
    parts::suite(comm)?;
    let device = CpuDevice::with_threads(1)?;
    for number in numbers(count) {
        structured::check(comm, &device, &structured::Case::slabs(number, comm.size()))?;
    }
    comm.barrier()?;
    if comm.rank() == 0 {
        println!("{} ranks: {count} random exchanges of large fields match the oracle", comm.size());
    }
    Ok(())
}

fn sparse(comm: &Communicator, count: u64) -> Outcome {
    let device = CpuDevice::with_threads(1)?;
    for number in numbers(count) {
        haloport_conformance::sparse::check(comm, &device, number)?;
        haloport_conformance::line::check(comm, number)?;
    }
    comm.barrier()?;
    if comm.rank() == 0 {
        println!("{} ranks: {count} random sparse exchanges and lines match the oracles", comm.size());
    }
    Ok(())
}
