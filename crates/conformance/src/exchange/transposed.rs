//! Exchanges and their transposes, which have one product with any values.
//!
//! An exchange E fills halos from their owners; its transpose adds halos to their owners, and sets them to zero. For all values x and y
//! of all elements in memory, the product of E x and y is that of x and the transpose of y: in whole numbers, exactly.

use haloport_core::device::{Combine, Device, MemoryKind};
use haloport_core::transport::Reduction;
use haloport_core::{AnyField, ElementType, Pattern};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::any_kind::random_path;
use crate::oracle::FieldMaker;
use crate::{Failure, ensure};

/// Collective: compares both products for random values of a field. Does nothing on a device that adds nothing.
pub(super) fn check<D: Device, M: FieldMaker>(
    device: &D,
    pattern: &Pattern,
    maker: &M,
    number: u64,
) -> Result<(), Failure> {
    if device.combining().is_none() {
        return Ok(());
    }
    let (comm, maker) = (pattern.comm(), maker.with_element(ElementType::I64));
    // The same on all ranks.
    let path = random_path(&mut StdRng::seed_from_u64(number ^ 0x94D0_49BB_1331_11EB));
    let mut own = StdRng::seed_from_u64(number.rotate_left(32) ^ comm.rank() as u64);
    let mut random = || -> Result<_, Failure> {
        let mut field = maker.build(device, pattern, MemoryKind::Device)?;
        let mut draw = |block: &Vec<i64>| block.iter().map(|_| own.random_range(-99..=99)).collect();
        let values = elements(&field)?.iter().map(&mut draw).collect::<Vec<Vec<i64>>>();
        for (domain, values) in values.iter().enumerate() {
            field.copy_from_bytes(domain, bytemuck::cast_slice(values))?;
        }
        Ok((field, values))
    };
    let ((field_x, x), (field_y, y)) = (random()?, random()?);
    let mut exchange = pattern.bind_with(field_x, path())?;
    exchange.run_blocking()?;
    let mut transpose = pattern.bind_with(field_y, path().accumulate(Combine::Sum).zero_halo(true))?;
    transpose.run_blocking()?;
    let products = [product(&elements(exchange.fields())?, &y), product(&x, &elements(transpose.fields())?)];
    let [of_exchange, of_transpose] = comm.all_reduce(products, Reduction::Sum)?;
    ensure!(
        of_exchange == of_transpose,
        "the product with the exchange is {of_exchange}, that with its transpose {of_transpose}"
    );
    Ok(())
}

fn product(a: &[Vec<i64>], b: &[Vec<i64>]) -> i64 {
    a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| a * b).sum()
}

/// The elements of each block in memory.
fn elements<D: Device>(field: &AnyField<D>) -> Result<Vec<Vec<i64>>, Failure> {
    let domains = 0..field.domain_count();
    let of_domain = |domain| {
        let bytes = field.to_bytes(domain)?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| i64::from_ne_bytes(*bytes)).collect())
    };
    domains.map(of_domain).collect()
}
