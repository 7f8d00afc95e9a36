//! Fields in arrays of other programs.

use haloport_core::device::Pointer;
use haloport_core::interop::{ArrayDescription, ArrayDevice};
use haloport_core::{BlockLayout, ComponentPlace, Element, ElementType, Field, FieldError, IndexBox};
use haloport_cpu::CpuDevice;
use rand::prelude::*;
use rand::rngs::StdRng;

use super::arrays::made;
use haloport_core::interop::ArrayDeviceKind::Host;

/// Cells from (-1, 2) on; all but a margin of one are owned.
fn boxes(extents: [i64; 2]) -> (IndexBox, IndexBox) {
    let [rows, columns] = extents;
    (IndexBox::new([0, 3], [rows - 2, columns + 1]), IndexBox::new([-1, 2], [rows - 1, columns + 2]))
}

#[test]
fn cells_lie_where_the_array_has_them() {
    let mut random = StdRng::seed_from_u64(7);
    for _ in 0..200 {
        let extents = [random.random_range(2..6), random.random_range(2..6)];
        let components = random.random_range(1..4);
        let place =
            [None, Some(ComponentPlace::Fastest), Some(ComponentPlace::Slowest)][random.random_range(0..3)];
        let mut shape = extents.to_vec();
        let at = match place {
            None => None,
            Some(ComponentPlace::Fastest) => Some(2),
            Some(ComponentPlace::Slowest) => Some(0),
        };
        if let Some(at) = at {
            shape.insert(at, components);
        }
        // Axes in any order in memory, padded, forwards and reversed.
        let mut order: Vec<usize> = (0..shape.len()).collect();
        order.shuffle(&mut random);
        let mut strides = vec![0; shape.len()];
        let mut next = random.random_range(1..3);
        for axis in order {
            strides[axis] = if random.random() { next } else { -next };
            next *= shape[axis] + random.random_range(0..2);
        }
        let array = made(&shape, &strides, Host);
        let (owned, allocated) = boxes(extents);
        let layout = BlockLayout::of_array(owned, allocated, &array, place).unwrap();
        assert_eq!(layout.components() as i64, at.map_or(1, |_| components));
        assert_eq!(layout.span(), array.span());
        for row in 0..extents[0] {
            for column in 0..extents[1] {
                for component in 0..layout.components() {
                    let mut index = vec![row, column];
                    if let Some(at) = at {
                        index.insert(at, component as i64);
                    }
                    let expected: i64 =
                        index.iter().zip(&strides).map(|(index, stride)| index * stride).sum();
                    let found = layout.offset(&[row - 1, column + 2], component);
                    assert_eq!(found, Some(expected as isize), "{shape:?} {strides:?} {index:?}");
                }
            }
        }
    }
}

#[test]
fn arrays_of_another_shape_are_refused() {
    let (owned, allocated) = boxes([4, 5]);
    for (shape, place) in [
        (&[4_i64, 6][..], None),
        (&[5, 4], None),
        (&[20], None),
        (&[4, 5, 1], None),
        (&[4, 5], Some(ComponentPlace::Fastest)),
        (&[3, 4, 5], Some(ComponentPlace::Fastest)),
        (&[4, 5, 3], Some(ComponentPlace::Slowest)),
        (&[], Some(ComponentPlace::Slowest)),
    ] {
        let strides: Vec<i64> = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
        let error = BlockLayout::of_array(owned, allocated, &made(shape, &strides, Host), place).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("the shape of an array of a field: expected [4, 5]"), "{said}");
        assert!(said.ends_with(&format!("found {shape:?}")), "{said}");
    }
}

#[test]
fn fields_are_made_of_arrays_that_can_be_written_and_hold_them() {
    let mut values = vec![0.0_f64; 20];
    let first = Pointer::new(values.as_mut_ptr().cast());
    let array = |shape: &[i64], strides: &[i64]| {
        ArrayDescription::new(ElementType::F64, first, shape, strides, ArrayDevice::HOST).unwrap()
    };
    let (owned, allocated) = boxes([4, 5]);
    let right = array(&[4, 5], &[5, 1]);
    let layout = BlockLayout::of_array(owned, allocated, &right, None).unwrap();
    let device = CpuDevice::new().unwrap();

    fn field<T: Element>(
        device: &CpuDevice,
        array: ArrayDescription,
        layout: &BlockLayout,
    ) -> Result<Field<T, CpuDevice>, FieldError> {
        // SAFETY: the values outlive every field of them.
        unsafe { Field::in_arrays(device, vec![(array, layout.clone())], true, Box::new(())) }
    }

    let read_only = field::<f64>(&device, right.clone().for_reading(), &layout).unwrap_err();
    assert!(matches!(&read_only, FieldError::Array(_)), "{read_only}");
    let other = field::<f32>(&device, right.clone(), &layout).unwrap_err().to_string();
    assert!(other.starts_with("the elements of an array: expected"), "{other}");
    let short = field::<f64>(&device, array(&[3, 5], &[5, 1]), &layout).unwrap_err().to_string();
    assert!(short.contains("elements from 0 to 15") && short.ends_with("from 0 to 20"), "{short}");
    let mut made = field::<f64>(&device, right, &layout).unwrap();
    made.view_mut(0).unwrap().fill_with(|cell, _| (10 * cell[0] + cell[1]) as f64);
    drop(made);
    assert_eq!((values[0], values[6], values[19]), (-8.0, 3.0, 26.0));
}
