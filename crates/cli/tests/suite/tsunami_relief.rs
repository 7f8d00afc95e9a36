//! Reading, checking and refining reliefs.

use std::io::Cursor;

use haloport_demos::tsunami::model::SHIPPED;
use haloport_demos::tsunami::model::relief::{Relief, ReliefError};
use ndarray::{Array1, Array2, Array3};
use ndarray_npy::{NpzWriter, WritableElement};

#[test]
fn the_shipped_relief_is_read() {
    let relief = Relief::from_bytes(SHIPPED).unwrap();
    assert_eq!((relief.nx(), relief.ny()), (120, 91));
    assert!(relief.longitude.is_sorted() && relief.latitude.is_sorted());
    let at = |longitude, latitude| {
        let row = relief.row_at(latitude).round() as usize;
        relief.elevation[row * 120 + relief.column_at(longitude).round() as usize]
    };
    assert!(at(-125.8, 48.1) < -500.0, "the continental slope is deep");
    assert!(at(236.5, 47.95 + 0.1) > 0.0, "the Olympic Peninsula is land");
    assert_eq!(at(236.5, 48.25), at(-123.5, 48.25));
}

/// The relief on which drivers that compute on the host are tested.
#[test]
fn the_small_relief_has_the_means_of_the_shipped_one() {
    let small = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/topobathy-small.npz"));
    let (small, whole) = (Relief::from_bytes(small).unwrap(), Relief::from_bytes(SHIPPED).unwrap());
    assert_eq!((small.nx(), small.ny()), (15, 11));
    for (row, column) in (0..11).flat_map(|row| (0..15).map(move |column| (row, column))) {
        let cells =
            (8 * row..8 * row + 8).flat_map(|j| (8 * column..8 * column + 8).map(move |i| j * 120 + i));
        let mean = cells.map(|cell| whole.elevation[cell]).sum::<f64>() / 64.0;
        let found = small.elevation[row * 15 + column];
        assert!((found - mean).abs() < 1e-3, "row {row}, column {column}: {found} and {mean}");
    }
}

#[test]
fn element_types_and_descending_axes_are_read_alike() {
    let reference = Relief::from_bytes(&npz::<f64>(f64::from, false)).unwrap();
    for bytes in [
        npz::<f32>(|v| v as f32, false),
        npz::<i16>(|v| v as i16, false),
        npz::<i32>(|v| v, false),
        npz::<f64>(f64::from, true),
    ] {
        assert_eq!(Relief::from_bytes(&bytes).unwrap(), reference);
    }
}

#[test]
fn refinement_stays_within_the_cells_around_and_keeps_the_grid() {
    let relief = Relief::from_bytes(SHIPPED).unwrap();
    for factor in [2, 3, 4] {
        let fine = relief.refine(factor).unwrap();
        assert_eq!((fine.nx(), fine.ny()), (120 * factor, 91 * factor));
        let width = |relief: &Relief| relief.longitude_step() * relief.nx() as f64;
        assert!((width(&fine) - width(&relief)).abs() < 1e-9);
        assert!(Relief::new(fine.longitude.clone(), fine.latitude.clone(), fine.elevation.clone()).is_ok());
        for (cell, &z) in fine.elevation.iter().enumerate() {
            let around = |fine: usize, cells: usize| {
                let at = (fine as f64 + 0.5) / factor as f64 - 0.5;
                let low = at.floor().clamp(0.0, (cells - 2) as f64) as usize;
                [low, low + 1]
            };
            let rows = around(cell / fine.nx(), 91);
            let columns = around(cell % fine.nx(), 120);
            let values = rows.map(|j| columns.map(|i| relief.elevation[j * 120 + i]));
            let values = values.as_flattened();
            let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
            let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert!((lowest..=highest).contains(&z), "cell {cell}");
        }
    }
    assert_eq!(relief.refine(1).unwrap(), relief);
}

#[test]
fn refining_reproduces_a_plane() {
    let axis = |first: f64| (0..8).map(|i| first + 0.1 * f64::from(i)).collect::<Vec<_>>();
    let plane = |x: f64, y: f64| -50.0 + 3.0 * x - 2.0 * y;
    let (longitude, latitude) = (axis(10.0), axis(40.0));
    let cells = latitude.iter().flat_map(|&y| longitude.iter().map(move |&x| plane(x, y)));
    let relief = Relief::new(longitude.clone(), latitude.clone(), cells.collect()).unwrap();
    let fine = relief.refine(4).unwrap();
    for row in 6..26 {
        for column in 6..26 {
            let z = fine.elevation[row * 32 + column];
            assert!((z - plane(fine.longitude[column], fine.latitude[row])).abs() < 1e-9);
        }
    }
}

#[test]
fn errors_of_files_and_archives() {
    assert_eq!(
        Relief::from_path("/nowhere/relief.npz").unwrap_err().to_string(),
        "cannot open the relief /nowhere/relief.npz: No such file or directory (os error 2)"
    );
    let text = error(b"not an archive");
    assert!(text.starts_with("the relief is not a .npz archive of NumPy arrays: "), "{text}");
    assert_eq!(error(&archive(&[])), "the relief needs an array `topo`, found an empty archive");
    assert_eq!(
        error(&archive(&[("topo", Value::Two(vec![-1.0; 16], (4, 4))), ("lon", Value::One(vec![1.0]))])),
        "the relief needs an array `longitude`, found topo, lon"
    );
    let truncated = &SHIPPED[..SHIPPED.len() / 2];
    assert!(!error(truncated).contains('\n'));
}

