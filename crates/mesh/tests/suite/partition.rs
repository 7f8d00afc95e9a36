//! Partitions and their parts, compared with searches through the whole mesh.

use std::collections::{BTreeMap, BTreeSet};

use haloport_mesh::{LocalItems, LocalMesh, Mesh, Neighbourhood, Partition, PartitionError, Surface};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn icosahedral(divisions: usize) -> Mesh {
    Mesh::icosahedral(divisions).expect("a mesh")
}

/// A plane of `columns` × `rows` unit squares; every third one is cut into two triangles.
fn plane(columns: usize, rows: usize) -> Mesh {
    let vertex = |column: usize, row: usize| row * (columns + 1) + column;
    let mut cells = Vec::new();
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        let [a, b] = [0, 1].map(|side| vertex(column + side, row));
        let [d, c] = [0, 1].map(|side| vertex(column + side, row + 1));
        match (row + column) % 3 {
            0 => cells.extend([vec![a, b, c], vec![a, c, d]]),
            _ => cells.push(vec![a, b, c, d]),
        }
    }
    let positions =
        (0..=rows).flat_map(|row| (0..=columns).map(move |column| [column as f64, 7.0, row as f64]));
    Mesh::new(Surface::Flat, positions.collect(), cells).expect("a mesh")
}

/// The part of every cell, taken from the cells of every part.
fn parts_of_cells(partition: &Partition, mesh: &Mesh) -> Vec<usize> {
    let mut parts = vec![None; mesh.cells()];
    for part in 0..partition.parts() {
        let cells = partition.cells_of(part);
        assert!(cells.is_sorted());
        cells.iter().for_each(|&cell| assert_eq!(parts[cell].replace(part), None, "cell {cell} twice"));
    }
    let parts: Vec<usize> = parts.into_iter().map(|part| part.expect("a part for each cell")).collect();
    assert!((0..mesh.cells()).all(|cell| partition.part(cell) == parts[cell]));
    parts
}

#[test]
fn the_curve_gives_every_cell_once_and_balances_within_one() {
    let mut random = StdRng::seed_from_u64(1);
    for mesh in [icosahedral(1), icosahedral(6), Mesh::icon(2, 3).unwrap(), plane(13, 9), plane(40, 1)] {
        let some = (0..20).map(|_| random.random_range(1..=mesh.cells()));
        for parts in [1, 2, 3, 4, 8, mesh.cells()].into_iter().chain(some) {
            let partition = Partition::by_curve(&mesh, parts).unwrap();
            assert_eq!(partition.parts(), parts);
            parts_of_cells(&partition, &mesh);
            let sizes = (0..parts).map(|part| partition.cells_of(part).len());
            let (low, high) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
            assert!(low == mesh.cells() / parts && high - low <= 1, "{parts}: {low} to {high}");
        }
    }
}

#[test]
fn a_strip_of_cells_is_cut_across() {
    // The centres differ along one axis only.
    let positions = (0..=20).flat_map(|step| [[f64::from(step), 0.0, 0.0], [f64::from(step), 1.0, 0.0]]);
    let cells = (0..20).map(|cell| [2 * cell, 2 * cell + 2, 2 * cell + 3, 2 * cell + 1]);
    let strip = Mesh::new(Surface::Flat, positions.collect(), cells).unwrap();
    let parts = Partition::by_curve(&strip, 4).unwrap();
    assert_eq!(parts.edge_cut(&strip), 3);
    assert_eq!(parts.cells_of(3), [15, 16, 17, 18, 19]);
}

#[test]
fn the_curve_gives_compact_parts() {
    // On the plane, a compact part of c cells has about 4 √c edges around it, each shared by two parts. A random
    // partition cuts most edges.
    let mesh = plane(32, 32);
    let cut = Partition::by_curve(&mesh, 16).unwrap().edge_cut(&mesh);
    assert!(cut < 16 * 36 / 2 * 3 / 2, "{cut}");
    let sphere = Mesh::icon(2, 4).unwrap();
    let partition = Partition::by_curve(&sphere, 8).unwrap();
    let cut = partition.edge_cut(&sphere);
    assert!(cut < sphere.edges() / 30, "{cut}");
    let counted = (0..sphere.edges()).filter(|&edge| {
        let (left, right) = sphere.edge_cells(edge);
        partition.part(left) != partition.part(right.unwrap())
    });
    assert_eq!(cut, counted.count());
}

