//! Views of cells: every kind of access to a cell reaches the same one, and none reaches beyond the view.

use crate::common::*;
use haloport_core::device::Pointer;
use haloport_core::*;
use haloport_cpu::CpuDevice;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A random layout of a random block. Its elements hold their offsets from the first one.
struct Block {
    memory: Vec<i64>,
    layout: BlockLayout,
}

impl Block {
    fn random(random: &mut StdRng) -> Block {
        let axes = random.random_range(1..=4);
        let lower: Vec<i64> = (0..axes).map(|_| random.random_range(-5..5)).collect();
        let upper: Vec<i64> = lower.iter().map(|lower| lower + random.random_range(1..6)).collect();
        let allocated = IndexBox::new(&lower, &upper);
        let components = random.random_range(1..=3);
        // Axes and components in any order in memory, some with gaps, some reversed.
        let mut order: Vec<usize> = (0..=axes).collect();
        (0..order.len()).for_each(|at| order.swap(at, random.random_range(0..=at)));
        let (mut strides, mut component_stride, mut next) = (vec![0; axes], 0, 1);
        for axis in order {
            let extent = if axis == axes { components } else { allocated.extent(axis) };
            let stride = if axis == axes { &mut component_stride } else { &mut strides[axis] };
            *stride = if random.random_bool(0.15) { -next } else { next };
            next = next * extent as i64 + i64::from(random.random_bool(0.2));
        }
        let layout = BlockLayout::new(allocated, allocated, strides, components, component_stride).unwrap();
        let (low, high) = layout.span();
        let memory = (low as i64..high as i64).collect();
        Block { memory, layout }
    }

    /// A field of the block. It must be dropped before the block, and before another field of it is made.
    fn field(&mut self) -> Field<i64, CpuDevice> {
        let first = self.memory.as_mut_ptr().wrapping_offset(-self.layout.span().0);
        let blocks = vec![(Pointer::new(first.cast()), self.layout.clone())];
        // SAFETY: the memory is as long as the layout's span, and each test drops the field before the block.
        unsafe { Field::from_raw(&device().unwrap(), blocks, true, Box::new(())) }
    }

    fn cells(&self) -> IndexBox {
        self.layout.allocated()
    }
}

fn cells(of: &IndexBox) -> Vec<Vec<i64>> {
    (0..of.axes()).fold(vec![Vec::new()], |cells, axis| {
        let along = of.lower()[axis]..of.upper()[axis];
        cells.iter().flat_map(|cell| along.clone().map(move |at| [&cell[..], &[at]].concat())).collect()
    })
}

/// `view[cell]` for any number of axes.
fn indexed(view: &View<'_, i64>, cell: &[i64]) -> i64 {
    match *cell {
        [i] => view[[i]],
        [i, j] => view[[i, j]],
        [i, j, k] => view[[i, j, k]],
        [i, j, k, l] => view[[i, j, k, l]],
        _ => panic!("{cell:?} has too many axes"),
    }
}

/// The cells of a box, row after row along `axis`.
fn in_rows(of: &IndexBox, axis: usize) -> Vec<Vec<i64>> {
    let firsts = of.with_axis(axis, of.lower()[axis], of.lower()[axis] + 1);
    let row = |first: Vec<i64>| {
        (of.lower()[axis]..of.upper()[axis]).map(move |at| {
            let mut cell = first.clone();
            cell[axis] = at;
            cell
        })
    };
    if of.is_empty() { Vec::new() } else { cells(&firsts).into_iter().flat_map(row).collect() }
}

