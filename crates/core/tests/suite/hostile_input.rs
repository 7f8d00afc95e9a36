//! Forged layouts, boxes and sizes: safe code cannot reach beyond its memory with them.
#![forbid(unsafe_code)]

use haloport_core::device::{BoxCopy, CopyAxis, CopyRows, IndexedCopy, Pointer};
use haloport_core::interop::{ArrayDescription, ArrayDevice};
use haloport_core::*;
use haloport_cpu::CpuDevice;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

type Failure = haloport_core::Error;

/// Numbers at which sums and products overflow, and small ones that may fit.
const NUMBERS: [i64; 24] = [
    0,
    0,
    0,
    1,
    1,
    2,
    2,
    3,
    4,
    -1,
    -2,
    7,
    33,
    1 << 31,
    1 << 32,
    1_000_000_000,
    1 << 58,
    1 << 59,
    (1 << 59) - 1,
    1 << 62,
    i64::MAX - 1,
    i64::MAX,
    i64::MIN,
    i64::MIN + 1,
];

fn device() -> CpuDevice {
    CpuDevice::with_threads(1).unwrap()
}

fn as_box(lower: [i64; 4], upper: [i64; 4], axes: usize) -> Value {
    json!({"lower": lower, "upper": upper, "axes": axes})
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}

/// A box that is empty along an axis that it does not have, and long along the one that it has.
#[test]
fn a_layout_that_looks_empty_has_no_rows() {
    let cells = as_box([0; 4], [1_000_000_000, 1, 1, 0], 1);
    let layout = json!({
        "owned": cells, "allocated": cells, "strides": [1, 0, 0, 0], "components": 1, "component_stride": 1
    });
    match read::<BlockLayout>(&layout) {
        Err(error) => assert!(error.contains("beyond its 1 axes"), "{error}"),
        Ok(layout) => {
            let mut memory = [0.0; 4];
            let field = BorrowedField::new(&device(), vec![(&mut memory[..], layout)]).unwrap();
            panic!("a row of {:?} cells in a slice of 4", field.view(0).unwrap().row(&[0]).map(<[f64]>::len));
        }
    }
}

#[test]
fn what_is_read_goes_through_its_constructor() {
    let refused = |found: Result<String, String>, why: &str| {
        let error = found.unwrap_err();
        assert!(error.contains(why), "expected `{why}`, found `{error}`");
    };
    let show_box = |value: Value| read::<IndexBox>(&value).map(|it| it.to_string());
    refused(show_box(as_box([0; 4], [1; 4], 5)), "at most 4 axes, found 5");
    refused(show_box(as_box([0; 4], [2, 0, 1, 1], 1)), "the bounds 0 and 1 beyond its 1 axes");
    refused(show_box(as_box([0, -1, 0, 0], [2, 1, 1, 1], 1)), "the bounds 0 and 1 beyond its 1 axes");

    let show_turn = |axes: [u8; 4]| {
        let turn = json!({"axes": axes, "reversed": [false, false, true, false]});
        read::<Orientation>(&turn).map(|it| format!("{it:?}"))
    };
    refused(show_turn([0, 1, 2, 4]), "each of the axes 0 to 3 once");
    refused(show_turn([0, 1, 1, 3]), "each of the axes 0 to 3 once");
    assert!(show_turn([0, 2, 1, 3]).is_ok());

    let small = as_box([0; 4], [2, 3, 1, 1], 2);
    let show = |owned: &Value, allocated: &Value, strides: [i64; 4], components: usize| {
        let layout = json!({
            "owned": owned, "allocated": allocated, "strides": strides, "components": components, "component_stride": 6
        });
        read::<BlockLayout>(&layout).map(|it| format!("{it:?}"))
    };
    assert!(show(&small, &small, [3, 1, 0, 0], 2).is_ok());
    refused(show(&small, &small, [3, 1, 0, 0], 0), "the number of components");
    refused(show(&small, &small, [2, 1, 0, 0], 1), "a stride of at least 3");
    refused(show(&as_box([0; 4], [3, 3, 1, 1], 2), &small, [3, 1, 0, 0], 1), "the allocated cells");
    refused(
        show(&small, &as_box([0; 4], [2, 1 << 61, 1, 1], 2), [1 << 61, 1, 0, 0], 1),
        "the size of a field",
    );
    refused(show(&as_box([0; 4], [1; 4], 0), &as_box([0; 4], [1; 4], 0), [0; 4], 1), "the number of axes");

    let layout =
        BlockLayout::new(IndexBox::new([0, 0], [2, 3]), IndexBox::new([-1, -1], [3, 4]), [-5, 1], 2, 20);
    let layout = layout.unwrap();
    assert_eq!(read::<BlockLayout>(&serde_json::to_value(&layout).unwrap()).unwrap(), layout);
}

