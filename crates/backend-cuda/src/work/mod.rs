//! Work that is put into streams: `kernels` launches kernels, `copies` copies boxes and indexed rows.

pub(crate) mod copies;
pub(crate) mod kernels;
