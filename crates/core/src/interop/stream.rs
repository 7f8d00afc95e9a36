//! The streams that come with arrays, in the numbers of the protocols.

use super::{ArrayDeviceKind, InteropError, Protocol};

/// The stream with which an array is ordered, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamOrder {
    /// No stream: the caller has synchronised already, or there are no streams.
    Unordered,
    /// The default stream of the device; on CUDA the legacy default stream.
    Default,
    /// CUDA's default stream of each thread.
    PerThread,
    /// The stream with this native handle.
    Native(usize),
}

/// A Python object that represents a stream, by the attribute that it has, in the order in which to try them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamObject {
    /// Python's `None`: the default stream.
    None,
    /// The result of `__cuda_stream__()`.
    CudaStream {
        /// The version of the protocol; only 0 is supported.
        version: i64,
        /// The `cudaStream_t`.
        handle: i64,
    },
    /// The value of the attribute `ptr`, as of CuPy's streams: the `cudaStream_t`.
    Ptr(i64),
    /// None of these; the name of the type of the object.
    Other(String),
}

impl StreamOrder {
    /// The meaning of the argument `stream` of `__dlpack__` for an array of this kind.
    ///
    /// # Errors
    /// `ValueError` for the numbers that DLPack forbids; `TypeError` for any number on the host, which has no streams,
    /// and for unified shared memory, whose producers take a queue object.
    pub fn from_dlpack(kind: ArrayDeviceKind, stream: Option<i64>) -> Result<StreamOrder, InteropError> {
        use ArrayDeviceKind::*;
        let fault = Protocol::DlPack.fault("stream");
        match (kind, stream) {
            (Host | CudaHost | RocmHost | Usm, None) => Ok(StreamOrder::Unordered),
            (Host | CudaHost | RocmHost, Some(found)) => {
                Err(fault.wrong_type("None for memory of the host", found, "pass no stream"))
            }
            (Usm, Some(found)) => {
                let expected = "None for unified shared memory";
                Err(fault.wrong_type(expected, found, "synchronise first, or pass the queue to the exchange"))
            }
            (_, None) => Ok(StreamOrder::Default),
            (_, Some(-1)) => Ok(StreamOrder::Unordered),
            (Cuda | CudaManaged, Some(1)) | (Rocm, Some(0)) => Ok(StreamOrder::Default),
            (Cuda | CudaManaged, Some(2)) => Ok(StreamOrder::PerThread),
            (_, Some(handle @ 3..)) => native(handle).ok_or_else(|| too_large(fault.protocol, handle)),
            (Rocm, Some(found)) => {
                Err(fault.value("-1, 0 (default) or a handle above 2", found, "pass a stream that ROCm has"))
            }
            (_, Some(found)) => Err(fault.value(
                "-1, 1 (legacy default), 2 (per thread) or a handle above 2",
                found,
                "pass 1 or 2 for a default stream: 0 could mean either",
            )),
        }
    }

    /// The argument `stream` of `__dlpack__` with which the producer makes this stream wait.
    ///
    /// # Errors
    /// `BufferError` for a stream without a number in the protocol.
    pub fn to_dlpack(self, kind: ArrayDeviceKind) -> Result<Option<i64>, InteropError> {
        use ArrayDeviceKind::*;
        match (kind, self) {
            (Host | CudaHost | RocmHost | Usm, StreamOrder::Unordered | StreamOrder::Default) => Ok(None),
            (Cuda | CudaManaged | Rocm, StreamOrder::Unordered) => Ok(Some(-1)),
            (Cuda | CudaManaged, StreamOrder::Default) => Ok(Some(1)),
            (Cuda | CudaManaged, StreamOrder::PerThread) => Ok(Some(2)),
            (Rocm, StreamOrder::Default) => Ok(Some(0)),
            (Cuda | CudaManaged | Rocm, StreamOrder::Native(handle @ 3..))
                if i64::try_from(handle).is_ok() =>
            {
                Ok(Some(handle as i64))
            }
            (kind, stream) => Err(Protocol::DlPack.fault("stream").buffer(
                format!("a stream that has a number for {kind}"),
                format!("{stream:?}"),
                "synchronise first and pass none",
            )),
        }
    }

    /// The meaning of the member `stream` of `__cuda_array_interface__`; pass `None` if it is absent or `None`.
    ///
    /// # Errors
    /// `ValueError` for 0 and for negative numbers.
    pub fn from_cuda_array(stream: Option<i64>) -> Result<StreamOrder, InteropError> {
        match stream {
            None => Ok(StreamOrder::Unordered),
            Some(1) => Ok(StreamOrder::Default),
            Some(2) => Ok(StreamOrder::PerThread),
            Some(handle @ 3..) => native(handle).ok_or_else(|| too_large(Protocol::CudaArray, handle)),
            Some(found) => Err(Protocol::CudaArray.fault("stream").value(
                "None, 1 (legacy default), 2 (per thread) or a handle above 2",
                found,
                "pass 1 or 2 for a default stream: 0 could mean either",
            )),
        }
    }

    /// The member `stream` of `__cuda_array_interface__`.
    pub fn to_cuda_array(self) -> Option<i64> {
        match self {
            StreamOrder::Unordered => None,
            StreamOrder::Default | StreamOrder::Native(0) => Some(1),
            StreamOrder::PerThread => Some(2),
            StreamOrder::Native(handle) => Some(handle as i64),
        }
    }

    /// The stream that an object represents. Unlike in the protocols above, the handle 0 is the default stream.
    ///
    /// # Errors
    /// `TypeError` for an object that is not a stream; `ValueError` for another version and for a negative handle.
    pub fn from_object(object: &StreamObject) -> Result<StreamOrder, InteropError> {
        let handle = match object {
            StreamObject::None => 0,
            StreamObject::CudaStream { version: 0, handle } => *handle,
            StreamObject::CudaStream { version, .. } => {
                let fault = Protocol::StreamObject.fault("version");
                return Err(fault.value(
                    "version 0 of `__cuda_stream__`",
                    version,
                    "pass the stream's handle instead",
                ));
            }
            StreamObject::Ptr(handle) => *handle,
            StreamObject::Other(type_name) => {
                return Err(Protocol::StreamObject.fault("type").wrong_type(
                    "None, an object with `__cuda_stream__` or one with `ptr`",
                    type_name,
                    "pass a stream of CuPy, PyTorch or cuda.core",
                ));
            }
        };
        match handle {
            0 | 1 => Ok(StreamOrder::Default),
            2 => Ok(StreamOrder::PerThread),
            handle => native(handle).ok_or_else(|| {
                let fault = Protocol::StreamObject.fault("handle");
                fault.value("a handle from 0 on", handle, "pass a stream that has not been destroyed")
            }),
        }
    }

    /// The handle for [`borrow_stream`](crate::device::Device::borrow_stream): 0 for the default stream, 2 (CUDA's
    /// `cudaStreamPerThread`) for the default stream of each thread; `None` for no stream.
    pub fn handle(self) -> Option<usize> {
        match self {
            StreamOrder::Unordered => None,
            StreamOrder::Default => Some(0),
            StreamOrder::PerThread => Some(2),
            StreamOrder::Native(handle) => Some(handle),
        }
    }
}

fn native(handle: i64) -> Option<StreamOrder> {
    usize::try_from(handle).ok().map(StreamOrder::Native)
}

fn too_large(protocol: Protocol, handle: i64) -> InteropError {
    protocol.fault("stream").value("a handle that is an address", handle, "correct the producer")
}
