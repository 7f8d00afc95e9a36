//! The codes that functions return: `ze_result_t`.

/// A code.
pub(crate) type Status = u32;

pub(crate) const SUCCESS: Status = 0;
pub(crate) const NOT_READY: Status = 1;
pub(crate) const DEVICE_LOST: Status = 0x7000_0001;
pub(crate) const OUT_OF_DEVICE_MEMORY: Status = 0x7000_0003;
pub(crate) const MODULE_BUILD_FAILURE: Status = 0x7000_0004;
pub(crate) const DEPENDENCY_UNAVAILABLE: Status = 0x7002_0000;
pub(crate) const UNSUPPORTED_FEATURE: Status = 0x7800_0003;
pub(crate) const INVALID_ARGUMENT: Status = 0x7800_0004;
pub(crate) const INVALID_NULL_HANDLE: Status = 0x7800_0005;
pub(crate) const INVALID_NULL_POINTER: Status = 0x7800_0007;
pub(crate) const INVALID_SIZE: Status = 0x7800_0008;
pub(crate) const UNSUPPORTED_ALIGNMENT: Status = 0x7800_000a;
pub(crate) const INVALID_NATIVE_BINARY: Status = 0x7800_000f;
pub(crate) const INVALID_KERNEL_NAME: Status = 0x7800_0011;
pub(crate) const INVALID_GROUP_SIZE: Status = 0x7800_0013;
pub(crate) const INVALID_ARGUMENT_INDEX: Status = 0x7800_0015;
pub(crate) const INVALID_ARGUMENT_SIZE: Status = 0x7800_0016;
pub(crate) const INVALID_COMMAND_LIST_TYPE: Status = 0x7800_0019;
pub(crate) const UNKNOWN: Status = 0x7fff_fffe;
