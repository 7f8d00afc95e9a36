//! Halos that are accumulated, of random domains and fields, against an oracle that knows no pieces.
//!
//! An exchange of numbers that are all different, from owners to halos, tells which element each halo element comes from, and
//! with which sign. What must come back is then reckoned element by element on one list of all ranks. Values are small whole
//! numbers, so that no order of sums changes their bits. Then the product of an exchange and its transpose is compared.

use std::collections::HashMap;
use std::time::Duration;

use half::{bf16, f16};
use haloport_core::device::{Combine, Device, MemoryKind};
use haloport_core::{AnyField, Communicator, ElementType, Pattern};
use num_complex::Complex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::any_kind::{OnCase, on_case, random_path};
use super::transposed;
use crate::oracle::FieldMaker;
use crate::{Failure, ensure};

/// Collective: accumulates the fields of a case with this number, at most two of them.
///
/// # Errors
/// The first element that is wrong on this rank, or the error of a call.
pub fn check<D: Device>(comm: &Communicator, device: &D, number: u64, size: usize) -> Result<(), Failure> {
    on_case(comm, number, size, &Oracle { device, number })
}

struct Oracle<'d, D> {
    device: &'d D,
    number: u64,
}

impl<D: Device> OnCase for Oracle<'_, D> {
    fn run<M: FieldMaker>(&self, pattern: &Pattern, makers: &[M]) -> Result<(), Failure> {
        check_fields(self.device, pattern, &makers[..makers.len().min(2)], self.number)?;
        transposed::check(self.device, pattern, &makers[0], self.number)
    }
}

/// For each element of a block the number of the element that it comes from, and whether the sign changes; `None` if it is
/// no halo.
type Sources = Vec<Vec<Option<(i64, bool)>>>;

/// Contributions of a rank: the element to which each goes, and its value.
type Contributions = Vec<(i64, i64)>;

/// What the elements of a field on this rank must be.
struct Model {
    sources: Sources,
    values: Vec<Vec<i64>>,
}

fn check_fields<D: Device, M: FieldMaker>(
    device: &D,
    pattern: &Pattern,
    makers: &[M],
    number: u64,
) -> Result<(), Failure> {
    let comm = pattern.comm();
    // The same on all ranks.
    let mut random = StdRng::seed_from_u64(number.wrapping_mul(0xA076_1D64_78BD_642F) ^ comm.size() as u64);
    let combines: Vec<Combine> = [Combine::Sum, Combine::Min, Combine::Max, Combine::Replace]
        .into_iter()
        .filter(|combine| makers.iter().all(|maker| combine.is_defined_for(maker.element())))
        .filter(|combine| device.combining().is_some() || *combine == Combine::Replace)
        .collect();
    let combine = combines[random.random_range(0..combines.len())];
    let path = random_path(&mut random);
    let zero_halo = number % 8 < 4;
    let options = || path().accumulate(combine).zero_halo(zero_halo);
    let is_plan = random.random_bool(0.5);

    let mut own = StdRng::seed_from_u64(number ^ ((comm.rank() as u64) << 40));
    let mut fields = Vec::new();
    let mut models = Vec::new();
    for maker in makers {
        let mut field = maker.build(device, pattern, MemoryKind::Device)?;
        let model = Model::random(sources(device, pattern, maker)?, field.element(), &mut own);
        write(&mut field, &model.values)?;
        fields.push(field);
        models.push(model);
    }
    let (any, several) = owners_of_several(comm, &models)?;
    if combine == Combine::Replace && !any {
        // Without levels, no element tells whether cells have several halo cells.
        return Ok(());
    }
    if combine == Combine::Replace && several {
        let refused = pattern.bind_with(&mut fields, options()).err().map(|error| error.to_string());
        ensure!(
            refused.as_ref().is_some_and(|text| text.contains("several halo cells belong to")),
            "a cell with several halo cells was to be replaced: {refused:?}"
        );
        return compare(&fields, &models);
    }
    if is_plan {
        let mut plan = pattern.plan_with(&mut fields, options())?;
        for _ in 0..2 {
            plan.run_blocking(&mut fields)?;
            models.iter_mut().try_for_each(|model| model.accumulate(comm, combine, zero_halo))?;
            compare(&fields, &models)?;
        }
        return Ok(());
    }
    let mut exchange = pattern.bind_with(fields, options())?;
    for _ in 0..3 {
        let pending = exchange.start()?;
        // Ranks that are late find messages in place of the halos of others.
        if own.random_bool(0.3) {
            std::thread::sleep(Duration::from_micros(own.random_range(0..200)));
        }
        pending.finish()?;
        exchange.synchronize()?;
        models.iter_mut().try_for_each(|model| model.accumulate(comm, combine, zero_halo))?;
        compare(exchange.fields(), &models)?;
    }
    Ok(())
}