/// A block without cells along one axis may not exceed memory along the others, and has no strides.
#[test]
fn blocks_without_cells_have_no_rows_whatever_their_extents() {
    let block = |upper: [i64; 3]| {
        let cells = IndexBox::new([0; 3], upper);
        BlockLayout::new(cells, cells, [i64::MAX, i64::MIN, 0], 3, i64::MIN)
    };
    let empty = block([0, 80, 5]).unwrap();
    assert_eq!((empty.span(), empty.strides(), empty.component_stride()), ((0, 0), &[1; 3][..], 1));
    let field = BorrowedField::<f64, _>::new(&device(), vec![(&mut [][..], empty)]).unwrap();
    assert_eq!(field.view(0).unwrap().row(&[0, 0, 0]), None);
    for huge in [[0, i64::MAX, 1], [1 << 40, 0, 1 << 40], [1 << 58, 2, 0]] {
        assert!(block(huge).is_err(), "{huge:?}");
    }
    let (none, held) = (IndexBox::new([0, 0], [i64::MAX, 0]), IndexBox::new([0, 0], [2, 2]));
    assert!(BlockLayout::new(none, held, [2, 1], 1, 1).is_err(), "an owned box");
}

/// For any layout of lent memory, and anything bound to it, no access leaves the memory.
#[test]
fn random_layouts_stay_within_their_memory() {
    const GUARD: f64 = 7.5;
    run_ranks(1, |comm| -> Result<(), Failure> {
        let (mut accepted, mut bound) = (0, 0);
        let grid = Grid::new([4, 3])?.periodic([true, true])?;
        let ring = Grid::new([4])?.periodic([true])?;
        let patterns = [
            Pattern::structured(&comm, &grid, &[grid.bounds()], &Halo::uniform(1))?,
            Pattern::structured(&comm, &ring, &[ring.bounds()], &Halo::uniform(0))?,
            Pattern::unstructured(&comm, &[IndexSet::new(&[0, 1, 2], &[1, 1])], &HaloCells::All)?,
            Pattern::unstructured(&comm, &[IndexSet::new(&[], &[])], &HaloCells::All)?,
        ];
        let device = device();
        for case in 0..60_000 {
            let mut random = StdRng::seed_from_u64(case);
            let Some(layout) = hostile_layout(&mut random) else { continue };
            accepted += 1;
            let mut memory = vec![GUARD; 16 + 48 + 16];
            let lent = &mut memory[16..64];
            let addresses = lent.as_ptr_range();
            let Ok(mut field) = BorrowedField::new(&device, vec![(lent, layout.clone())]) else { continue };
            let all = layout.allocated();
            assert!(all.cells() <= 48, "case {case}: {all} in 48 elements");
            for index in indices(&all) {
                let view = field.view(0)?;
                for component in [0, 1, layout.components() - 1, usize::MAX] {
                    let here = view.component(&index, component);
                    let expected = all.contains(&index) && component < layout.components();
                    assert_eq!(here.is_some(), expected, "case {case}: {index:?} of {layout:?}");
                    let offset = layout.offset(&index, component);
                    assert!(offset.is_none_or(|offset| (0..48).contains(&offset)), "case {case}: {layout:?}");
                }
                if let Some(row) = view.row(&index) {
                    let row = row.as_ptr_range();
                    let within = addresses.start <= row.start && row.end <= addresses.end;
                    assert!(within, "case {case}: a row from {index:?} of {layout:?}");
                }
                let _ = field.view_mut(0)?.set(&index, 1.0);
            }
            field.view_mut(0)?.fill_with(|_, _| 2.0);
            let pattern = &patterns[case as usize % patterns.len()];
            if let Ok(mut exchange) = pattern.bind(field) {
                bound += 1;
                exchange.run()?;
            }
            let guards = memory[..16].iter().chain(&memory[64..]);
            assert!(guards.copied().all(|it| it == GUARD), "case {case}: {layout:?} leaves its memory");
        }
        assert!(accepted > 1000 && bound > 50, "{accepted} layouts, {bound} of them bound: too few to tell");
        Ok(())
    })
    .unwrap();
}