#[test]
fn every_way_to_a_cell_leads_to_the_same_one() {
    let (mut with_rows, mut whole) = (0, 0);
    for number in 0..600 {
        let mut random = StdRng::seed_from_u64(number);
        let mut block = Block::random(&mut random);
        let (all, layout) = (block.cells(), block.layout.clone());
        let field = block.field();
        let view = field.view(0).unwrap();
        for component in 0..layout.components() {
            let one = view.of_component(component).unwrap();
            for cell in cells(&all) {
                let place = layout.offset(&cell, component).unwrap() as i64;
                assert_eq!(view.component(&cell, component), Some(place), "{number}");
                assert_eq!((one.get(&cell), indexed(&one, &cell)), (Some(place), place), "{number}");
            }
            // A box within the view, and the same box moved by one cell along each axis.
            let bounds = (0..all.axes()).map(|axis| {
                let lower = random.random_range(all.lower()[axis]..all.upper()[axis]);
                (lower, random.random_range(lower..=all.upper()[axis]))
            });
            let (lower, upper): (Vec<i64>, Vec<i64>) = bounds.unzip();
            let part = IndexBox::new(lower, upper);
            for axis in 0..all.axes() {
                let of = |cells: &IndexBox| -> Vec<i64> {
                    in_rows(cells, axis).iter().map(|cell| one.get(cell).unwrap()).collect()
                };
                match one.rows(axis, &part) {
                    Ok(rows) => {
                        assert_eq!(rows.len() * part.extent(axis), part.cells() as usize);
                        assert_eq!(rows.flatten().copied().collect::<Vec<_>>(), of(&part), "{number}");
                        with_rows += 1;
                    }
                    Err(error) => {
                        assert!(layout.strides()[axis] != 1 && part.extent(axis) > 1, "{number}: {error}");
                    }
                }
            }
            assert!(view.of_component(layout.components()).is_none());
        }
        match view.as_slice() {
            Some(slice) => {
                assert_eq!(slice.len() as u128, all.cells() * layout.components() as u128);
                whole += 1;
            }
            None => {
                let (low, high) = layout.span();
                let gaps = (high - low) as u128 > all.cells() * layout.components() as u128;
                assert!(gaps || low < 0, "{number}: {layout:?}");
            }
        }
    }
    assert!(with_rows > 200 && whole > 50, "{with_rows} cases have rows, {whole} lie in one piece");
}

#[test]
fn rows_that_are_written_are_the_cells_of_the_box_and_no_others() {
    for number in 0..300 {
        let mut random = StdRng::seed_from_u64(number);
        let mut block = Block::random(&mut random);
        let all = block.cells();
        let part = (0..all.axes()).fold(all, |part, axis| {
            let lower = random.random_range(all.lower()[axis]..all.upper()[axis]);
            part.with_axis(axis, lower, random.random_range(lower..=all.upper()[axis]))
        });
        let mut field = block.field();
        let mut view = field.view_mut(0).unwrap();
        for axis in 0..all.axes() {
            view.fill_with(|_, _| 0);
            let Ok(rows) = view.rows_mut(axis, &part) else { continue };
            rows.enumerate().for_each(|(number, row)| row.fill(1 + number as i64));
            let mut expected = in_rows(&part, axis).into_iter().enumerate();
            expected.clone().for_each(|(at, cell)| {
                assert_eq!(view.as_view().get(&cell), Some(1 + (at / part.extent(axis)) as i64), "{number}");
            });
            let written = cells(&all).into_iter().filter(|cell| view.as_view().get(cell) != Some(0));
            assert!(written.count() == expected.len() && expected.all(|(_, cell)| part.contains(&cell)));
        }
    }
}