/// Collective: fills halos with the numbers of the elements that they come from.
fn sources<D: Device, M: FieldMaker>(device: &D, pattern: &Pattern, maker: &M) -> Result<Sources, Failure> {
    let mut numbers = maker.with_element(ElementType::I64).build(device, pattern, MemoryKind::Device)?;
    let own = |domain: usize, at: usize| element_number(pattern.comm().rank(), domain, at);
    for domain in 0..numbers.domain_count() {
        let elements = numbers.to_bytes(domain)?.len() / size_of::<i64>();
        let bytes: Vec<u8> = (0..elements).flat_map(|at| own(domain, at).to_ne_bytes()).collect();
        numbers.copy_from_bytes(domain, &bytes)?;
    }
    let mut exchange = pattern.bind(numbers)?;
    exchange.run_blocking()?;
    let numbers = exchange.fields();
    let blocks = (0..numbers.domain_count()).map(|domain| {
        let bytes = numbers.to_bytes(domain)?;
        let found = bytes.as_chunks().0.iter().map(|bytes| i64::from_ne_bytes(*bytes)).enumerate();
        Ok(found.map(|(at, it)| (it != own(domain, at)).then_some((it.abs(), it < 0))).collect())
    });
    blocks.collect()
}

/// The number of an element of a block, from 1.
fn element_number(rank: usize, domain: usize, at: usize) -> i64 {
    1 + ((rank as i64) << 48) + ((domain as i64) << 32) + at as i64
}

/// Collective: whether there are halo elements, and whether any element is the owner of two of a field.
fn owners_of_several(comm: &Communicator, models: &[Model]) -> Result<(bool, bool), Failure> {
    let (mut any, mut several) = (false, false);
    for model in models {
        let mine: Vec<i64> = model.sources.iter().flatten().flatten().map(|(owner, _)| *owner).collect();
        let all = comm.gather(0, &mine)?.map(|all| {
            let mut all: Vec<i64> = all.into_iter().flatten().collect();
            all.sort_unstable();
            (!all.is_empty(), all.windows(2).any(|pair| pair[0] == pair[1]))
        });
        let found = comm.broadcast(0, &all.unwrap_or_default())?;
        (any, several) = (any | found.0, several | found.1);
    }
    Ok((any, several))
}

impl Model {
    fn random(sources: Sources, element: ElementType, random: &mut StdRng) -> Model {
        let least = if element.sign_change().is_some() { -3 } else { 0 };
        let mut drawn = |block: &Vec<_>| block.iter().map(|_| random.random_range(least..=3)).collect();
        let values = sources.iter().map(&mut drawn).collect();
        Model { sources, values }
    }

