//! The rectangle of cells that one rank owns, with a margin for its neighbours' cells.

use std::ops::Range;

use thiserror::Error;

use crate::tsunami::model::metric::{Metric, MetricView};
use crate::tsunami::model::relief::Relief;

/// Width of the margin on every side, cells: a second-order face looks two cells each way.
pub const MARGIN: usize = 2;

/// One rank's owned cells, and all data about them that does not change in time.
///
/// Arrays of cells have `ny + 2 * MARGIN` rows of `pitch` elements, south row first, and the
/// owned cell (row 0, column 0) at row `MARGIN`, element `MARGIN`. Elements of a row beyond
/// `nx + 2 * MARGIN` are padding that nothing reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Owned columns, by their number in the whole grid.
    pub columns: Range<usize>,
    /// Owned rows, by their number in the whole grid.
    pub rows: Range<usize>,
    /// Elements from one row of an array to the next.
    pub pitch: usize,
    /// The sides where the grid ends.
    pub walls: Walls,
    /// Elevation of the bed, metres, margin included: behind a wall it is mirrored.
    pub bed: Vec<f64>,
    /// Lengths and areas of the rows, margin included.
    pub metric: Metric,
}

/// The parts of a block that a stage reads, borrowed, so that the arrays may lie anywhere. See [`Block`].
#[derive(Clone, Copy, Debug)]
pub struct BlockView<'a> {
    /// Elements from one row of an array to the next.
    pub pitch: usize,
    /// Elevation of the bed, metres, margin included.
    pub bed: &'a [f64],
    /// Lengths and areas of the rows, margin included.
    pub metric: MetricView<'a>,
}

/// Sides of a block that are closed, physical walls rather than borders with a neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walls {
    /// The side of the first column.
    pub west: bool,
    /// The side of the last column.
    pub east: bool,
    /// The side of the first row.
    pub south: bool,
    /// The side of the last row.
    pub north: bool,
}

/// The state of a block: three arrays of the same layout.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// Depth of the water, metres.
    pub h: &'a [f64],
    /// Depth times eastward velocity, m^2/s.
    pub hu: &'a [f64],
    /// Depth times northward velocity, m^2/s.
    pub hv: &'a [f64],
}

/// Parts of arrays that a stage writes; see [`State`].
#[derive(Debug)]
pub struct StateMut<'a> {
    /// Depth of the water, metres.
    pub h: &'a mut [f64],
    /// Depth times eastward velocity, m^2/s.
    pub hu: &'a mut [f64],
    /// Depth times northward velocity, m^2/s.
    pub hv: &'a mut [f64],
}

/// The elements of a state that a stage reads. It asks for no more, since other cells may be changing meanwhile.
pub trait Input {
    /// These elements of the three arrays.
    fn elements(&self, elements: Range<usize>) -> State<'_>;
}

/// The output of a stage.
pub trait Output {
    /// The cells `columns` of `row` (owned, counted from the first) of the three arrays, for writing.
    fn cells(&mut self, row: usize, columns: Range<usize>) -> StateMut<'_>;
}

/// Whole rows of a state, padding included; from [`Fields::rows_mut`].
#[derive(Debug)]
pub struct RowsMut<'a> {
    first: usize,
    pitch: usize,
    rows: StateMut<'a>,
}

/// The three arrays of a state, owned.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields {
    /// Depth of the water, metres.
    pub h: Vec<f64>,
    /// Depth times eastward velocity, m^2/s.
    pub hu: Vec<f64>,
    /// Depth times northward velocity, m^2/s.
    pub hv: Vec<f64>,
}

/// The error of a block that cannot be made.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BlockError {
    /// The block reaches beyond the grid or is too thin to fill a neighbour's margin.
    #[error("a block needs at least {MARGIN} of the grid's {available} {axis}, found {start}..{end}")]
    Extent {
        /// "columns" or "rows".
        axis: &'static str,
        /// The number in the grid.
        available: usize,
        /// The first one requested.
        start: usize,
        /// One after the last one requested.
        end: usize,
    },
    /// The rows of the arrays would overlap.
    #[error("the row pitch must be at least {expected} elements, found {found}")]
    Pitch {
        /// Owned cells of a row and two margins.
        expected: usize,
        /// The pitch requested.
        found: usize,
    },
}

