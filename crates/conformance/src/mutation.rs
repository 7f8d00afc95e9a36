//! Damaged inputs for readers: with bits flipped, parts cut off, repeated or moved, or other numbers.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};

/// The most bytes of an input in which a part is repeated.
const LONGEST: usize = 64 << 10;

/// Numbers at the limits of types, or beyond them.
const EXTREMES: [i128; 16] = [
    0,
    1,
    -1,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1_000_000_000,
    1 << 40,
    i64::MAX as i128,
    i64::MIN as i128,
    u64::MAX as i128,
    1 << 64,
    i128::MAX,
];

/// Words that replace a number in a text.
const WORDS: [&str; 8] =
    ["nan", "inf", "-1e999", "1e-999", "", "-", "0.0000000000000000000001", "99999999999999999999999"];

/// One of the `originals`, changed in one to three places. The same `number` gives the same input.
pub fn mutated(originals: &[&[u8]], number: u64) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(number);
    let mut input = originals.choose(&mut random).map_or_else(Vec::new, |original| original.to_vec());
    for _ in 0..random.random_range(1..=3) {
        let donor = originals.choose(&mut random).copied().unwrap_or_default();
        mutate(&mut input, donor, &mut random);
    }
    input
}

fn mutate(input: &mut Vec<u8>, donor: &[u8], random: &mut StdRng) {
    if input.is_empty() {
        input.extend_from_slice(donor);
    }
    let part = range(input.len(), random);
    match random.random_range(0..9) {
        0 => {
            for _ in 0..random.random_range(1..=8) {
                let at = random.random_range(0..input.len().max(1));
                input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (random.next_u32() % 8));
            }
        }
        1 => input.truncate(part.start),
        2 => drop(input.drain(part)),
        3 => {
            let copied = donor[range(donor.len(), random)].to_vec();
            drop(input.splice(part, copied));
        }
        4 => {
            let copied = input[part.clone()].to_vec();
            let room = LONGEST.saturating_sub(input.len());
            let times = (room / copied.len().max(1)).min(random.random_range(1..=2000));
            drop(input.splice(part.end..part.end, copied.repeat(times)));
        }
        5 => {
            let byte = *b"0123456789 -.,:;()[]{}\"'\n\r\t\0$#%eE\xff".choose(random).unwrap_or(&0);
            input.iter_mut().skip(part.start).take(1).for_each(|here| *here = byte);
        }
        6 => set_binary(input, part.start, random),
        _ => set_decimal(input, part.start, random),
    }
}

/// A short range, mostly, of that many bytes.
fn range(length: usize, random: &mut StdRng) -> std::ops::Range<usize> {
    let start = random.random_range(0..=length);
    let most = if random.random_bool(0.8) { 32 } else { length };
    start..length.min(start + random.random_range(0..=most))
}

/// Overwrites a number of 1 to 8 bytes, in either order, by an extreme one.
fn set_binary(input: &mut [u8], at: usize, random: &mut StdRng) {
    let width = *[1, 2, 4, 8].choose(random).unwrap_or(&1);
    let number = *EXTREMES.choose(random).unwrap_or(&0);
    let mut bytes = number.to_le_bytes()[..width].to_vec();
    if random.random_bool(0.3) {
        bytes.reverse();
    }
    input.iter_mut().skip(at).zip(bytes).for_each(|(here, byte)| *here = byte);
}

/// Replaces the first number in digits from `at` on by an extreme one, or by what is none.
fn set_decimal(input: &mut Vec<u8>, at: usize, random: &mut StdRng) {
    let Some(start) = (at..input.len()).find(|&byte| input[byte].is_ascii_digit()) else { return };
    let end = (start..input.len()).find(|&byte| !input[byte].is_ascii_digit()).unwrap_or(input.len());
    let number = match random.random_bool(0.8) {
        true => EXTREMES.choose(random).unwrap_or(&0).to_string(),
        false => WORDS.choose(random).unwrap_or(&"").to_string(),
    };
    drop(input.splice(start..end, number.into_bytes()));
}