#[test]
fn given_parts_are_checked() {
    let mesh = icosahedral(1);
    let told = |made: Result<Partition, PartitionError>| made.unwrap_err().to_string();
    assert_eq!(
        told(Partition::given(&mesh, vec![0; 19], 1)),
        "the partition is of 19 cells, but the mesh has 20"
    );
    let mut parts: Vec<usize> = (0..20).map(|cell| cell % 4).collect();
    assert_eq!(parts_of_cells(&Partition::given(&mesh, parts.clone(), 4).unwrap(), &mesh), parts);
    assert_eq!(
        told(Partition::given(&mesh, parts.clone(), 3)),
        "cell 3 is in part 3, but there are 3 parts, numbered from 0"
    );
    parts.iter_mut().filter(|part| **part == 2).for_each(|part| *part = 0);
    assert_eq!(
        told(Partition::given(&mesh, parts.clone(), 4)),
        "part 2 of 4 has no cells; choose fewer parts, or allow empty ones"
    );
    let partition = Partition::with_empty_parts(&mesh, parts, 4).unwrap();
    assert!(partition.cells_of(2).is_empty());
    for parts in [0, usize::MAX] {
        assert!(told(Partition::with_empty_parts(&mesh, vec![0; 20], parts)).contains("1 to 16777216 parts"));
    }
    assert!(told(Partition::by_curve(&mesh, 0)).contains("found 0"));
    assert!(told(Partition::by_curve(&mesh, 21)).contains("choose at most 20 parts"));
}

#[test]
fn files_of_parts_are_read_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("parts");
    let mesh = icosahedral(3);
    let partition = Partition::by_curve(&mesh, 7).unwrap();
    partition.write(&file).unwrap();
    assert_eq!(Partition::read(&mesh, &file, None).unwrap(), partition);
    assert!(
        Partition::read(&mesh, &file, Some(8)).unwrap_err().to_string().contains("part 7 of 8 has no cells")
    );

    let told = |text: &str| {
        std::fs::write(&file, text).unwrap();
        Partition::read(&mesh, &file, None).unwrap_err().to_string()
    };
    assert!(told("0\n1\n").contains("of 2 cells, but the mesh has 180"));
    assert!(told("").contains("of 0 cells"));
    assert!(told("0\n\n1x\n").ends_with("parts, line 3: expected the number of a part, found `1x`"));
    assert!(told("0\n-1\n").contains("line 2: expected the number of a part, found `-1`"));
    assert!(told(&format!("{}\n", usize::MAX).repeat(180)).contains("1 to 16777216 parts"));
    let missing = Partition::read(&mesh, &folder.path().join("none"), None).unwrap_err().to_string();
    assert!(missing.contains("none: "), "{missing}");
}

#[cfg(feature = "metis")]
#[test]
fn metis_gives_balanced_parts_with_few_cut_edges() {
    let mesh = Mesh::icon(2, 4).unwrap();
    for parts in [1, 2, 3, 8, 30] {
        let partition = Partition::metis(&mesh, parts).unwrap();
        parts_of_cells(&partition, &mesh);
        let largest = (0..parts).map(|part| partition.cells_of(part).len()).max().unwrap();
        assert!(largest as f64 <= 1.05 * mesh.cells() as f64 / parts as f64, "{parts}: {largest}");
        let by_curve = Partition::by_curve(&mesh, parts).unwrap();
        assert!(partition.edge_cut(&mesh) <= by_curve.edge_cut(&mesh));
        assert_eq!(partition, Partition::metis(&mesh, parts).unwrap());
    }
    assert!(Partition::metis(&mesh, 0).unwrap_err().to_string().contains("found 0"));
    assert!(Partition::metis(&mesh, mesh.cells() + 1).unwrap_err().to_string().contains("choose at most"));
}

#[cfg(feature = "metis")]
#[test]
fn metis_is_the_same_on_all_threads_at_once() {
    let mesh = Mesh::icon(2, 3).unwrap();
    let expected = Partition::metis(&mesh, 6).unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| Partition::metis(&mesh, 6).unwrap())).collect();
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), expected));
    });
}