/// A layout of random numbers, from its constructor or by serde; `None` if it is refused.
fn hostile_layout(random: &mut StdRng) -> Option<BlockLayout> {
    let number = |random: &mut StdRng| *NUMBERS.choose(random).unwrap();
    let axes = random.random_range(0..=4);
    // Many layouts are small ones with one wrong number.
    let small = random.random_bool(0.7);
    let (mut lower, mut upper, mut strides) = ([0; 4], [1; 4], [1; 4]);
    let mut stride = 1;
    for axis in (0..axes).rev() {
        if small {
            lower[axis] = random.random_range(-1..=0);
            upper[axis] = random.random_range(0..=5);
            strides[axis] = stride;
            stride *= (upper[axis] - lower[axis]).max(1);
        } else {
            (lower[axis], upper[axis], strides[axis]) = (number(random), number(random), number(random));
        }
    }
    let (mut owned_lower, mut owned_upper) = (lower, upper);
    if random.random_bool(0.5) && axes > 0 {
        let axis = random.random_range(0..axes);
        let place = match random.random_range(0..6) {
            0 => &mut lower[axis],
            1 => &mut upper[axis],
            2 => &mut strides[axis],
            3 => &mut owned_lower[axis],
            4 => &mut owned_upper[axis],
            _ => &mut upper[3],
        };
        *place = number(random);
    }
    let (components, component_stride) = match random.random_range(0..4) {
        0 => (random.random_range(0..3), stride),
        1 => (*[usize::MAX, 1 << 59, 1 << 32].choose(random).unwrap(), number(random)),
        _ => (1, number(random)),
    };
    if random.random_bool(0.5) {
        let cells = |lower: [i64; 4], upper: [i64; 4]| IndexBox::new(&lower[..axes], &upper[..axes]);
        let (owned, allocated) = (cells(owned_lower, owned_upper), cells(lower, upper));
        return BlockLayout::new(owned, allocated, &strides[..axes], components, component_stride).ok();
    }
    let value = json!({
        "owned": as_box(owned_lower, owned_upper, axes), "allocated": as_box(lower, upper, axes),
        "strides": strides, "components": components, "component_stride": component_stride,
    });
    read(&value).ok()
}

/// Indices in and around a box: at its corners, and some far away.
fn indices(cells: &IndexBox) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new(), vec![i64::MIN; cells.axes()], vec![i64::MAX; cells.axes()], vec![0; 5]];
    for (corner, step) in [(cells.lower(), 0), (cells.lower(), -1), (cells.upper(), 0), (cells.upper(), -1)] {
        all.push(corner.iter().map(|bound| bound.wrapping_add(step)).collect());
    }
    for axis in 0..cells.axes() {
        let mut index = cells.lower().to_vec();
        index[axis] = cells.upper()[axis].wrapping_sub(1);
        all.push(index);
    }
    all
}

