//! Sums of floats that have the same bits: of halos in each run, on each path and on each device; of all ranks, and at the vertices of
//! a mesh, on any number of ranks.

use std::time::Duration;

use haloport_core::device::{Buffer, Combine, Device, MemoryKind};
use haloport_core::{BindOptions, Communicator, DataPath, ElementType, Field, HaloCells, IndexSet, Pattern};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::any_kind::{OnCase, on_case};
use crate::oracle::FieldMaker;
use crate::{Failure, ensure};

/// Collective: adds halos of random floats to their owners on `device`, `runs` times on each path and with ranks that are late, and
/// on `reference`.
///
/// # Errors
/// The first block with other bits, or the error of a call.
pub fn of_halos<D: Device, R: Device>(
    comm: &Communicator,
    device: &D,
    reference: &R,
    (number, size): (u64, usize),
    runs: usize,
) -> Result<(), Failure> {
    let is_wide = number % 8 < 4 && device.info().double_precision;
    let element = if is_wide { ElementType::F64 } else { ElementType::F32 };
    on_case(comm, number, size, &Halos { device, reference, number, element, runs })
}

struct Halos<'d, D, R> {
    device: &'d D,
    reference: &'d R,
    number: u64,
    element: ElementType,
    runs: usize,
}

impl<D: Device, R: Device> OnCase for Halos<'_, D, R> {
    fn run<M: FieldMaker>(&self, pattern: &Pattern, makers: &[M]) -> Result<(), Failure> {
        let maker = makers[0].with_element(self.element);
        let mut pauses = StdRng::seed_from_u64(self.number ^ pattern.comm().rank() as u64);
        let expected = self.sums(self.reference, pattern, &maker, DataPath::Messages, &mut pauses)?;
        for path in [DataPath::Quickest, DataPath::Direct, DataPath::Shared, DataPath::Messages] {
            for run in 0..self.runs {
                let found = self.sums(self.device, pattern, &maker, path, &mut pauses)?;
                let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
                ensure!(differs.is_none(), "run {run} on {path:?}: other bits in domain {differs:?}");
            }
        }
        Ok(())
    }
}

impl<D, R> Halos<'_, D, R> {
    /// The bytes of each domain after an exchange of random values.
    fn sums<E: Device, M: FieldMaker>(
        &self,
        device: &E,
        pattern: &Pattern,
        maker: &M,
        path: DataPath,
        pauses: &mut StdRng,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let rank = pattern.comm().rank() as u64;
        let mut random = StdRng::seed_from_u64(self.number ^ (rank << 40));
        let mut field = maker.build(device, pattern, MemoryKind::Device)?;
        for domain in 0..field.domain_count() {
            let elements = field.to_bytes(domain)?.len() / self.element.bytes();
            let bytes: Vec<u8> = (0..elements).flat_map(|_| self.value(&mut random)).collect();
            field.copy_from_bytes(domain, &bytes)?;
        }
        let options = BindOptions::default().accumulate(Combine::Sum).prefer(path);
        // Messages are moved to memory of the host and from it, or not.
        let options = if pauses.random_bool(0.5) { options.staging_copy(0) } else { options };
        let mut exchange = pattern.bind_with(field, options)?;
        let mut pause = || {
            if pauses.random_bool(0.3) {
                std::thread::sleep(Duration::from_micros(pauses.random_range(0..200)));
            }
        };
        pause();
        let pending = exchange.start()?;
        pause();
        pending.finish()?;
        exchange.synchronize()?;
        (0..exchange.fields().domain_count()).map(|domain| Ok(exchange.fields().to_bytes(domain)?)).collect()
    }

    /// A value of any magnitude, so that another order of a sum has other bits.
    fn value(&self, random: &mut StdRng) -> Vec<u8> {
        let value = random.random_range(-1.0..1.0) * f64::from(random.random_range(0..20)).exp2();
        match self.element {
            ElementType::F64 => value.to_ne_bytes().to_vec(),
            _ => (value as f32).to_ne_bytes().to_vec(),
        }
    }
}

/// Collective: exact sums of terms that lie on random ranks, in memory of `device`: large ones, which cancel in pairs, and small ones,
/// whose sum is left.
///
/// # Errors
/// Another sum than that of whole numbers, or the error of a call.
pub fn of_all_ranks<D: Device>(comm: &Communicator, device: &D, number: u64) -> Result<(), Failure> {
    const UNIT: f64 = 1.0 / (1 << 20) as f64;
    // The same on all ranks.
    let mut random = StdRng::seed_from_u64(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 1);
    let small: Vec<i32> = (0..random.random_range(0..300)).map(|_| random.random_range(-99..=99)).collect();
    let expected = small.iter().map(|small| i64::from(*small)).sum::<i64>() as f64 * UNIT;
    let mut terms: Vec<f32> = small.iter().map(|small| (f64::from(*small) * UNIT) as f32).collect();
    for _ in 0..random.random_range(0..300) {
        let large = random.random_range(-1.0_f32..1.0) * (1_u64 << 40) as f32;
        terms.extend([large, -large]);
    }
    terms.shuffle(&mut random);
    let ranks = comm.size();
    let on_this_rank: Vec<f32> =
        terms.into_iter().filter(|_| random.random_range(0..ranks) == comm.rank()).collect();
    let on_this_rank = through(device, &on_this_rank)?;
    let wide: Vec<f64> = on_this_rank.iter().copied().map(f64::from).collect();
    for found in [comm.sum_exact(&on_this_rank)?, comm.sum_exact(&wide)?] {
        let same = found.to_bits() == expected.to_bits();
        ensure!(same, "case {number} on {ranks} ranks: the exact sum is {found:e}, expected {expected:e}");
    }
    Ok(())
}

