//! The descriptions of a store and its arrays: the files `zarr.json`.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The description of an array.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Array {
    /// The names of its axes, the slowest first. An array that is named as its only axis has the coordinates along it.
    pub axes: Vec<String>,
    /// The extent of each axis.
    pub shape: Vec<usize>,
    /// The extent of a chunk along each axis, at least 1.
    pub chunk: Vec<usize>,
    /// Its attributes, such as `units` and `long_name` of the CF conventions.
    pub attributes: Map<String, Value>,
}

impl Array {
    /// The elements of a chunk.
    pub fn chunk_elements(&self) -> usize {
        self.chunk.iter().product()
    }
}

/// The description of a group.
#[derive(Deserialize)]
pub(super) struct GroupFile {
    zarr_format: u32,
    node_type: String,
    #[serde(default)]
    attributes: Value,
}

impl GroupFile {
    pub(super) fn of(attributes: &Value) -> String {
        text(&json!({ "zarr_format": 3, "node_type": "group", "attributes": attributes }))
    }

    /// The attributes, or what is there instead.
    pub(super) fn attributes<A: DeserializeOwned>(bytes: &[u8]) -> Result<A, String> {
        let group: GroupFile = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match (group.zarr_format, group.node_type.as_str()) {
            (3, "group") => serde_json::from_value(group.attributes).map_err(|error| error.to_string()),
            (format, node) => Err(format!("{node:?} of Zarr {format}")),
        }
    }
}

/// The description of an array, as the specification has it.
#[derive(Deserialize)]
pub(super) struct ArrayFile {
    zarr_format: u32,
    node_type: String,
    shape: Vec<usize>,
    data_type: Value,
    chunk_grid: Named<ChunkShape>,
    chunk_key_encoding: Value,
    codecs: Vec<Value>,
    #[serde(default)]
    attributes: Map<String, Value>,
    dimension_names: Vec<String>,
}

/// An extension of the specification: a name and its configuration.
#[derive(Deserialize)]
struct Named<C> {
    name: String,
    configuration: C,
}

#[derive(Deserialize)]
struct ChunkShape {
    chunk_shape: Vec<usize>,
}

impl ArrayFile {
    pub(super) fn of(array: &Array) -> String {
        text(&json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": array.shape,
            "data_type": "float64",
            "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": array.chunk } },
            "chunk_key_encoding": keys(),
            "fill_value": "NaN",
            "codecs": codecs(),
            "attributes": array.attributes,
            "dimension_names": array.axes,
        }))
    }

    /// The array, or what is there instead.
    pub(super) fn array(bytes: &[u8]) -> Result<Array, String> {
        let file: ArrayFile = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let ArrayFile { shape, attributes, dimension_names: axes, .. } = file;
        let chunk = file.chunk_grid.configuration.chunk_shape;
        let found = json!([file.zarr_format, file.node_type, file.data_type, file.chunk_grid.name]);
        if found != json!([3, "array", "float64", "regular"]) {
            return Err(found.to_string());
        }
        if file.codecs != codecs() || file.chunk_key_encoding != keys() {
            return Err(json!([file.codecs, file.chunk_key_encoding]).to_string());
        }
        let elements = chunk.iter().try_fold(size_of::<f64>(), |bytes, extent| bytes.checked_mul(*extent));
        if [axes.len(), chunk.len()] != [shape.len(); 2] || chunk.contains(&0) || elements.is_none() {
            return Err(format!("the axes {axes:?} with the extents {shape:?} in chunks of {chunk:?}"));
        }
        Ok(Array { axes, shape, chunk, attributes })
    }
}

/// Chunk (1, 2) is the file `c/1/2`.
fn keys() -> Value {
    json!({ "name": "default", "configuration": { "separator": "/" } })
}

fn codecs() -> Vec<Value> {
    vec![json!({ "name": "bytes", "configuration": { "endian": "little" } })]
}

fn text(value: &Value) -> String {
    format!("{value:#}\n")
}