/// Cells one step apart, by comparing all pairs of cells.
fn steps(mesh: &Mesh, neighbourhood: Neighbourhood) -> Vec<BTreeSet<usize>> {
    let common = match neighbourhood {
        Neighbourhood::Edges => 2,
        Neighbourhood::Vertices => 1,
    };
    let shared = |a: usize, b: usize| {
        mesh.cell_vertices(a).iter().filter(|vertex| mesh.cell_vertices(b).contains(vertex)).count()
    };
    let near = |a: usize| (0..mesh.cells()).filter(|&b| a != b && shared(a, b) >= common).collect();
    (0..mesh.cells()).map(near).collect()
}

/// The distances of the cells that are at most `levels` steps from `part`.
fn distances(
    steps: &[BTreeSet<usize>],
    parts: &[usize],
    part: usize,
    levels: usize,
) -> BTreeMap<usize, usize> {
    let owned = parts.iter().enumerate().filter(|(_, of_cell)| **of_cell == part);
    let mut known: BTreeMap<usize, usize> = owned.map(|(cell, _)| (cell, 0)).collect();
    for level in 1..=levels {
        let last: Vec<usize> =
            known.iter().filter(|(_, d)| **d == level - 1).map(|(&cell, _)| cell).collect();
        for other in last.iter().flat_map(|&cell| &steps[cell]) {
            known.entry(*other).or_insert(level);
        }
    }
    known
}

/// The items are exactly those with a level, in the documented order.
fn check_items(items: &LocalItems, levels: &BTreeMap<usize, usize>, owner: impl Fn(usize) -> usize) {
    let mut expected: Vec<(usize, usize)> = levels.iter().map(|(&global, &level)| (level, global)).collect();
    expected.sort_unstable();
    assert_eq!(items.len(), expected.len());
    assert_eq!(items.owned(), expected.iter().filter(|(level, _)| *level == 0).count());
    for (local, &(level, global)) in expected.iter().enumerate() {
        assert_eq!((items.global(local), items.ids()[local]), (global, global as i64));
        assert_eq!((items.local(global), items.level_of(local)), (Some(local), level));
        assert!(items.level(level).contains(&local));
        assert_eq!(items.owner(local), owner(global));
        assert_eq!(items.halo().contains(&local), level > 0);
    }
    assert!(items.level(1000).is_empty() && items.level(usize::MAX).is_empty());
    assert_eq!(items.local(usize::MAX), None);
}

fn check_part(mesh: &Mesh, partition: &Partition, part: usize, levels: usize, neighbourhood: Neighbourhood) {
    let parts = parts_of_cells(partition, mesh);
    let local = LocalMesh::new(mesh, partition, part, levels, neighbourhood);
    let cells = distances(&steps(mesh, neighbourhood), &parts, part, levels);
    check_items(local.cells(), &cells, |cell| parts[cell]);

    let lowest =
        |having: &dyn Fn(usize) -> bool| (0..mesh.cells()).find(|&cell| having(cell)).expect("a cell");
    let edge_owner = |edge: usize| parts[lowest(&|cell| mesh.cell_edges(cell).contains(&edge))];
    let vertex_owner = |vertex: usize| parts[lowest(&|cell| mesh.cell_vertices(cell).contains(&vertex))];
    let (mut edges, mut vertices) = (BTreeMap::new(), BTreeMap::new());
    for (&cell, &level) in &cells {
        let touch = |known: &mut BTreeMap<usize, usize>, item: usize, owner: usize| {
            let level = if owner == part { 0 } else { level + 1 };
            known.entry(item).and_modify(|known| *known = level.min(*known)).or_insert(level);
        };
        mesh.cell_edges(cell).iter().for_each(|&edge| touch(&mut edges, edge, edge_owner(edge)));
        mesh.cell_vertices(cell).iter().for_each(|&v| touch(&mut vertices, v, vertex_owner(v)));
    }
    check_items(local.edges(), &edges, edge_owner);
    check_items(local.vertices(), &vertices, vertex_owner);
    check_connectivity(mesh, &local);

    let others: BTreeSet<usize> =
        cells.keys().map(|&cell| parts[cell]).filter(|&other| other != part).collect();
    assert!(local.neighbours().into_iter().eq(others));
}

