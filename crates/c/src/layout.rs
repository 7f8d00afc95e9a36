//! The structs and numbers of the header as this crate has them. A test holds them against the header.

use std::mem::offset_of;

use crate::array::{self, CArray};
use crate::boxes::CBox;
use crate::collective;
use crate::flights;
use crate::line::{self, CPayload};
use crate::log;
use crate::messages::CReceived;
use crate::pattern::{self, CGrid, CIds, CList};
use crate::plan::COptions;
use crate::status;
use crate::stream::{self, CStream};

/// A struct of the header: its name, its size in bytes, and the name and the offset in bytes of each member.
#[derive(Debug)]
pub struct Layout {
    pub name: &'static str,
    pub bytes: usize,
    pub members: Vec<(&'static str, usize)>,
}

/// The layout of a struct of which all members are named, in Rust and in C.
macro_rules! layout {
    ($name:literal, $kind:ident { $($member:ident $in_c:literal),+ $(,)? }) => {{
        // Does not compile if a member is missing.
        let _ = |$kind { $($member: _),+ }: $kind| ();
        Layout {
            name: $name,
            bytes: size_of::<$kind>(),
            members: vec![$(($in_c, offset_of!($kind, $member))),+],
        }
    }};
}

/// All structs of the header.
pub fn layouts() -> Vec<Layout> {
    vec![
        layout!("hp_box", CBox { lower "lower", upper "upper" }),
        layout!("hp_grid", CGrid {
            size "size", axes "axes", cells "cells", periodic "periodic", halo_lower "halo_lower",
            halo_upper "halo_upper", faces_only "faces_only", cubed_sphere "cubed_sphere", parts "parts",
            fold "fold", points "points",
            clipped "clipped", like "like",
        }),
        layout!("hp_ids", CIds { size "size", cells "cells", ids "ids", owned "owned", owners "owners" }),
        layout!("hp_list", CList { size "size", rank "rank", cells "cells", at "at" }),
        layout!("hp_array", CArray {
            size "size", kind "type", element_bytes "element_bytes", axes "axes", extent "extent", stride "stride",
            role "role", origin "origin", device "device", vector "vector", of "of",
        }),
        layout!("hp_options", COptions {
            size "size", fixed "fixed", in_flight "in_flight", threads "threads", path "path",
            queue "queue", accumulate "accumulate", zero_halo "zero_halo", share "share",
        }),
        layout!("hp_stream", CStream { kind "kind", unused "unused", handle "handle" }),
        layout!("hp_received", CReceived { rank "rank", unused "unused", bytes "bytes", data "data" }),
        layout!("hp_payload", CPayload { bytes "bytes", data "data" }),
    ]
}

/// The numbers of the header, by name.
pub fn numbers() -> Vec<(&'static str, i64)> {
    let numbers = [
        ("HP_SPLIT", pattern::SPLIT),
        ("HP_FOLD_CELL", pattern::FOLDS[0].0),
        ("HP_FOLD_CORNER", pattern::FOLDS[1].0),
        ("HP_POINTS_CELLS", pattern::POINTS[0].0),
        ("HP_POINTS_EAST_EDGES", pattern::POINTS[1].0),
        ("HP_POINTS_NORTH_EDGES", pattern::POINTS[2].0),
        ("HP_POINTS_CORNERS", pattern::POINTS[3].0),
        ("HP_SUM", collective::REDUCTIONS[0].0),
        ("HP_MIN", collective::REDUCTIONS[1].0),
        ("HP_MAX", collective::REDUCTIONS[2].0),
        ("HP_CELLS", array::CELLS),
        ("HP_CELL_BLOCKS", array::BLOCKS),
        ("HP_LEVELS", array::LEVELS),
        ("HP_COMPONENTS", array::COMPONENTS),
        ("HP_DEFAULT", stream::DEFAULT),
        ("HP_BLOCK", stream::BLOCK),
        ("HP_ON", stream::ON),
        ("HP_SYCL", stream::SYCL),
        ("HP_LOG_ERROR", log::ERROR),
        ("HP_LOG_WARNING", log::WARNING),
    ];
    let statuses = status::NAMES.map(|(status, name)| (name.to_str().unwrap_or_default(), status as i32));
    let numbers = numbers.into_iter().chain(statuses).map(|(name, number)| (name, i64::from(number)));
    let wide = [
        ("HP_ABI", i64::from(status::ABI)),
        ("HP_NO_TICKET", flights::NO_TICKET as i64),
        ("HP_NO_PAYLOAD", line::NO_PAYLOAD),
    ];
    wide.into_iter().chain(numbers).collect()
}