/// The triangles of the mesh of [`in_the_order_of_ids`], and its vertices.
const TRIANGLES: usize = 150;
const VERTICES: usize = 60;

/// Collective: what the triangles of a random mesh give to its vertices, added by the owners of vertices in the order of the triangles'
/// ids, after an exchange of what triangles give, in memory of `device`. Triangles and vertices lie on random ranks.
///
/// # Errors
/// A sum with other bits than on one rank, or the error of a call.
pub fn in_the_order_of_ids<D: Device>(comm: &Communicator, device: &D, number: u64) -> Result<(), Failure> {
    // The same on all ranks.
    let mut random = StdRng::seed_from_u64(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 2);
    let triangles: Vec<[usize; 3]> =
        (0..TRIANGLES).map(|_| [(); 3].map(|()| random.random_range(0..VERTICES))).collect();
    // Digits of small ones are lost, or not, by the order.
    let mut value = || random.random_range(-9.0..9.0) * 10.0_f64.powi(random.random_range(-12..12));
    let values: Vec<[f64; 3]> = (0..TRIANGLES).map(|_| [(); 3].map(|()| value())).collect();
    let sums = |terms: &mut dyn Iterator<Item = (usize, [f64; 3])>| {
        let mut sums = [0.0; VERTICES];
        for (triangle, given) in terms {
            triangles[triangle].iter().zip(given).for_each(|(vertex, value)| sums[*vertex] += value);
        }
        sums.map(f64::to_bits)
    };
    let expected = sums(&mut values.iter().copied().enumerate());
    let reversed = sums(&mut values.iter().copied().enumerate().rev());
    ensure!(reversed != expected, "case {number}: sums do not depend on the order, so this proves nothing");

    let mut ranks_of =
        |count| (0..count).map(|_| random.random_range(0..comm.size())).collect::<Vec<usize>>();
    let (owners, places) = (ranks_of(VERTICES), ranks_of(TRIANGLES));
    let is_own = |vertex: &usize| owners[*vertex] == comm.rank();
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for triangle in 0..TRIANGLES {
        if places[triangle] == comm.rank() {
            own.push(triangle as i64);
        } else if triangles[triangle].iter().any(is_own) {
            others.push(triangle as i64);
        }
    }
    own.shuffle(&mut random);
    let pattern = Pattern::unstructured(comm, &[IndexSet::new(&own, &others)], &HaloCells::All)?;
    let mut given = Field::<f64, _>::builder(&pattern).further_axes([3]).build(device)?;
    let of_own: Vec<[f64; 3]> = own.iter().map(|triangle| values[*triangle as usize]).collect();
    let unknown = vec![[f64::NAN; 3]; others.len()];
    given.copy_from(0, [of_own, unknown].concat().as_flattened())?;
    let mut exchange = pattern.bind(given)?;
    exchange.run()?;

    let given = exchange.fields().to_vec(0)?;
    let ids = own.iter().chain(&others).map(|triangle| *triangle as usize);
    let mut in_order: Vec<_> = ids.zip(given.as_chunks().0.iter().copied()).collect();
    in_order.sort_by_key(|(triangle, _)| *triangle);
    let found = sums(&mut in_order.into_iter());
    for vertex in (0..VERTICES).filter(is_own) {
        let (found, expected) = (found[vertex], expected[vertex]);
        ensure!(
            found == expected,
            "case {number} on {} ranks: the sum at vertex {vertex} is {:e}, expected {:e}",
            comm.size(),
            f64::from_bits(found),
            f64::from_bits(expected)
        );
    }
    Ok(())
}

/// Values that were written to memory of a device, and read from it.
fn through<D: Device>(device: &D, values: &[f32]) -> Result<Vec<f32>, Failure> {
    let mut found = vec![0.0; values.len()];
    let buffer = device.allocate(size_of_val(values).max(1), MemoryKind::Device)?;
    let stream = device.default_stream();
    // SAFETY: the buffer has room for the values, and nothing else uses it.
    unsafe { device.write(bytemuck::cast_slice(values), buffer.pointer(), &stream)? };
    // SAFETY: as before.
    unsafe { device.read(buffer.pointer(), bytemuck::cast_slice_mut(&mut found), &stream)? };
    Ok(found)
}