/// Empty domains may have any bounds.
#[test]
fn empty_domains_of_any_bounds_are_domains_without_cells() {
    run_ranks(1, |comm| -> Result<(), Failure> {
        let grid = Grid::new([4, 3])?.periodic([true, false])?;
        let far = [
            IndexBox::new([5, i64::MIN], [5, i64::MAX]),
            IndexBox::new([i64::MAX, i64::MAX], [i64::MIN, i64::MIN]),
            IndexBox::new([i64::MIN, 0], [i64::MAX, 0]),
        ];
        for empty in far {
            let domains = [empty, grid.bounds()];
            let pattern = Pattern::structured(&comm, &grid, &domains, &Halo::per_axis([2, 1]))?;
            let regions = pattern.regions(0).ok_or("no regions")?;
            assert_eq!((regions.interior, regions.boundary.len()), (None, 0));
            assert_eq!((pattern.owned(0), pattern.interior(0)), (None, None));
            let mut field = Field::<f64, _>::new(&device(), &pattern)?;
            assert!(field.view_mut(0)?.region().is_empty());
            let mut exchange = pattern.bind(field)?;
            exchange.run()?;
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn counts_that_wrap_are_refused_or_right() {
    let all = IndexBox::new([i64::MIN], [i64::MAX]);
    assert_eq!((all.extent(0), all.cells()), (usize::MAX, u128::from(u64::MAX)));
    assert_eq!(IndexBox::new([i64::MAX], [i64::MIN]).extent(0), 0);

    let grid = Grid::new([1 << 15; 4]).unwrap();
    let error = Split::even(&grid, [1 << 24; 4]).unwrap_err().to_string();
    assert!(error.contains("too many"), "{error}");
    let ones = vec![1; 1 << 15];
    assert!(Split::sizes(&grid, &vec![ones; 4]).is_err());
    assert_eq!(Split::even(&grid, [1 << 12; 4]).unwrap().parts(), 1 << 48);
}

#[test]
fn copies_larger_than_memory_are_refused() {
    let pointer = Pointer::new(std::ptr::null_mut());
    let axis = |extent, stride| CopyAxis { extent, source_stride: stride, target_stride: stride };
    for axes in [
        vec![axis(1 << 40, 1), axis(1 << 40, 1 << 40)],
        vec![axis(usize::MAX, 8)],
        vec![axis(3, isize::MIN)],
        vec![axis(2, isize::MAX), axis(2, isize::MAX)],
    ] {
        let error = BoxCopy::new(pointer, pointer, 8, &axes).unwrap_err().to_string();
        assert!(error.contains("the size of a box copy"), "{error}");
    }
    assert!(BoxCopy::new(pointer, pointer, usize::MAX, &[]).is_err());
    let empty = BoxCopy::new(pointer, pointer, 8, &[axis(0, 1), axis(usize::MAX, isize::MIN)]).unwrap();
    assert_eq!(empty.bytes(), 0);
    let large = BoxCopy::new(pointer, pointer, 8, &[axis(1 << 59, 8)]).unwrap();
    assert_eq!(large.split(1000).iter().map(BoxCopy::bytes).sum::<usize>(), 1 << 62);

    let row = BoxCopy::new(pointer, pointer, 8, &[]).unwrap();
    let rows = |stride| CopyRows { stride, indices: None };
    for (count, stride) in [(usize::MAX, 8), (1 << 60, 8), (2, isize::MIN), (3, isize::MAX)] {
        assert!(IndexedCopy::new(row, count, rows(8), rows(stride)).is_err(), "{count} rows {stride} apart");
    }
}

/// Arrays of any shape and strides give a layout that stays within them, or an error.
#[test]
fn layouts_of_random_arrays_stay_within_them() {
    let mut made = 0;
    for case in 0..20_000 {
        let mut random = StdRng::seed_from_u64(case);
        let axes: usize = random.random_range(0..=4);
        let mut numbers = |small: std::ops::Range<i64>| -> Vec<i64> {
            let mut number = || match random.random_bool(0.6) {
                true => random.random_range(small.clone()),
                false => *NUMBERS.choose(&mut random).unwrap(),
            };
            (0..axes).map(|_| number()).collect()
        };
        let (shape, strides) = (numbers(0..5), numbers(-9..40));
        let first = Pointer::new(std::ptr::without_provenance_mut(1 << 20));
        let array = ArrayDescription::new(ElementType::F64, first, &shape, &strides, ArrayDevice::HOST);
        let Ok(array) = array else { continue };
        let _ = (array.elements(), array.addresses(), array.is_contiguous());
        for place in [None, Some(ComponentPlace::Fastest), Some(ComponentPlace::Slowest)] {
            let cut = match place {
                None => &shape[..],
                Some(ComponentPlace::Fastest) => &shape[..axes.saturating_sub(1)],
                Some(ComponentPlace::Slowest) => &shape[axes.min(1)..],
            };
            let cells = IndexBox::new(vec![0; cut.len()], cut);
            let Ok(layout) = BlockLayout::of_array(cells, cells, &array, place) else { continue };
            made += 1;
            let ((low, high), (lowest, highest)) = (layout.span(), array.span());
            assert!(lowest <= low && high <= highest, "case {case}: {layout:?} of {array:?}");
        }
    }
    assert!(made > 500, "{made} layouts: too few to tell");
}
