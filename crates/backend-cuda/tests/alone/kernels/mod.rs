//! The kernels that copy, without a GPU: as PTX of the real compiler, run on the host, and as machine code, counted.
//!
//! Both are skipped, with a message, without a compiler (`HALOPORT_NVRTC`), the second also without a disassembler
//! (`HALOPORT_NVDISASM`); `scripts/opencl --install` gets them.

mod cases;
mod disassembly;
mod machine_code;
mod results;
