//! A solver as a user writes it: the heat equation, with the interior computed while halos travel, on a device chosen
//! at run time. On any number of ranks, the field equals that of one rank bit for bit.

use haloport::device::Device;
use haloport::domain::Connectivity;
use haloport::field::FieldError;
use haloport::{
    AnyDevice, Communicator, Error, Exchange, Field, Grid, Halo, IndexBox, Pattern, Split, View, ViewMut,
    run_ranks,
};

const EXTENTS: [usize; 2] = [23, 17];
const STEPS: usize = 40;

#[test]
fn the_field_does_not_depend_on_the_number_of_ranks() {
    let one = solve(1);
    assert!(one.iter().any(|value| *value > 0.1) && one.iter().all(|value| value.is_finite()));
    for ranks in [2, 3, 4, 6] {
        let many = solve(ranks);
        let different = one.iter().zip(&many).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        assert_eq!(different, 0, "cells that differ between 1 and {ranks} ranks");
    }
}

/// The whole field after all steps.
fn solve(ranks: usize) -> Vec<f64> {
    let device = AnyDevice::select("cpu:threads=1").unwrap();
    let parts = run_ranks(ranks, |comm| on_rank(&comm, &device)).unwrap();
    parts.into_iter().next().unwrap()
}

/// The whole field on rank 0.
fn on_rank<D: Device>(comm: &Communicator, device: &D) -> Result<Vec<f64>, Error> {
    let grid = Grid::new(EXTENTS)?.periodic([true, true])?;
    let split = Split::balanced(&grid, comm.size())?;
    let mine = split.part(comm.rank()).ok_or("there is no such part")?;
    let halo = Halo::uniform(1).with_connectivity(Connectivity::Faces);
    let pattern = Pattern::structured(comm, &grid, &[mine], &halo)?;
    let bind =
        || -> Result<Exchange<Field<f64, D>>, Error> { Ok(pattern.bind(Field::new(device, &pattern)?)?) };
    let (mut now, mut next) = (bind()?, bind()?);
    now.fields_mut().view_mut(0)?.fill_with(|cell, _| if cell[0] * cell[1] % 7 == 3 { 1.0 } else { 0.0 });
    let regions = pattern.regions(0).ok_or("this rank has no domain")?;
    for _ in 0..STEPS {
        now.overlap(
            &mut next.fields_mut().view_mut(0)?,
            |pending, new| {
                let old = pending.owned(|field| field, 0)?;
                Ok(regions.interior.iter().try_for_each(|cells| step(cells, &old, new))?)
            },
            |field, new| {
                let old = field.view(0)?;
                Ok(regions.boundary.iter().try_for_each(|cells| step(cells, &old, new))?)
            },
        )?;
        std::mem::swap(&mut now, &mut next);
    }
    gather(comm, &mine, &now.fields().view(0)?)
}

fn step(cells: &IndexBox, old: &View<'_, f64>, new: &mut ViewMut<'_, f64>) -> Result<(), FieldError> {
    let around = old.rows_around(1, cells, [[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])?;
    for (new, [here, north, south, west, east]) in new.rows_mut(1, cells)?.zip(around) {
        let new = &mut new[..here.len()];
        for k in 0..here.len() {
            new[k] = here[k] + 0.2 * (north[k] + south[k] + west[k] + east[k] - 4.0 * here[k]);
        }
    }
    Ok(())
}

fn gather(comm: &Communicator, mine: &IndexBox, view: &View<'_, f64>) -> Result<Vec<f64>, Error> {
    let rows = mine.lower()[0]..mine.upper()[0];
    let cells: Vec<(usize, f64)> = rows
        .flat_map(|i| (mine.lower()[1]..mine.upper()[1]).map(move |j| (i, j)))
        .filter_map(|(i, j)| Some((i as usize * EXTENTS[1] + j as usize, view.get(&[i, j])?)))
        .collect();
    let mut whole = vec![0.0; EXTENTS[0] * EXTENTS[1]];
    for (at, value) in comm.sparse_exchange(&[(0, cells)])?.into_iter().flat_map(|(_, cells)| cells) {
        whole[at] = value;
    }
    Ok(whole)
}
