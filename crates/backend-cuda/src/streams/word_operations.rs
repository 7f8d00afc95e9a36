//! Operations on words in streams.

use cudarc::driver::sys::{
    CUstreamBatchMemOpParams, CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st as WaitParams,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st__bindgen_ty_1 as WaitNumber,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st as WriteParams,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st__bindgen_ty_1 as WriteNumber,
    CUstreamBatchMemOpType, CUstreamWaitValue_flags, CUstreamWriteValue_flags,
};
use haloport_core::device::{DeviceError, Stream as _, WordOperation};

use crate::driver::context::address;
use crate::driver::functions::{NOT_SUPPORTED, SUCCESS};
use crate::streams::stream::CudaStream;

/// The number of operations that one call puts into a stream; the driver takes at most 255.
const MOST_AT_ONCE: usize = 128;

/// Puts operations on words into a stream.
///
/// # Safety
/// As for [`StreamWords::put_words`](haloport_core::device::StreamWords::put_words).
pub(crate) unsafe fn put_words(operations: &[WordOperation], stream: &CudaStream) -> Result<(), DeviceError> {
    // On the stack: this is called in every exchange.
    let mut parameters = [CUstreamBatchMemOpParams { pad: [0; 6] }; MOST_AT_ONCE];
    for operations in operations.chunks(MOST_AT_ONCE) {
        for (parameter, operation) in parameters.iter_mut().zip(operations) {
            *parameter = parameter_of(*operation);
        }
        let context = stream.context();
        let _entered = context.enter()?;
        let count = operations.len() as u32;
        // SAFETY: the caller promises that the words are valid; the driver reads the parameters before it returns.
        match unsafe {
            (context.driver.cuStreamBatchMemOp_v2)(stream.raw(), count, parameters.as_mut_ptr(), 0)
        } {
            SUCCESS => {}
            NOT_SUPPORTED => {
                let what = "writing and awaiting words in streams";
                return Err(DeviceError::Unsupported { what, device: stream.device() });
            }
            status => context.checked("cuStreamBatchMemOp", status)?,
        }
    }
    Ok(())
}

fn parameter_of(operation: WordOperation) -> CUstreamBatchMemOpParams {
    match operation {
        // The writing comes after all that the work before has written: the driver puts a fence there by default.
        WordOperation::Write(word, value) => CUstreamBatchMemOpParams {
            writeValue: WriteParams {
                operation: CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_32,
                address: address(word),
                __bindgen_anon_1: WriteNumber { value },
                flags: CUstreamWriteValue_flags::CU_STREAM_WRITE_VALUE_DEFAULT as u32,
                alias: 0,
            },
        },
        WordOperation::Await(word, value) => CUstreamBatchMemOpParams {
            waitValue: WaitParams {
                operation: CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WAIT_VALUE_32,
                address: address(word),
                __bindgen_anon_1: WaitNumber { value },
                flags: CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ as u32,
                alias: 0,
            },
        },
    }
}
