//! The cells that a rank wants, as boxes of the grid: the halos of its domains, and its owned cells, if another pattern has them.

use crate::domain::{Grid, HaloWidths, IndexBox, Renumbering, cubed_sphere};

/// A box of cells to fill, within one image of the grid, or one tile of a cubed sphere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WantedBox {
    pub(super) domain: usize,
    /// The cells in the numbering of the domain.
    pub(super) target: IndexBox,
    /// The way from that numbering to the numbering of the grid.
    pub(super) numbering: Renumbering,
}

impl WantedBox {
    /// The cells in the numbering of the grid.
    pub(super) fn source(&self) -> IndexBox {
        self.numbering.source(&self.target)
    }
}

/// The halos of all domains, cut at periodic ends of the grid, at a fold and at edges of tiles, without the cells beyond
/// other ends. On a folded grid also the duplicates of the domains.
pub(super) fn halo_boxes(grid: &Grid, widths: &HaloWidths, domains: &[IndexBox]) -> Vec<WantedBox> {
    domains
        .iter()
        .enumerate()
        .flat_map(|(domain, owned)| {
            let halo = widths.regions(owned).into_iter().flat_map(|region| images(grid, &region));
            let own = grid.fold().filter(|_| !owned.is_empty()).map(|_| images(grid, owned));
            let duplicates =
                own.into_iter().flatten().filter(|(_, numbering)| numbering.orientation.is_turned());
            halo.chain(duplicates).map(move |(target, numbering)| WantedBox { domain, target, numbering })
        })
        .collect()
}

/// The owned cells of all domains; without the duplicates of a folded grid if `halo_boxes` has these.
pub(super) fn owned_boxes(grid: &Grid, domains: &[IndexBox], without_duplicates: bool) -> Vec<WantedBox> {
    let owned = domains.iter().enumerate().filter(|(_, owned)| !owned.is_empty());
    let boxes = owned.flat_map(|(domain, owned)| {
        let parts = match grid.fold() {
            Some(_) if without_duplicates => images(grid, owned),
            _ => vec![(*owned, Renumbering::default())],
        };
        let parts = parts.into_iter().filter(|(_, numbering)| !numbering.orientation.is_turned());
        parts.map(move |(target, numbering)| WantedBox { domain, target, numbering })
    });
    boxes.collect()
}

/// Cuts `region` into parts that lie in one image of the grid each, with their numbering in the grid. A region wider
/// than a periodic axis has several images along it.
fn images(grid: &Grid, region: &IndexBox) -> Vec<(IndexBox, Renumbering)> {
    let mut parts = match (grid.face_axes(), grid.fold_line()) {
        (Some([_, x]), _) => cubed_sphere::images(grid.extent(x) as i64, region),
        (None, Some(fold)) => fold.images(region),
        (None, None) => vec![(*region, Renumbering::default())],
    };
    // The axes of a tile and of a fold are done.
    let folded = |axis: usize| grid.fold().is_some_and(|fold| axis == fold.x || axis == fold.y);
    let straight = (0..grid.axes()).filter(|axis| !grid.is_tile_axis(*axis) && !folded(*axis));
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
            .flat_map(|(part, numbering)| {
                (first..=last).filter_map(move |image| {
                    let cut =
                        part.with_axis(axis, lower.max(image * extent), upper.min((image + 1) * extent));
                    let mut numbering = numbering;
                    numbering.shift[axis] = -image * extent;
                    (!cut.is_empty()).then_some((cut, numbering))
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
        let halo = halo_boxes(&grid, &widths, &[IndexBox::new([0], [3])]);
        let cells: usize = halo.iter().map(|piece| piece.target.extent(0)).sum();
        assert_eq!(cells, 14);
        for piece in &halo {
            assert!(grid.bounds().encloses(&piece.source()), "{piece:?}");
            assert_eq!(piece.numbering.shift[0] % 3, 0);
        }
    }

    #[test]
    fn ends_that_are_not_periodic_have_no_halo() {
        let grid = Grid::new([4, 4]).unwrap().periodic([false, true]).unwrap();
        let domain = IndexBox::new([0, 0], [4, 4]);
        let all = halo_boxes(&grid, &Halo::uniform(1).on(&grid).unwrap(), &[domain]);
        assert_eq!(all.iter().map(|piece| piece.target.cells()).sum::<u128>(), 8);
        let faces = Halo::uniform(1).with_connectivity(Connectivity::Faces).on(&grid).unwrap();
        assert_eq!(halo_boxes(&grid, &faces, &[domain]).len(), 2);
    }
}
