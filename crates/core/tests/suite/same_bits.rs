//! Sums at the vertices of a mesh that have the same bits on any number of ranks: of whole numbers of a unit.

use std::collections::BTreeSet;

use crate::common::*;
use haloport_core::device::Combine;
use haloport_core::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const VERTICES: usize = 60;

/// A rank for each of `count` vertices or triangles.
fn drawn(random: &mut StdRng, ranks: usize, count: usize) -> Vec<usize> {
    (0..count).map(|_| random.random_range(0..ranks)).collect()
}

/// The sums of all vertices of a mesh on `ranks` ranks: `values` has three of each triangle of `triangles`. Triangles and vertices
/// lie on ranks that `random` chooses; vertices of a triangle on another rank are in the halo.
fn assembled<T: Element + std::ops::AddAssign + Default>(
    random: &mut StdRng,
    ranks: usize,
    triangles: &[[usize; 3]],
    values: &[[T; 3]],
) -> Vec<T> {
    let (owners, places) = (drawn(random, ranks, VERTICES), drawn(random, ranks, triangles.len()));
    let parts = run_ranks(ranks, |comm| -> Result<_, Failure> {
        let mine = |triangle: &usize| places[*triangle] == comm.rank();
        let touched = (0..triangles.len()).filter(mine).flat_map(|triangle| triangles[triangle]);
        let touched: BTreeSet<usize> = touched.filter(|vertex| owners[*vertex] != comm.rank()).collect();
        let owned: Vec<usize> = (0..VERTICES).filter(|vertex| owners[*vertex] == comm.rank()).collect();
        let ids: Vec<usize> = owned.iter().chain(&touched).copied().collect();
        let numbers: Vec<i64> = ids.iter().map(|id| *id as i64).collect();
        let (mine_ids, others) = numbers.split_at(owned.len());
        let pattern = Pattern::unstructured(&comm, &[IndexSet::new(mine_ids, others)], &HaloCells::All)?;
        let mut sums = vec![T::default(); ids.len()];
        for triangle in (0..triangles.len()).filter(mine) {
            for (vertex, value) in triangles[triangle].iter().zip(&values[triangle]) {
                let place = ids.iter().position(|id| id == vertex).ok_or("no such vertex")?;
                sums[place] += *value;
            }
        }
        let mut field = Field::<T, _>::new(&device()?, &pattern)?;
        field.copy_from(0, &sums)?;
        let mut exchange = pattern.bind_with(field, BindOptions::default().accumulate(Combine::Sum))?;
        exchange.run()?;
        let found = exchange.fields().to_vec(0)?;
        Ok(owned.into_iter().zip(found).collect::<Vec<_>>())
    })
    .unwrap();
    let mut sums: Vec<_> = parts.into_iter().flatten().collect();
    sums.sort_by_key(|(vertex, _)| *vertex);
    sums.into_iter().map(|(_, sum)| sum).collect()
}

#[test]
fn whole_numbers_of_a_unit_have_the_same_bits_on_any_number_of_ranks() {
    const UNIT: f64 = 1.0 / (1_u64 << 40) as f64;
    let mut random = StdRng::seed_from_u64(7);
    let triangles: Vec<[usize; 3]> =
        (0..150).map(|_| [(); 3].map(|()| random.random_range(0..VERTICES))).collect();
    let values: Vec<[f64; 3]> =
        triangles.iter().map(|_| [(); 3].map(|()| random.random_range(-9.0..9.0))).collect();
    let whole: Vec<[i64; 3]> =
        values.iter().map(|it| it.map(|value| (value / UNIT).round() as i64)).collect();
    let expected = assembled(&mut random, 1, &triangles, &whole);
    let (floats, mut differ) = (assembled(&mut random, 1, &triangles, &values), false);
    for (float, whole) in floats.iter().zip(&expected) {
        assert!((float - *whole as f64 * UNIT).abs() < 1e-9, "{float} of {whole}");
    }
    for ranks in 2..=8 {
        assert_eq!(assembled(&mut random, ranks, &triangles, &whole), expected, "on {ranks} ranks");
        differ |= assembled(&mut random, ranks, &triangles, &values) != floats;
    }
    assert!(differ, "floats have the same bits, so this proves nothing");
}
