//! Cells in blocks: where they lie, how views reach them, and arrays of other programs.

use crate::common::*;
use haloport_core::device::Pointer;
use haloport_core::interop::{ArrayDescription, ArrayDevice, ArrayDeviceKind};
use haloport_core::*;
use haloport_cpu::CpuDevice;

/// A ring of cells, nine on each rank, with two halo cells at each end of the local order.
fn ring(comm: &Communicator) -> IndexSet {
    let (cells, first) = (9 * comm.size() as i64, 9 * comm.rank() as i64);
    let ids: Vec<i64> = (first - 2..first + 11).map(|id| id.rem_euclid(cells)).collect();
    IndexSet::in_order(ids, (0..13).map(|at| (2..11).contains(&at)).collect::<Vec<_>>())
}

fn pattern(comm: &Communicator) -> Result<Pattern, PatternError> {
    Pattern::unstructured(comm, &[ring(comm)], &HaloCells::All)
}

#[test]
fn a_cell_lies_at_its_place_in_its_block() {
    run_ranks(1, |comm| -> Result<(), Failure> {
        let pattern = pattern(&comm)?;
        for nproma in [1, 4, 8, 13, 20] {
            let blocks = 13usize.div_ceil(nproma);
            let place = |cell: usize| (cell % nproma, cell / nproma);
            let builder = || Field::<f64, CpuDevice>::builder(&pattern).levels(3).blocked(nproma);
            let field = builder().build(&device()?)?;
            let layout = field.layout(0)?;
            let found = layout.blocks().unwrap();
            assert_eq!((found.cells, found.count(13)), (nproma, blocks));
            assert_eq!(layout.span(), (0, (nproma * 3 * blocks) as isize), "whole blocks");
            // Tracers slowest, then blocks, levels, cells; and the levels side by side.
            let tracers = builder().components(2, ComponentPlace::Slowest).build(&device()?)?;
            let columns = builder().axis_order([0, 0, 1]).build(&device()?)?;
            for cell in 0..13 {
                let ((within, block), index) = (place(cell), |level: usize| [cell as i64, level as i64]);
                for level in 0..3 {
                    let at = within + nproma * (level + 3 * block);
                    assert_eq!(layout.offset(&index(level), 0), Some(at as isize));
                    let tracer = tracers.layout(0)?.offset(&index(level), 1);
                    assert_eq!(tracer, Some((at + nproma * 3 * blocks) as isize));
                    let column = columns.layout(0)?.offset(&index(level), 0);
                    assert_eq!(column, Some((level + 3 * (within + nproma * block)) as isize));
                }
            }
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn views_reach_cells_of_all_blocks_and_rows_within_one() {
    run_ranks(1, |comm| -> Result<(), Failure> {
        let mut field =
            Field::<f64, CpuDevice>::builder(&pattern(&comm)?).levels(3).blocked(4).build(&device()?)?;
        let value = |cell: &[i64]| (10 * cell[0] + cell[1]) as f64;
        field.view_mut(0)?.fill_with(|cell, _| value(cell));
        assert_eq!(field.to_vec(0)?[..12], [0., 10., 20., 30., 1., 11., 21., 31., 2., 12., 22., 32.]);
        assert_eq!(field.to_vec(0)?[36..], [120., 0., 0., 0., 121., 0., 0., 0., 122., 0., 0., 0.]);
        let view = field.view(0)?;
        for cell in 0..13 {
            for level in 0..3 {
                assert_eq!(view[[cell, level]], value(&[cell, level]));
                assert_eq!(view.get(&[cell, level]), Some(value(&[cell, level])));
                let rest: Vec<f64> =
                    (cell..13.min((cell / 4 + 1) * 4)).map(|cell| value(&[cell, level])).collect();
                assert_eq!(view.row(&[cell, level]), Some(&rest[..]));
            }
        }
        let block = IndexBox::new([4, 1], [8, 3]);
        let rows: Vec<&[f64]> = view.rows(0, &block)?.collect();
        assert_eq!(rows, [[41., 51., 61., 71.], [42., 52., 62., 72.]]);
        let beside: Vec<[&[f64]; 2]> = view.rows_around(0, &block, [[0, -1], [0, 0]])?.collect();
        assert_eq!(beside[1], [rows[0], rows[1]]);
        let error = view.rows(0, &IndexBox::new([3, 0], [5, 3])).unwrap_err().to_string();
        assert_eq!(error, "the cells of rows: expected cells of one block of 4, found 3..5 × 0..3");
        assert!(view.rows_around(0, &block, [[1, 0]]).is_err());
        assert_eq!((view.as_slice(), view.as_slice().is_none()), (None, true));
        #[cfg(feature = "ndarray")]
        assert!(view.array::<ndarray::Ix2>().unwrap_err().to_string().contains("one block of 4"));
        Ok(())
    })
    .unwrap();
}

/// Memory of a Fortran program, declared as `(nproma, levels, blocks)` with room for one more block, different on each
/// rank.
#[test]
fn arrays_of_fortran_programs_are_exchanged_in_place() {
    run_ranks(3, |comm| -> Result<(), Failure> {
        let (nproma, levels, set) = ([5, 2, 16][comm.rank()], 2, ring(&comm));
        let blocks = 13usize.div_ceil(nproma) + 1;
        let mut memory = vec![-1.0; nproma * levels * blocks];
        let at = |cell: usize, level: usize| cell % nproma + nproma * (level + levels * (cell / nproma));
        for (cell, _) in set.owned().iter().enumerate().filter(|(_, owned)| **owned) {
            (0..levels)
                .for_each(|level| memory[at(cell, level)] = (10 * set.ids()[cell] + level as i64) as f64);
        }
        let cells = IndexBox::new([0, 0], [13, levels as i64]);
        let array = ArrayDescription::new(
            ElementType::F64,
            Pointer::new(memory.as_mut_ptr().cast()),
            &[blocks as i64, levels as i64, nproma as i64],
            &[(nproma * levels) as i64, nproma as i64, 1],
            ArrayDevice { kind: ArrayDeviceKind::Host, index: None },
        )?;
        let layout = BlockLayout::of_blocked_array(cells, cells, &array, None)?;
        let wrong = BlockLayout::of_blocked_array(cells, cells.with_axis(1, 0, 3), &array, None).unwrap_err();
        assert!(
            wrong.to_string().contains("expected [blocks, 3, cells of a block], with room for"),
            "{wrong}"
        );
        let many = cells.with_axis(0, 0, 200);
        assert!(BlockLayout::of_blocked_array(many, many, &array, None).is_err());
        let lent = BorrowedField::new(&device()?, [(&mut memory[..], layout)])?;
        pattern(&comm)?.bind(lent)?.run_blocking()?;
        for cell in 0..13 {
            for level in 0..levels {
                let expected = (10 * set.ids()[cell] + level as i64) as f64;
                assert_eq!(memory[at(cell, level)], expected, "cell {cell}, level {level}");
            }
        }
        assert_eq!(
            memory[nproma * levels * (blocks - 1)..],
            vec![-1.0; nproma * levels],
            "the last block is untouched"
        );
        Ok(())
    })
    .unwrap();
}

#[test]
fn blocks_that_cannot_be_are_refused() {
    let cells = IndexBox::new([0, 0], [13, 3]);
    let blocked = |cells: IndexBox, per_block: usize, stride: i64, strides: [i64; 2]| {
        let blocks = CellBlocks { cells: per_block, stride };
        BlockLayout::blocked(cells, cells, blocks, strides, 1, 1).map_err(|error| error.to_string())
    };
    let refused = |layout: Result<BlockLayout, String>, text: &str| {
        let error = layout.unwrap_err();
        assert!(error.contains(text), "{error}");
    };
    assert!(blocked(cells, 4, 12, [1, 4]).is_ok());
    refused(blocked(cells, 0, 12, [1, 4]), "the cells of a block: expected 1 to 2^32 - 1, found 0");
    refused(blocked(cells, 4, 11, [1, 4]), "expected a stride of at least 12 elements where 11 is");
    refused(blocked(cells, 4, 12, [1, 3]), "expected a stride of at least 4 elements where 3 is");
    refused(blocked(cells, 4, -12, [1, 4]), "the strides of blocked cells: expected strides above 0");
    refused(blocked(cells.with_axis(0, 1, 13), 4, 12, [1, 4]), "the first of the cells that lie in blocks");
    refused(blocked(cells, 4, 1 << 40, [1, 4]), "use several domains");
    let empty = blocked(cells.with_axis(0, 0, 0), 4, -1, [0, 0]).unwrap();
    assert_eq!(empty.span(), (0, 0));
    run_ranks(1, |comm| -> Result<(), Failure> {
        let line = line(&comm)?;
        let error = Field::<f64, CpuDevice>::builder(&line).blocked(4).build(&device()?).unwrap_err();
        assert!(error.to_string().contains("a field of a grid has no axis of cells, found 4"), "{error}");
        let builder = Field::<f64, CpuDevice>::builder(&pattern(&comm)?).levels(3).blocked(4);
        let error = builder.axis_order([0, 1]).build(&device()?).unwrap_err().to_string();
        assert!(error.contains("the axes 0 to 1 and axis 0 twice"), "{error}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_plan_tells_layouts_with_other_blocks_apart() {
    run_ranks(1, |comm| -> Result<(), Failure> {
        let pattern = pattern(&comm)?;
        let field = |nproma| {
            Field::<f64, _>::builder(&pattern)
                .levels(2)
                .blocked(nproma)
                .build(&device()?)
                .map_err(Failure::from)
        };
        let (mut four, mut thirteen) = (field(4)?, field(13)?);
        let mut plan = pattern.plan(&mut four)?;
        let error = plan.run(&mut thirteen).unwrap_err().to_string();
        assert!(error.contains("blocks of 13 cells") && error.contains("made for"), "{error}");
        assert!(error.contains("blocks of 4 cells 8 apart"), "{error}");
        Ok(())
    })
    .unwrap();
}
