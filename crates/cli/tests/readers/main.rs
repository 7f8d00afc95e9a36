//! All readers of files, on damaged files: an error or a result, no panic, and no memory for sizes that a file only
//! claims.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod arrays;
mod memory;

use std::fs::File;
use std::io::{Cursor, Write as _};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use haloport_cli::trace::time_line::TimeLine;
use haloport_conformance::mutation::mutated;
use haloport_core::device::{KernelCache, KernelKey, KernelParts};
use haloport_demos::npz::{NpyType, Npz, NpzError, Wanted};
use haloport_demos::rolling::model::table::Table;
use haloport_demos::tsunami::model::relief::{Relief, ReliefError};
use haloport_mesh::partition::read_parts;
use haloport_mesh::{GmshMesh, Mesh, Partition};
use memory::most_bytes;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Damaged inputs of each reader.
const INPUTS: u64 = 20_000;

/// The memory that a reader may use beside its input.
const MOST: usize = 64 << 20;

/// Calls `read` with one input after the other. It returns whether it accepted the input: some must be accepted, some
/// not.
fn survives(originals: &[&[u8]], inputs: u64, mut read: impl FnMut(&[u8]) -> bool) {
    assert!(originals.iter().all(|whole| read(whole)), "what is whole is refused");
    let mut whole = 0;
    for number in 0..inputs {
        let input = mutated(originals, number);
        let (is_whole, bytes) = most_bytes(|| read(&input));
        assert!(bytes <= input.len() + MOST, "input {number}: {bytes} bytes for one of {}", input.len());
        whole += u64::from(is_whole);
    }
    assert!((1..inputs).contains(&whole), "{whole} of {inputs} damaged inputs were taken for whole");
}

/// An error of one line.
fn is_ok<T, E: std::fmt::Display>(result: Result<T, E>) -> bool {
    if let Err(error) = &result {
        let text = error.to_string();
        assert!(!text.is_empty() && !text.contains('\n'), "{text}");
    }
    result.is_ok()
}

