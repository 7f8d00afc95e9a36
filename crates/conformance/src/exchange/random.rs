//! Many random exchanges on one device, with ranks as threads: the tests of each backend run them.
//!
//! Each function runs `total` cases on 1 to `most_ranks` ranks, the small ones first. A failure names its case.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use haloport_core::device::Device;
use haloport_core::{Communicator, run_ranks, threads};

use super::{
    accumulated, cubed_sphere, large, redistributed, same_bits, sets, sparse, structured, tripolar,
    unstructured, whole,
};
use crate::Failure;
use crate::setting::setting;

/// The number of cases of one run: `HALOPORT_CASES`, or `usual` if that is not set.
///
/// # Panics
/// If `HALOPORT_CASES` is no number.
pub fn cases(usual: u64) -> u64 {
    setting("HALOPORT_CASES", usual)
}

/// The numbers of `count` random cases: from one that `HALOPORT_TEST_SEED` gives, or from 0 if that is not set.
///
/// # Panics
/// If `HALOPORT_TEST_SEED` is no number.
pub fn numbers(count: u64) -> Range<u64> {
    // Dates give different cases each day. Not larger, since cases multiply their numbers.
    let first = setting("HALOPORT_TEST_SEED", 0) % 1_000_000 * 10_000;
    first..first + count
}

/// The same with the size of each case, 1 to 10: small ones come first.
///
/// # Panics
/// As [`numbers`].
pub fn sized(count: u64) -> impl Iterator<Item = (u64, usize)> {
    numbers(count).zip(0..).map(move |(number, at)| (number, 1 + (at * 10 / count) as usize))
}

/// Structured domains, against the global oracle.
///
/// # Errors
/// The first case that failed, and why.
pub fn boxes<D: Device>(device: &D, total: u64, most_ranks: usize) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, size| {
        structured::check(comm, device, &structured::Case::new(number, comm.size(), size))
    })
}

/// Unstructured domains, against the global oracle.
///
/// # Errors
/// As for [`boxes`].
pub fn lists<D: Device>(device: &D, total: u64, most_ranks: usize) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, size| {
        unstructured::check(comm, device, &unstructured::Case::new(number, comm.size(), size))
    })
}

/// Cubed spheres, against geometry.
///
/// # Errors
/// As for [`boxes`].
pub fn cubed_spheres<D: Device>(device: &D, total: u64, most_ranks: usize) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, size| {
        cubed_sphere::check(comm, device, &cubed_sphere::Case::new(number, comm.size(), size)?)
    })
}

/// Folded grids, against the places of their points.
///
/// # Errors
/// As for [`boxes`].
pub fn tripolar_grids<D: Device>(device: &D, total: u64, most_ranks: usize) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, size| {
        tripolar::check(comm, device, &tripolar::Case::new(number, comm.size(), size))
    })
}

/// Halos that are accumulated, of domains of all kinds.
///
/// # Errors
/// As for [`boxes`].
pub fn accumulated<D: Device>(device: &D, total: u64, most_ranks: usize) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, size| accumulated::check(comm, device, number, size))
}

/// Sums of halos, `runs` times on each path, which have the bits of those on `reference`. Does nothing if `device` adds nothing.
///
/// # Errors
/// As for [`boxes`].
pub fn same_bits<D: Device, R: Device>(
    device: &D,
    reference: &R,
    total: u64,
    most_ranks: usize,
    runs: usize,
) -> Result<(), Failure> {
    if device.combining().is_none() {
        println!("skipped: {} adds no halos", device.id());
        return Ok(());
    }
    each(total, most_ranks, |comm, number, size| {
        same_bits::of_halos(comm, device, reference, (number, size), runs)
    })
}

/// Exact sums of terms in memory of a device, on random ranks.
///
/// # Errors
/// As for [`boxes`].
pub fn exact_sums<D: Device>(device: &D, total: u64, most_ranks: usize) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, _| same_bits::of_all_ranks(comm, device, number))
}