/// The local connectivity, translated back, is that of the mesh, as far as the part holds it.
fn check_connectivity(mesh: &Mesh, local: &LocalMesh) {
    let (cells, edges, vertices) = (local.cells(), local.edges(), local.vertices());
    let globals = |items: &LocalItems, list: &[usize]| -> Vec<usize> {
        list.iter().map(|&item| items.global(item)).collect()
    };
    let held = |cell: Option<usize>| cell.filter(|&cell| cells.local(cell).is_some());
    for cell in 0..cells.len() {
        let global = cells.global(cell);
        assert_eq!(globals(edges, local.cell_edges(cell)), mesh.cell_edges(global));
        assert_eq!(globals(vertices, local.cell_vertices(cell)), mesh.cell_vertices(global));
        let across = local.cell_neighbours(cell).iter().map(|other| other.map(|other| cells.global(other)));
        assert!(across.eq(mesh.cell_neighbours(global).map(held)));
    }
    for edge in 0..edges.len() {
        let global = edges.global(edge);
        let (left, right) = mesh.edge_cells(global);
        let sides = local.edge_cells(edge).map(|cell| cell.map(|cell| cells.global(cell)));
        assert_eq!(sides, [held(Some(left)), held(right)]);
        assert_eq!(local.edge_vertices(edge).map(|end| vertices.global(end)), mesh.edge_vertices(global));
    }
    for vertex in 0..vertices.len() {
        let around = mesh.vertex_cells(vertices.global(vertex)).iter().copied();
        let around: Vec<usize> = around.filter(|&cell| cells.local(cell).is_some()).collect();
        assert_eq!(globals(cells, local.vertex_cells(vertex)), around);
    }
}

#[test]
fn a_part_holds_what_a_search_finds() {
    let mut random = StdRng::seed_from_u64(2);
    let meshes = [icosahedral(1), icosahedral(3), Mesh::icon(1, 2).unwrap(), plane(7, 5), plane(9, 1)];
    for case in 0..120 {
        let mesh = &meshes[case % meshes.len()];
        let count = random.random_range(1..=6);
        let partition = match case % 3 {
            0 => Partition::by_curve(mesh, count).unwrap(),
            // Scattered parts; some may be empty.
            _ => {
                let parts = (0..mesh.cells()).map(|_| random.random_range(0..count)).collect();
                Partition::with_empty_parts(mesh, parts, count + 1).unwrap()
            }
        };
        let part = random.random_range(0..partition.parts());
        let levels = random.random_range(0..=3);
        for neighbourhood in [Neighbourhood::Edges, Neighbourhood::Vertices] {
            check_part(mesh, &partition, part, levels, neighbourhood);
        }
    }
}

#[test]
fn every_item_is_owned_by_one_part() {
    let mesh = icosahedral(4);
    let partition = Partition::by_curve(&mesh, 5).unwrap();
    let locals: Vec<LocalMesh> =
        (0..5).map(|part| LocalMesh::new(&mesh, &partition, part, 1, Neighbourhood::Vertices)).collect();
    let owned = |items: fn(&LocalMesh) -> &LocalItems| {
        let mut ids: Vec<i64> =
            locals.iter().flat_map(|local| items(local).ids()[..items(local).owned()].to_vec()).collect();
        ids.sort_unstable();
        ids
    };
    assert!(owned(LocalMesh::cells).into_iter().eq(0..mesh.cells() as i64));
    assert!(owned(LocalMesh::edges).into_iter().eq(0..mesh.edges() as i64));
    assert!(owned(LocalMesh::vertices).into_iter().eq(0..mesh.vertices() as i64));
}

#[test]
fn a_part_without_cells_holds_nothing_and_levels_end_with_the_mesh() {
    let mesh = icosahedral(1);
    let partition = Partition::with_empty_parts(&mesh, vec![0; 20], 2).unwrap();
    let empty = LocalMesh::new(&mesh, &partition, 1, 3, Neighbourhood::Vertices);
    assert!(empty.cells().is_empty() && empty.edges().is_empty() && empty.vertices().is_empty());
    assert!(empty.neighbours().is_empty());
    let partition = Partition::by_curve(&mesh, 2).unwrap();
    let all = LocalMesh::new(&mesh, &partition, 1, usize::MAX, Neighbourhood::Edges);
    assert_eq!((all.cells().len(), all.edges().len(), all.vertices().len()), (20, 30, 12));
}