    /// Collective: an exchange.
    fn accumulate(&mut self, comm: &Communicator, combine: Combine, zero_halo: bool) -> Result<(), Failure> {
        let Model { sources, values } = self;
        let of_blocks = sources.iter().zip(&*values).flat_map(|(block, values)| block.iter().zip(values));
        let mine: Contributions = of_blocks
            .filter_map(|(source, value)| {
                source.map(|(owner, negative)| (owner, if negative { -value } else { *value }))
            })
            .collect();
        let all = comm.gather(0, &mine)?.map(|all| all.into_iter().flatten().collect::<Contributions>());
        let mut arrived: HashMap<i64, Vec<i64>> = HashMap::new();
        for (owner, value) in comm.broadcast(0, &all.unwrap_or_default())? {
            arrived.entry(owner).or_default().push(value);
        }
        for (domain, (block, values)) in sources.iter().zip(values).enumerate() {
            for (at, (source, value)) in block.iter().zip(values).enumerate() {
                if source.is_some() {
                    *value = if zero_halo { 0 } else { *value };
                    continue;
                }
                let arrived =
                    arrived.get(&element_number(comm.rank(), domain, at)).map_or(&[][..], Vec::as_slice);
                *value = match combine {
                    Combine::Sum => *value + arrived.iter().sum::<i64>(),
                    Combine::Min => arrived.iter().fold(*value, |least, value| least.min(*value)),
                    Combine::Max => arrived.iter().fold(*value, |largest, value| largest.max(*value)),
                    Combine::Replace => arrived.last().copied().unwrap_or(*value),
                };
            }
        }
        Ok(())
    }
}

fn write<D: Device>(field: &mut AnyField<D>, values: &[Vec<i64>]) -> Result<(), Failure> {
    let element = field.element();
    for (domain, values) in values.iter().enumerate() {
        let bytes: Vec<u8> = values.iter().flat_map(|value| encode(element, *value)).collect();
        field.copy_from_bytes(domain, &bytes)?;
    }
    Ok(())
}

fn compare<D: Device>(fields: &[AnyField<D>], models: &[Model]) -> Result<(), Failure> {
    for (number, (field, model)) in fields.iter().zip(models).enumerate() {
        let element = field.element();
        for (domain, values) in model.values.iter().enumerate() {
            let bytes = field.to_bytes(domain)?;
            for (at, (found, value)) in bytes.chunks(element.bytes()).zip(values).enumerate() {
                let expected = encode(element, *value);
                let is_zero = *value == 0 && found.iter().all(|byte| byte & 0x7f == 0);
                ensure!(
                    found == expected || is_zero,
                    "element {at} of domain {domain} of field {number} is {found:?}, expected {value}, {expected:?}, of {element}"
                );
            }
        }
    }
    Ok(())
}

/// A small whole number as an element; of a complex one, the imaginary part is twice as large.
fn encode(element: ElementType, value: i64) -> Vec<u8> {
    macro_rules! number {
        ($number:expr) => {
            bytemuck::bytes_of(&$number).to_vec()
        };
    }
    match element {
        ElementType::I8 => number!(value as i8),
        ElementType::I16 => number!(value as i16),
        ElementType::I32 => number!(value as i32),
        ElementType::I64 => number!(value),
        ElementType::I128 => number!(i128::from(value)),
        ElementType::U8 => number!(value as u8),
        ElementType::U16 => number!(value as u16),
        ElementType::U32 => number!(value as u32),
        ElementType::U64 => number!(value as u64),
        ElementType::U128 => number!(value as u128),
        ElementType::F16 => number!(f16::from_f64(value as f64)),
        ElementType::Bf16 => number!(bf16::from_f64(value as f64)),
        ElementType::F32 => number!(value as f32),
        ElementType::F64 => number!(value as f64),
        ElementType::Complex32 => number!(Complex { re: value as f32, im: 2.0 * value as f32 }),
        ElementType::Complex64 => number!(Complex { re: value as f64, im: 2.0 * value as f64 }),
        _ => {
            let mut bytes = value.to_ne_bytes().repeat(element.bytes().div_ceil(8));
            bytes.truncate(element.bytes());
            bytes
        }
    }
}