/// Sums at the vertices of a random mesh, which their owners add in the order of the triangles' ids.
///
/// # Errors
/// As for [`boxes`].
pub fn sums_in_the_order_of_ids<D: Device>(device: &D, total: u64, most_ranks: usize) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, _| same_bits::in_the_order_of_ids(comm, device, number))
}

/// Cells that go from their owners in one pattern to those in another one, of domains of all kinds.
///
/// # Errors
/// As for [`boxes`].
pub fn redistributed<D: Device>(device: &D, total: u64, most_ranks: usize) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, size| redistributed::check(comm, device, number, size))
}

/// All cells as one array on one rank, and back.
///
/// # Errors
/// As for [`boxes`].
pub fn whole_arrays<D: Device>(device: &D, total: u64, most_ranks: usize) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, size| whole::check(comm, device, number, size))
}

/// Fields of several patterns in one exchange, of domains of all kinds.
///
/// # Errors
/// As for [`boxes`].
pub fn sets<D: Device>(device: &D, total: u64, most_ranks: usize) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, size| sets::check(comm, device, number, size))
}

/// Fields of two devices in one exchange, against the global oracle.
///
/// # Errors
/// As for [`boxes`].
pub fn two_devices<D: Device, E: Device>(
    device: &D,
    other: &E,
    total: u64,
    most_ranks: usize,
) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, size| {
        let boxes = structured::Case::new(number, comm.size(), size);
        structured::check_on(comm, device, other, &boxes)?;
        structured::check_on(comm, other, device, &boxes)?;
        unstructured::check_on(comm, device, other, &unstructured::Case::new(number, comm.size(), size))
    })
}

/// Exchanges of structured and unstructured domains in flight at once.
///
/// # Errors
/// As for [`boxes`].
pub fn in_flight_at_once<D: Device>(device: &D, total: u64, most_ranks: usize) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, _| {
        structured::interleaved(comm, device, number)?;
        unstructured::interleaved(comm, device, number)
    })
}

/// Exchanges of structured and unstructured domains between ranks that take unequal times, and meet outside the library
/// before or after `finish`.
///
/// # Errors
/// As for [`boxes`].
pub fn uneven_ranks<D: Device>(device: &D, total: u64, most_ranks: usize) -> Result<(), Failure> {
    for ranks in 2..=most_ranks {
        // Taken by the rank of the same number.
        let outside: Vec<_> = threads(ranks)?.into_iter().map(|comm| Mutex::new(Some(comm))).collect();
        run_ranks(ranks, |comm| {
            let mut place = outside[comm.rank()].lock().unwrap_or_else(PoisonError::into_inner);
            let outside = place.take().ok_or("each rank has one")?;
            numbers(total.div_ceil(most_ranks as u64 - 1)).try_for_each(|number| {
                structured::uneven(&comm, &outside, device, number)?;
                unstructured::uneven(&comm, &outside, device, number)
            })
        })?;
    }
    println!("{total} random exchanges between uneven ranks, 2 to {most_ranks}, are right");
    Ok(())
}

/// Sparse exchanges while exchanges of halos are in flight, against an oracle.
///
/// # Errors
/// As for [`boxes`].
pub fn sparse_exchanges<D: Device>(device: &D, total: u64, most_ranks: usize) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, _| sparse::check(comm, device, number))
}

/// More than 2^19 indices for one neighbour.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn many_indices<D: Device>(device: &D) -> Result<(), Failure> {
    run_ranks(2, |comm| large::check_indices(&comm, device, 1))?;
    Ok(())
}

/// Checks `total` cases on 1 to `most_ranks` ranks, many with the same threads. No two have the same number, so that a few of them
/// are of each kind.
pub(crate) fn each(
    total: u64,
    most_ranks: usize,
    check: impl Fn(&Communicator, u64, usize) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let per_count = total.div_ceil(most_ranks as u64);
    for ranks in 1..=most_ranks {
        let before = (ranks as u64 - 1) * per_count;
        run_ranks(ranks, |comm| {
            sized(per_count).try_for_each(|(number, size)| check(&comm, before + number, size))
        })?;
    }
    println!("{} random exchanges on 1 to {most_ranks} ranks are right", per_count * most_ranks as u64);
    Ok(())
}