impl Block {
    /// The block that owns `columns` and `rows` of the grid of `relief`, in arrays with
    /// `pitch` elements a row.
    ///
    /// # Errors
    /// [`BlockError`].
    pub fn new(
        relief: &Relief,
        columns: Range<usize>,
        rows: Range<usize>,
        pitch: usize,
    ) -> Result<Self, BlockError> {
        check_extent("columns", &columns, relief.nx())?;
        check_extent("rows", &rows, relief.ny())?;
        let expected = columns.len() + 2 * MARGIN;
        if pitch < expected {
            return Err(BlockError::Pitch { expected, found: pitch });
        }
        let walls = Walls {
            west: columns.start == 0,
            east: columns.end == relief.nx(),
            south: rows.start == 0,
            north: rows.end == relief.ny(),
        };
        let mut bed = vec![0.0; (rows.len() + 2 * MARGIN) * pitch];
        for (row, line) in bed.chunks_mut(pitch).enumerate() {
            let j = mirrored(rows.start + row, relief.ny());
            for (column, cell) in line[..expected].iter_mut().enumerate() {
                let i = mirrored(columns.start + column, relief.nx());
                *cell = relief.elevation[j * relief.nx() + i];
            }
        }
        let metric = Metric::new(relief, rows.clone(), MARGIN);
        Ok(Self { columns, rows, pitch, walls, bed, metric })
    }

    /// The block that owns the whole grid, in arrays without padding.
    ///
    /// # Errors
    /// [`BlockError`].
    pub fn whole(relief: &Relief) -> Result<Self, BlockError> {
        let (nx, ny) = (relief.nx(), relief.ny());
        Self::new(relief, 0..nx, 0..ny, nx + 2 * MARGIN)
    }

    /// Owned columns.
    pub fn nx(&self) -> usize {
        self.columns.len()
    }

    /// Owned rows.
    pub fn ny(&self) -> usize {
        self.rows.len()
    }

    /// Elements of an array of cells.
    pub fn len(&self) -> usize {
        (self.ny() + 2 * MARGIN) * self.pitch
    }

    /// Always false: a block owns cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index of an owned cell, counted from the first owned row and column.
    pub fn index(&self, row: usize, column: usize) -> usize {
        (row + MARGIN) * self.pitch + column + MARGIN
    }

    /// The block as a stage reads it.
    pub fn view(&self) -> BlockView<'_> {
        BlockView { pitch: self.pitch, bed: &self.bed, metric: self.metric.view() }
    }

    /// The owned cells of `field`, row by row.
    pub fn owned(&self, field: &[f64]) -> Vec<f64> {
        (0..self.ny()).flat_map(|row| &field[self.index(row, 0)..][..self.nx()]).copied().collect()
    }
}

impl BlockView<'_> {
    /// The index of an owned cell, counted from the first owned row and column.
    pub fn index(&self, row: usize, column: usize) -> usize {
        (row + MARGIN) * self.pitch + column + MARGIN
    }
}

impl Input for State<'_> {
    fn elements(&self, elements: Range<usize>) -> State<'_> {
        let Range { start, end } = elements;
        State { h: &self.h[start..end], hu: &self.hu[start..end], hv: &self.hv[start..end] }
    }
}

impl Output for RowsMut<'_> {
    fn cells(&mut self, row: usize, columns: Range<usize>) -> StateMut<'_> {
        let first = (row - self.first) * self.pitch + MARGIN;
        let cells = first + columns.start..first + columns.end;
        StateMut {
            h: &mut self.rows.h[cells.clone()],
            hu: &mut self.rows.hu[cells.clone()],
            hv: &mut self.rows.hv[cells],
        }
    }
}