#[test]
fn errors_of_types_and_shapes() {
    let axis = || Value::One(vec![1.0, 2.0, 3.0, 4.0]);
    let with =
        |topo, longitude| error(&archive(&[("topo", topo), ("longitude", longitude), ("latitude", axis())]));
    let flat = || Value::Two(vec![-1.0; 16], (4, 4));
    let text = with(Value::Bytes(vec![1; 16], (4, 4)), axis());
    assert!(
        text.starts_with("array `topo` of the relief must hold float32, float64, int16 or int32, found "),
        "{text}"
    );
    assert!(text.contains("u1"), "{text}");
    let text = with(flat(), Value::Integers(vec![1, 2, 3, 4]));
    assert!(
        text.starts_with("array `longitude` of the relief must hold float32 or float64, found ")
            && text.contains("i4"),
        "{text}"
    );
    assert_eq!(
        with(Value::One(vec![1.0; 16]), axis()),
        "array `topo` of the relief must have 2 dimensions, found 1"
    );
    assert_eq!(
        with(Value::Three(vec![1.0; 16], (1, 4, 4)), axis()),
        "array `topo` of the relief must have 2 dimensions, found 3"
    );
    assert_eq!(
        with(Value::Two(vec![-1.0; 20], (4, 5)), axis()),
        "array `topo` of the relief must have shape 4 x 4 (latitude x longitude), found 4 x 5"
    );
}

#[test]
fn errors_of_values() {
    let axis = || vec![1.0, 2.0, 3.0, 4.0];
    let message =
        |longitude, latitude, elevation| Relief::new(longitude, latitude, elevation).unwrap_err().to_string();
    let sea = || vec![-5.0; 16];
    assert_eq!(
        message(vec![1.0, 2.0, 3.0], axis(), vec![-5.0; 12]),
        "the relief must have at least 4 cells on each axis, found 3 in longitude"
    );
    assert_eq!(
        message(axis(), axis(), vec![-5.0; 15]),
        "array `topo` of the relief must have 4 x 4 values (latitude x longitude), found 15 values"
    );
    let mut holed = sea();
    holed[6] = f64::NAN;
    assert_eq!(
        message(axis(), axis(), holed),
        "array `topo` of the relief must be finite, found NaN at index 6"
    );
    assert_eq!(
        message(vec![1.0, 2.0, f64::INFINITY, 4.0], axis(), sea()),
        "array `longitude` of the relief must be finite, found inf at index 2"
    );
    assert_eq!(
        message(axis(), vec![84.0, 85.0, 86.0, 87.0], sea()),
        "latitude of the relief must lie within 85 degrees of zero, found 86 at index 2"
    );
    assert_eq!(
        message(vec![1.0, 2.0, 3.5, 5.5], axis(), sea()),
        "longitude of the relief must be spaced uniformly within 2 %, found 1 degrees after 1.5 at index 0"
    );
    assert_eq!(
        message(axis(), vec![1.0, 2.0, 2.0, 3.0], sea()),
        "latitude of the relief must be spaced smoothly, each step within 2 % of the last, found 0 degrees after 1 at index 1"
    );
    assert_eq!(
        message(axis(), axis(), vec![3.0; 16]),
        "the relief has no sea: expected elevations below 0 m, found none below 3 m"
    );
    let relief = Relief::new(axis(), axis(), sea()).unwrap();
    assert_eq!(
        relief.refine(0).unwrap_err().to_string(),
        "the refinement must be at least 1 and give at most 268435456 cells, found 0 on 16 cells"
    );
    assert!(matches!(relief.refine(usize::MAX), Err(ReliefError::Refinement { .. })));
}

/// An array to put into an archive.
enum Value {
    One(Vec<f64>),
    Two(Vec<f64>, (usize, usize)),
    Three(Vec<f64>, (usize, usize, usize)),
    Bytes(Vec<u8>, (usize, usize)),
    Integers(Vec<i32>),
}

fn archive(arrays: &[(&str, Value)]) -> Vec<u8> {
    let mut npz = NpzWriter::new_compressed(Cursor::new(Vec::new()));
    for (name, value) in arrays {
        match value {
            Value::One(v) => npz.add_array(*name, &Array1::from(v.clone())),
            Value::Two(v, shape) => npz.add_array(*name, &Array2::from_shape_vec(*shape, v.clone()).unwrap()),
            Value::Three(v, shape) => {
                npz.add_array(*name, &Array3::from_shape_vec(*shape, v.clone()).unwrap())
            }
            Value::Bytes(v, shape) => {
                npz.add_array(*name, &Array2::from_shape_vec(*shape, v.clone()).unwrap())
            }
            Value::Integers(v) => npz.add_array(*name, &Array1::from(v.clone())),
        }
        .unwrap();
    }
    npz.finish().unwrap().into_inner()
}

/// A small relief of one element type, its axes ascending or descending.
fn npz<T: WritableElement>(of: impl Fn(i32) -> T, descending: bool) -> Vec<u8> {
    let turned = |i: usize, n: usize| if descending { n - 1 - i } else { i };
    let mut npz = NpzWriter::new(Cursor::new(Vec::new()));
    let topo =
        Array2::from_shape_fn((4, 5), |(j, i)| of(10 * turned(j, 4) as i32 + turned(i, 5) as i32 - 20));
    let axis = |first: f64, n| Array1::from_shape_fn(n, |i| first + turned(i, n) as f64);
    npz.add_array("topo", &topo).unwrap();
    npz.add_array("longitude", &axis(230.0, 5)).unwrap();
    npz.add_array("latitude", &axis(48.0, 4)).unwrap();
    npz.finish().unwrap().into_inner()
}

fn error(bytes: &[u8]) -> String {
    Relief::from_bytes(bytes).unwrap_err().to_string()
}
