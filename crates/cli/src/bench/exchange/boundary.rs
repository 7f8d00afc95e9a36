//! What is written between exchanges: the owned cells near the halo.

use haloport::device::DeviceInfo;
use haloport::{Element, IndexBox, Pattern};

use super::ExchangeArgs;
use crate::bench::block::Block;
use crate::bench::contestant::Boundary;
use crate::command::failure::Failure;

/// The writes of a step of a model: the values of those cells, which are copied into the fields row by row.
pub(super) struct BoundaryWrites<T> {
    boxes: Vec<IndexBox>,
    /// The axis along which cells lie together.
    axis: usize,
    values: Vec<T>,
}

impl<T: Element> BoundaryWrites<T> {
    /// Rewrites the values that fields of `pattern` have now: those of the last axis lie together.
    ///
    /// # Errors
    /// [`Failure::Run`] if they are not in memory of the host.
    pub(super) fn of(fields: &mut [impl Block<T>], pattern: &Pattern) -> Result<BoundaryWrites<T>, Failure> {
        let boxes = pattern.regions(0).map_or_else(Vec::new, |regions| regions.boundary);
        let axis = pattern.grid().map_or(1, |grid| grid.axes()) - 1;
        let mut values = Vec::new();
        for field in fields {
            for cells in &boxes {
                field.rows_mut(axis, cells, &mut |row| values.extend_from_slice(row))?;
            }
        }
        Ok(BoundaryWrites { boxes, axis, values })
    }

    /// Writes the cells of all fields.
    ///
    /// # Errors
    /// As for [`of`](BoundaryWrites::of).
    pub(super) fn write(&self, fields: &mut [impl Block<T>]) -> Result<(), Failure> {
        let mut rest = &self.values[..];
        for field in fields {
            for cells in &self.boxes {
                field.rows_mut(self.axis, cells, &mut |row| {
                    let (values, others) = rest.split_at(row.len());
                    row.copy_from_slice(values);
                    rest = others;
                })?;
            }
        }
        Ok(())
    }
}

/// What the arguments ask for.
///
/// # Errors
/// [`Failure::BadInput`] if that is not possible.
pub(super) fn boundary(args: &ExchangeArgs, device: &DeviceInfo) -> Result<Boundary, Failure> {
    let obstacle = match (device.host_accessible, args.uneven) {
        (false, _) => Some("the host cannot write memory of this device"),
        (_, Some(_)) => Some("there is work between start and end (--uneven)"),
        _ => None,
    };
    match (args.boundary, obstacle) {
        (Some(Boundary::Written), Some(why)) => {
            Err(Failure::BadInput(format!("--boundary: expected unchanged, as {why}, found written")))
        }
        (Some(boundary), _) => Ok(boundary),
        (None, Some(_)) => Ok(Boundary::Unchanged),
        (None, None) => Ok(Boundary::Written),
    }
}
