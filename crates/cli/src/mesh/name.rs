//! Meshes by name: `icon:R2B4`, `icosahedral:32`.

use std::fmt;
use std::str::FromStr;

use haloport_mesh::{Mesh, MeshError};
use thiserror::Error;

/// A mesh of a family, which has coarser and finer members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeshName {
    /// ICON's grid RnBk: see [`Mesh::icon`].
    Icon {
        /// Parts that the icosahedron's edges are cut into first.
        root: usize,
        /// Then, how often all edges are halved.
        bisections: u32,
    },
    /// See [`Mesh::icosahedral`].
    Icosahedral {
        /// Parts that the icosahedron's edges are cut into.
        divisions: usize,
    },
}

/// The error of an unknown name.
#[derive(Debug, Error, PartialEq)]
#[error("there is no mesh `{0}`; expected icon:RnBk (as icon:R2B4) or icosahedral:n (as icosahedral:32)")]
pub(crate) struct UnknownMesh(String);

impl MeshName {
    /// Makes the mesh.
    ///
    /// # Errors
    /// [`MeshError::Size`].
    pub(crate) fn make(self) -> Result<Mesh, MeshError> {
        match self {
            MeshName::Icon { root, bisections } => Mesh::icon(root, bisections),
            MeshName::Icosahedral { divisions } => Mesh::icosahedral(divisions),
        }
    }

    /// Parts that the icosahedron's edges are cut into in the end; `None` if that overflows.
    pub(crate) fn divisions(self) -> Option<usize> {
        match self {
            MeshName::Icon { root, bisections } => root.checked_mul(2_usize.checked_pow(bisections)?),
            MeshName::Icosahedral { divisions } => Some(divisions),
        }
    }

    /// The number of cells; `None` if that overflows.
    pub(crate) fn cells(self) -> Option<usize> {
        let divisions = self.divisions()?;
        divisions.checked_mul(divisions)?.checked_mul(20)
    }

    /// The mesh of the family with edges twice as long, or nearly so if the divisions are odd; `None` for the coarsest.
    pub(crate) fn coarser(self) -> Option<MeshName> {
        match self {
            MeshName::Icon { root, bisections: 0 } => {
                (root > 1).then_some(MeshName::Icon { root: root / 2, bisections: 0 })
            }
            MeshName::Icon { root, bisections } => Some(MeshName::Icon { root, bisections: bisections - 1 }),
            MeshName::Icosahedral { divisions } => {
                (divisions > 1).then_some(MeshName::Icosahedral { divisions: divisions / 2 })
            }
        }
    }

    /// The mesh of the family with edges half as long.
    #[must_use]
    pub(crate) fn finer(self) -> MeshName {
        match self {
            MeshName::Icon { root, bisections } => {
                MeshName::Icon { root, bisections: bisections.saturating_add(1) }
            }
            MeshName::Icosahedral { divisions } => {
                MeshName::Icosahedral { divisions: divisions.saturating_mul(2) }
            }
        }
    }
}

impl fmt::Display for MeshName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeshName::Icon { root, bisections } => write!(f, "icon:R{root}B{bisections}"),
            MeshName::Icosahedral { divisions } => write!(f, "icosahedral:{divisions}"),
        }
    }
}

impl FromStr for MeshName {
    type Err = UnknownMesh;

    fn from_str(text: &str) -> Result<MeshName, UnknownMesh> {
        let icon = || {
            let (root, bisections) =
                text.strip_prefix("icon:")?.strip_prefix(['R', 'r'])?.split_once(['B', 'b'])?;
            Some(MeshName::Icon { root: number(root)?, bisections: number(bisections)? })
        };
        let icosahedral = || {
            let divisions = number(text.strip_prefix("icosahedral:")?)?;
            Some(MeshName::Icosahedral { divisions })
        };
        icon().or_else(icosahedral).ok_or_else(|| UnknownMesh(text.chars().take(40).collect()))
    }
}

/// Reads digits without a sign.
fn number<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for (text, divisions) in [("icon:R2B4", 32), ("icon:R3B0", 3), ("icosahedral:50", 50)] {
            let name: MeshName = text.parse().unwrap();
            assert_eq!((name.to_string().as_str(), name.divisions()), (text, Some(divisions)));
        }
        for same in ["icon:R02B04", "icon:r2b04"] {
            assert_eq!(same.parse(), Ok(MeshName::Icon { root: 2, bisections: 4 }));
        }
        for text in ["", "icon", "icon:R2", "icon:RB", "icon:R-2B3", "icon:R2B+3", "icosahedral:", "cube:3"] {
            assert!(text.parse::<MeshName>().is_err(), "{text}");
        }
        assert_eq!("icon:R2B64".parse::<MeshName>().unwrap().cells(), None);
    }

    #[test]
    fn a_family_leads_to_coarser_and_finer_meshes() {
        let name = MeshName::Icon { root: 2, bisections: 1 };
        assert_eq!(name.finer().divisions(), Some(8));
        let coarser = std::iter::successors(Some(name), |name| name.coarser());
        assert_eq!(coarser.map(|name| name.divisions()).collect::<Vec<_>>(), [Some(4), Some(2), Some(1)]);
        let name = MeshName::Icosahedral { divisions: 7 };
        assert_eq!(name.coarser(), Some(MeshName::Icosahedral { divisions: 3 }));
        assert_eq!(MeshName::Icosahedral { divisions: 1 }.coarser(), None);
    }
}