/// Replaces the content of a file, without truncating it first: some file systems then write it to the disk at once.
fn rewrite(file: &File, bytes: &[u8]) {
    file.write_all_at(bytes, 0).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

/// An array in NumPy's format.
fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn archive(members: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        zip.start_file(format!("{name}.npy"), SimpleFileOptions::default().compression_method(method))
            .unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn doubles(values: impl IntoIterator<Item = f64>) -> Vec<u8> {
    values.into_iter().flat_map(f64::to_le_bytes).collect()
}

/// The arrays of a relief of 4 × 5 cells.
fn relief_arrays(fortran: bool) -> [(&'static str, Vec<u8>); 3] {
    let topo: Vec<u8> = (0..20i16).flat_map(|cell| (-10 * (cell + 1)).to_be_bytes()).collect();
    [
        ("topo", npy(">i2", fortran, "(4, 5)", &topo)),
        ("longitude", npy("<f8", false, "(5,)", &doubles((0..5).map(|i| 230.0 + f64::from(i))))),
        ("latitude", npy("<f8", false, "(4,)", &doubles((0..4).map(|j| 48.0 + f64::from(j))))),
    ]
}

fn relief(fortran: bool, method: CompressionMethod) -> Vec<u8> {
    let arrays = relief_arrays(fortran);
    archive(&arrays.each_ref().map(|(name, bytes)| (*name, &bytes[..])), method)
}

#[test]
fn reliefs() {
    let shipped = haloport_demos::tsunami::model::SHIPPED;
    let [c, fortran] = [false, true].map(|fortran| relief(fortran, CompressionMethod::Deflated));
    let stored = relief(false, CompressionMethod::Stored);
    survives(&[&c, &fortran, &stored], INPUTS, |bytes| is_ok(Relief::from_bytes(bytes)));
    survives(&[shipped], INPUTS / 20, |bytes| is_ok(Relief::from_bytes(bytes)));
}

/// Checksums of an archive hide most damage from the reader of arrays. Here they are right.
#[test]
fn arrays_in_archives() {
    let [topo, longitude, latitude] = relief_arrays(false);
    let fortran = &relief_arrays(true)[0].1;
    survives(&[&topo.1, fortran], INPUTS, |bytes| {
        let members = [("topo", bytes), ("longitude", &longitude.1[..]), ("latitude", &latitude.1[..])];
        is_ok(Relief::from_bytes(&archive(&members, CompressionMethod::Stored)))
    });
    let ids: Vec<u8> = (0..9i64).flat_map(i64::to_le_bytes).collect();
    let ids = npy("<i8", false, "(9,)", &ids);
    let wanted = Wanted { types: &[NpyType::I64], axes: 1, most: 1 << 30 };
    survives(&[&ids], INPUTS, |bytes| {
        let bytes = archive(&[("ids", bytes)], CompressionMethod::Deflated);
        is_ok(Npz::new(Cursor::new(bytes)).and_then(|mut npz| npz.array("ids", wanted)))
    });
}

#[test]
fn both_orders_of_axes_and_of_bytes_are_read() {
    let read = |fortran| Relief::from_bytes(&relief(fortran, CompressionMethod::Deflated)).unwrap();
    let (rows, columns) = (read(false), read(true));
    assert_eq!((rows.elevation[1], rows.elevation[5]), (-20.0, -60.0));
    assert_eq!((columns.elevation[1], columns.elevation[5]), (-50.0, -20.0));
}

/// A header that promises more than the file can hold, and a member that inflates to more than its header promises.
#[test]
fn promises_and_bombs() {
    let refuse = |member: &[u8], method| {
        let [_, longitude, latitude] = relief_arrays(false);
        let members = [("topo", member), ("longitude", &longitude.1[..]), ("latitude", &latitude.1[..])];
        refused(&archive(&members, method))
    };
    let many = format!("({})", "2, ".repeat(500));
    let deep = "(".repeat(5000);
    for shape in ["(1000000, 100000)", "(1152921504606846976, 16)", "(268435456, 1)", "(4, 6)", &many, &deep]
    {
        let text = refuse(&npy("<f8", false, shape, &[0; 160]), CompressionMethod::Deflated);
        assert!(text.starts_with("array `topo` of the relief"), "{text}");
    }
    let mut long = npy("<f8", false, "(4, 5)", &[0; 160]);
    long[6] = 2;
    long[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let text = refuse(&long, CompressionMethod::Deflated);
    assert!(text.contains("its header has 4294967295 bytes"), "{text}");

    // An end that promises 2^32 members, with bytes enough before it for as many to be likely.
    let mut archive_end = vec![0; 1 << 20];
    archive_end.extend(b"PK\x06\x06");
    archive_end.extend([44, 45 << 16 | 45].iter().flat_map(|number: &u64| number.to_le_bytes()));
    archive_end.extend([0; 4]);
    archive_end.extend([1 << 20, 1 << 20, 0, 1 << 20].iter().flat_map(|number: &u64| number.to_le_bytes()));
    archive_end.extend(b"PK\x06\x07\0\0\0\0");
    archive_end.extend((1u64 << 20).to_le_bytes());
    archive_end.extend(b"\x01\0\0\0PK\x05\x06");
    archive_end.extend([0xff; 16]);
    archive_end.extend([0; 2]);
    let (error, bytes) = most_bytes(|| Relief::from_bytes(&archive_end).unwrap_err().to_string());
    assert!(error.contains("more than 4 GiB") && bytes < 1 << 20, "{bytes} bytes: {error}");

    // 96 MiB of zeros; the archive gives that size, or the one that the header promises.
    let whole = npy("<f8", false, "(4, 5)", &vec![0; 96 << 20]);
    let admitted = archive(&[("topo", &whole)], CompressionMethod::Deflated);
    let size = (whole.len() as u32).to_le_bytes();
    let promised = (whole.len() as u32 - (96 << 20) + 160).to_le_bytes();
    let mut denied = admitted.clone();
    for at in 0..denied.len() - 4 {
        if denied[at..at + 4] == size {
            denied[at..at + 4].copy_from_slice(&promised);
        }
    }
    let wanted = Wanted { types: &[NpyType::F64], axes: 2, most: 1 << 28 };
    for (bomb, why) in [(admitted, "the archive has"), (denied, "there are more")] {
        let (error, bytes) = most_bytes(|| {
            let mut npz = Npz::new(Cursor::new(&bomb)).unwrap();
            npz.array("topo", wanted).unwrap_err()
        });
        assert!(matches!(&error, NpzError::Damaged(text) if text.contains(why)), "{error}");
        assert!(bytes < 1 << 20, "{bytes} bytes");
    }
}

fn refused(bytes: &[u8]) -> String {
    let (error, taken) = most_bytes(|| Relief::from_bytes(bytes).unwrap_err());
    assert!(taken < 1 << 20, "{taken} bytes: {error}");
    assert!(matches!(error, ReliefError::Damaged { .. } | ReliefError::Shape { .. }), "{error}");
    error.to_string()
}

#[test]
fn meshes_of_gmsh() {
    let plate =
        std::fs::read(format!("{}/../mesh/tests/data/plate.msh", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let square =
        b"$MeshFormat\n4.1 0 8\n$EndMeshFormat\n$Nodes\n2 4 1 4\n2 1 0 3\n1\n2\n3\n0 0 0\n1 0 0\n1 1 0\n\
        0 1 1 1\n4\n0 1 0 0.5\n$EndNodes\n$Elements\n4 4 1 4\n1 1 1 1\n1 1 2\n2 1 2 2\n2 1 2 3\n3 1 3 4\n\
        2 2 3 0\n0 1 15 1\n4 1\n$EndElements\n";
    survives(&[square], INPUTS, |bytes| is_ok(GmshMesh::parse(bytes)));
    survives(&[&plate], INPUTS / 20, |bytes| is_ok(GmshMesh::parse(bytes)));
    let huge = String::from_utf8_lossy(square).replace("2 1 0 3", "2 1 0 9223372036854775807");
    let (error, bytes) = most_bytes(|| GmshMesh::parse(huge.as_bytes()).unwrap_err().to_string());
    assert_eq!(error, "line 10: expected the tag of a node (1 number), found `0 0 0`");
    assert!(bytes < 1 << 16, "{bytes} bytes");
}

#[test]
fn parts_of_meshes() {
    let mesh = Mesh::icosahedral(1).unwrap();
    let lines =
        |part: fn(usize) -> usize| -> String { (0..20).map(|cell| format!("{}\n", part(cell))).collect() };
    let (one, other) = (lines(|cell| cell / 5), lines(|cell| cell % 3));
    let file = tempfile::NamedTempFile::new().unwrap();
    survives(&[one.as_bytes(), other.as_bytes()], INPUTS, |bytes| {
        rewrite(file.as_file(), bytes);
        let _ = is_ok(read_parts(file.path()));
        is_ok(Partition::read(&mesh, file.path(), None))
    });
    // One part for each cell, and one far away.
    rewrite(file.as_file(), lines(|cell| if cell == 19 { (1 << 24) - 1 } else { cell }).as_bytes());
    let (error, bytes) = most_bytes(|| Partition::read(&mesh, file.path(), None).unwrap_err().to_string());
    assert!(error.contains("19") && bytes < 1 << 16, "{bytes} bytes: {error}");
}

#[test]
fn tables() {
    let numbers = "t,a,b\n1,2,3\n1.5,,4\n2,-1e3,4\n";
    let dates = "# a comment\n\"when\",\"some, text\",x\n2020-01-31,\"1\",2\n2020-02-01T12:30:00,3,\n";
    survives(&[numbers.as_bytes(), dates.as_bytes()], INPUTS, |bytes| {
        is_ok(Table::from_bytes(bytes, None, &[]).map_err(|error| error.to_string().replace('\n', " ")))
    });
}

#[test]
fn time_lines() {
    let line = r#"{"traceEvents":[{"ph":"M","pid":0,"tid":0,"name":"thread_name","args":{"name":"host"}},
        {"ph":"X","pid":0,"tid":0,"ts":1.5,"dur":2.25,"name":"stage","cat":"kernel","args":{"bytes":64}},
        {"ph":"X","pid":1,"tid":3,"ts":2,"dur":1,"name":"wait","cat":"waiting","args":{"bytes":0,"exchange":1,
        "failed":true}},{"ph":"C","pid":9}],"otherData":{"format":"haloport-trace-1","ranks":2,"dropped":[0,7]}}"#;
    survives(&[line.as_bytes()], INPUTS, |bytes| is_ok(TimeLine::from_bytes(bytes)));
}

/// A kernel that is damaged is compiled again.
#[test]
fn kernels_of_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let key = KernelKey::new(&KernelParts { source: b"source", options: &[], compiler: "c", device: "d" });
    let kernel: Vec<u8> = (0..200).collect();
    let ask = |folder: &Path| {
        let cache = KernelCache::in_folder(folder);
        cache.get_or_compile(&key, || Err::<Vec<u8>, _>("compiled again"))
    };
    let cache = KernelCache::in_folder(folder.path().join("kernels"));
    cache.get_or_compile(&key, || Ok::<_, String>(kernel.clone())).unwrap();
    let file = folder.path().join("kernels").join(key.to_string());
    let whole = std::fs::read(&file).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o77, 0);
    let open = File::options().write(true).open(&file).unwrap();
    survives(&[&whole], INPUTS, |bytes| {
        rewrite(&open, bytes);
        let found = ask(file.parent().unwrap());
        assert_eq!(found.is_ok(), bytes == whole, "a damaged kernel is taken");
        found.is_ok_and(|found| *found == kernel[..])
    });
}