impl Fields {
    /// No water anywhere in the arrays of `block`.
    pub fn dry(block: &Block) -> Self {
        let zeros = || vec![0.0; block.len()];
        Self { h: zeros(), hu: zeros(), hv: zeros() }
    }

    /// The arrays, to read.
    pub fn view(&self) -> State<'_> {
        State { h: &self.h, hu: &self.hu, hv: &self.hv }
    }

    /// The owned rows `rows`, counted from the first, for writing.
    pub fn rows_mut(&mut self, block: &Block, rows: &Range<usize>) -> RowsMut<'_> {
        let span = (rows.start + MARGIN) * block.pitch..(rows.end + MARGIN) * block.pitch;
        RowsMut {
            first: rows.start,
            pitch: block.pitch,
            rows: StateMut {
                h: &mut self.h[span.clone()],
                hu: &mut self.hu[span.clone()],
                hv: &mut self.hv[span],
            },
        }
    }
}

/// A margin cell behind a wall, and its mirror image before the wall: the margin cell gets the same depth and the
/// reversed velocity through the wall. Then exactly no mass passes the wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reflection {
    /// The element of the margin cell.
    pub to: usize,
    /// The element of the owned cell.
    pub from: usize,
    /// Whether the wall is in the west or the east, so that `hu` is reversed.
    pub eastward: bool,
}

/// The margin cells behind the walls at both ends of one line of owned cells: of row `line` or, if `line` is `ny` or
/// more, of column `line - ny`. Different lines have no cell in common, and none has corners, which the scheme does
/// not read.
///
/// `shape` is the number of owned columns and rows, `[nx, ny]`.
pub fn reflections(
    [nx, ny]: [usize; 2],
    pitch: usize,
    walls: Walls,
    line: usize,
) -> impl Iterator<Item = Reflection> {
    let along_row = line < ny;
    // For both ends of the line: its first point, the direction from there, and its wall.
    let (first, last, step, near, far) = if along_row {
        let first = (line + MARGIN) * pitch;
        (first, first + nx + 2 * MARGIN - 1, 1, walls.west, walls.east)
    } else {
        let first = line - ny + MARGIN;
        (first, first + (ny + 2 * MARGIN - 1) * pitch, pitch, walls.south, walls.north)
    };
    (0..MARGIN).flat_map(move |ghost| {
        let mirror = 2 * MARGIN - 1 - ghost;
        let reflection = move |to, from| Reflection { to, from, eastward: along_row };
        let near = near.then(|| reflection(first + ghost * step, first + mirror * step));
        let far = far.then(|| reflection(last - ghost * step, last - mirror * step));
        near.into_iter().chain(far)
    })
}

/// Fills the margin behind the walls; see [`reflections`].
///
/// The scheme reads no corner cells, so walls may be filled before or after neighbours' cells arrive.
pub fn fill_walls(block: &Block, h: &mut [f64], hu: &mut [f64], hv: &mut [f64]) {
    let (nx, ny) = (block.nx(), block.ny());
    for line in 0..nx + ny {
        for Reflection { to, from, eastward } in reflections([nx, ny], block.pitch, block.walls, line) {
            h[to] = h[from];
            hu[to] = if eastward { -hu[from] } else { hu[from] };
            hv[to] = if eastward { hv[from] } else { -hv[from] };
        }
    }
}

/// The global cell at `shifted - MARGIN`, or its mirror image if that lies behind a wall.
fn mirrored(shifted: usize, cells: usize) -> usize {
    if shifted < MARGIN {
        MARGIN - 1 - shifted
    } else if shifted >= cells + MARGIN {
        2 * cells + MARGIN - 1 - shifted
    } else {
        shifted - MARGIN
    }
}

fn check_extent(axis: &'static str, range: &Range<usize>, available: usize) -> Result<(), BlockError> {
    if range.end > available || range.len() < MARGIN {
        return Err(BlockError::Extent { axis, available, start: range.start, end: range.end });
    }
    Ok(())
}
