//! Calls of a capability that the device does not have.

use std::fmt::Display;
use std::time::Duration;

use haloport_core::device::{Device, DeviceError, StreamGroup};

use crate::{Failure, ensure};

/// Fails unless the device has answered `Unsupported`.
pub(super) fn refused<T>(what: impl Display, answer: Result<T, DeviceError>) -> Result<(), Failure> {
    let refused = matches!(answer, Err(DeviceError::Unsupported { .. }));
    ensure!(refused, "the device has no capability for {what}, but does not answer `Unsupported`");
    Ok(())
}

/// Devices with the capability have a suite of their own, [`messages`](crate::messages), because it needs several.
pub(super) fn messages_in_streams<D: Device>(device: &D) -> Result<(), Failure> {
    if device.info().capabilities.stream_messages {
        return Ok(());
    }
    let (what, time_limit) = ("messages in streams", Duration::from_secs(1));
    let group = StreamGroup { token: &[0; 128], rank: 0, ranks: 1, peers: &[], time_limit };
    refused(what, device.offer_stream_messages())?;
    refused(what, device.stream_messages_token())?;
    refused(what, device.join_stream_messages(&group))
}