/// A field of 4 × 6 cells with a margin of 1, in flight.
fn while_pending(body: impl Fn(&View<'_, f64>) + Sync) {
    run_ranks(1, |comm| {
        let grid = Grid::new([4, 6])?.periodic([true, false])?;
        let pattern = Pattern::structured(&comm, &grid, &[grid.bounds()], &Halo::uniform(1))?;
        let mut field = Numbers::new(&device()?, &pattern)?;
        field.view_mut(0)?.fill_with(|cell, _| (10 * cell[0] + cell[1]) as f64);
        let mut exchange = pattern.bind(field)?;
        let pending = exchange.start()?;
        body(&pending.owned(|field| field, 0)?);
        pending.finish()?;
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_view_in_flight_gives_no_slice_of_cells_that_it_does_not_hold() {
    while_pending(|view| {
        let region = IndexBox::new([0, -1], [4, 7]);
        assert_eq!(view.region(), region);
        // All columns: the region is contiguous, and ends where the halo begins.
        assert_eq!(view.as_slice().map(|slice| (slice.len(), slice[0], slice[31])), Some((32, -1.0, 36.0)));
        assert_eq!(view.row(&[3, 2]).map(<[f64]>::len), Some(5));
        let sums = view.rows_around(1, &IndexBox::new([1, 0], [3, 6]), [[-1, 0], [1, -1]]).unwrap();
        let sums: Vec<f64> = sums.flat_map(|[one, other]| [one[0] + other[5], one.len() as f64]).collect();
        assert_eq!(sums, [24.0, 6.0, 44.0, 6.0]);

        let text = |error: FieldError| error.to_string();
        let beyond = view.rows(1, &IndexBox::new([0, 0], [5, 6])).map(drop).map_err(text);
        assert!(
            beyond.unwrap_err().starts_with("the view has the cells 0..4 × -1..7, which are not all of 0..5")
        );
        let inner = IndexBox::new([0, 0], [4, 6]);
        for offset in [[-1, 0], [1, 0], [0, 2], [0, -2], [i64::MAX, 0], [0, i64::MIN]] {
            assert!(view.rows_around(1, &inner, [[0, 0], offset]).is_err(), "{offset:?}");
        }
        assert!(
            view.rows_around(1, &inner, [[0, 0, 0]]).is_err() && view.rows_around(1, &inner, [[0]]).is_err()
        );
        assert!(view.rows(2, &inner).is_err() && view.rows(1, &IndexBox::new([0], [4])).is_err());
        let strided = view.rows(0, &inner).map(drop).map_err(text).unwrap_err();
        assert_eq!(
            strided,
            "the stride of contiguous rows: expected 1 element from one cell to the next along axis 0, found 8"
        );
        let huge = IndexBox::new([i64::MIN, i64::MIN], [i64::MAX, i64::MAX]);
        assert!(view.rows(1, &huge).is_err());
        assert_eq!(view.rows(1, &inner.with_axis(0, 9, 9)).map(Iterator::count), Ok(0));
    });
}

#[test]
fn an_index_beyond_the_view_panics_and_names_both() {
    let message = |index: fn(&View<'_, f64>) -> f64| {
        let error = std::sync::Mutex::new(String::new());
        while_pending(|view| {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| index(view)));
            let panic = caught.unwrap_err();
            *error.lock().unwrap() = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        });
        error.into_inner().unwrap()
    };
    let outside = "is outside of the view, which has 0..4 × -1..7";
    assert_eq!(message(|view| view[[-1, 0]]), format!("the cell [-1, 0] {outside}"));
    assert_eq!(message(|view| view[[4, 0]]), format!("the cell [4, 0] {outside}"));
    assert_eq!(
        message(|view| view[[i64::MIN, i64::MAX]]),
        format!("the cell {:?} {outside}", [i64::MIN, i64::MAX])
    );
    assert_eq!(message(|view| view[[0, 0, 0]]), format!("the cell [0, 0, 0] {outside}"));
}

#[cfg(feature = "ndarray")]
#[test]
fn arrays_hold_the_cells_of_the_view() {
    use ndarray::IxDyn;

    for number in 0..300 {
        let mut random = StdRng::seed_from_u64(number);
        let mut block = Block::random(&mut random);
        let (all, layout) = (block.cells(), block.layout.clone());
        let mut field = block.field();
        let view = field.view(0).unwrap();
        let array = view.array::<IxDyn>().unwrap();
        let components = layout.components();
        assert_eq!(array.len() as u128, all.cells() * components as u128);
        for cell in cells(&all) {
            for component in 0..components {
                let mut at: Vec<usize> =
                    cell.iter().zip(all.lower()).map(|(at, lower)| (at - lower) as usize).collect();
                at.extend((components > 1).then_some(component));
                assert_eq!(Some(array[&at[..]]), view.component(&cell, component), "{number}");
            }
        }
        field.view_mut(0).unwrap().array_mut::<IxDyn>().unwrap().fill(-1);
        let view = field.view(0).unwrap();
        assert!(cells(&all).iter().all(|cell| view.get(cell) == Some(-1)));
    }
    while_pending(|view| {
        let array = view.array::<ndarray::Ix2>().unwrap();
        assert_eq!((array.shape(), array[[0, 0]], array[[3, 7]]), (&[4, 8][..], -1.0, 36.0));
        let wrong = view.array::<ndarray::Ix3>().unwrap_err().to_string();
        assert_eq!(wrong, "the axes of an array of a view: expected 2, found 3");
    });
}
