//! Writes `data/sphere.npz`, the domains of the benchmark of unstructured exchange:
//!
//! ```text
//! cargo run --release -p haloport-cli --example sphere_domains -- data/sphere.npz
//! ```
//!
//! An icosahedral mesh of 45 divisions (40,500 triangles) is cut in two along Hilbert's curve. Each part numbers the
//! cells that it owns along the curve, as models do for the sake of caches; then come the cells that share a vertex
//! with them, in the order of their global ids, which are the mesh's own numbers.

use std::fs::File;

use haloport_mesh::{LocalMesh, Mesh, Neighbourhood, Partition};
use ndarray::Array1;
use ndarray_npy::NpzWriter;

const DIVISIONS: usize = 45;
const PARTS: usize = 2;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("say where to write the file")?;
    let mesh = Mesh::icosahedral(DIVISIONS)?;
    let partition = Partition::by_curve(&mesh, PARTS)?;
    // With as many parts as cells, the part of a cell is its place on the curve.
    let place = Partition::by_curve(&mesh, mesh.cells())?;
    let mut file = NpzWriter::new_compressed(File::create(path)?);
    for part in 0..PARTS {
        let local = LocalMesh::new(&mesh, &partition, part, 1, Neighbourhood::Vertices);
        let (owned, halo) = local.cells().ids().split_at(local.cells().owned());
        let (mut owned, mut halo) = (owned.to_vec(), halo.to_vec());
        owned.sort_by_key(|&id| place.part(id as usize));
        halo.sort_unstable();
        println!("part {part}: {} cells owned, {} in the halo", owned.len(), halo.len());
        file.add_array(format!("owned_{part}"), &Array1::from(owned))?;
        file.add_array(format!("halo_{part}"), &Array1::from(halo))?;
    }
    file.finish()?;
    Ok(())
}
