//! The cells that a rank wants: the halos of its domains, as boxes of the grid.

use crate::domain::{Grid, HaloWidths, IndexBox, Placement, cubed_sphere};

/// A box of halo cells that lies within one image of the grid, or one tile of a cubed sphere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) domain: usize,
    /// The cells as the domain numbers them.
    pub(super) target: IndexBox,
    /// Where they are in the grid.
    pub(super) placement: Placement,
}

impl Wanted {
    /// The cells as the grid numbers them.
    pub(super) fn source(&self) -> IndexBox {
        self.placement.source(&self.target)
    }
}

/// The halos of all domains, cut where they cross a periodic end of the grid or an edge of a tile; what lies beyond
/// other ends is left out.
pub(super) fn wanted(grid: &Grid, widths: &HaloWidths, domains: &[IndexBox]) -> Vec<Wanted> {
    domains
        .iter()
        .enumerate()
        .flat_map(|(domain, owned)| {
            widths
                .regions(owned)
                .into_iter()
                .flat_map(|region| images(grid, &region))
                .map(move |(target, placement)| Wanted { domain, target, placement })
        })
        .collect()
}

/// Cuts `region` into the parts that lie in one image of the grid each, with the way back into the grid. A region
/// wider than a periodic axis has several images along it.
fn images(grid: &Grid, region: &IndexBox) -> Vec<(IndexBox, Placement)> {
    let mut parts = match grid.face_axes() {
        Some([_, x]) => cubed_sphere::images(grid.extent(x) as i64, region),
        None => vec![(*region, Placement::default())],
    };
    // The axes of a tile are served by now.
    let straight = (0..grid.axes()).filter(|axis| !grid.is_tile_axis(*axis));
    for axis in straight {
        let extent = grid.extent(axis) as i64;
        let (lower, upper) = region.bounds(axis);
        let (first, last) = if grid.is_periodic(axis) {
            (lower.div_euclid(extent), (upper - 1).div_euclid(extent))
        } else {
            (0, 0)
        };
        parts = parts
            .into_iter()
            .flat_map(|(part, placement)| {
                (first..=last).filter_map(move |image| {
                    let cut =
                        part.with_axis(axis, lower.max(image * extent), upper.min((image + 1) * extent));
                    let mut placement = placement;
                    placement.shift[axis] = -image * extent;
                    (!cut.is_empty()).then_some((cut, placement))
                })
            })
            .collect();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Connectivity, Halo};

    #[test]
    fn a_halo_wider_than_a_periodic_grid_wraps_several_times() {
        let grid = Grid::new([3]).unwrap().periodic([true]).unwrap();
        let widths = Halo::uniform(7).on(&grid).unwrap();
        let wanted = wanted(&grid, &widths, &[IndexBox::new([0], [3])]);
        let cells: usize = wanted.iter().map(|piece| piece.target.extent(0)).sum();
        assert_eq!(cells, 14);
        for piece in &wanted {
            assert!(grid.bounds().encloses(&piece.source()), "{piece:?}");
            assert_eq!(piece.placement.shift[0] % 3, 0);
        }
    }

    #[test]
    fn ends_that_are_not_periodic_have_no_halo() {
        let grid = Grid::new([4, 4]).unwrap().periodic([false, true]).unwrap();
        let domain = IndexBox::new([0, 0], [4, 4]);
        let all = wanted(&grid, &Halo::uniform(1).on(&grid).unwrap(), &[domain]);
        assert_eq!(all.iter().map(|piece| piece.target.cells()).sum::<u128>(), 8);
        let faces = Halo::uniform(1).with_connectivity(Connectivity::Faces).on(&grid).unwrap();
        assert_eq!(wanted(&grid, &faces, &[domain]).len(), 2);
    }
}
