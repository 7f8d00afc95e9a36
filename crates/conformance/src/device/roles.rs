//! The flags of a device agree with the roles that it hands out.

use haloport_core::device::Device;

use crate::{Failure, ensure};

pub(super) fn roles_are_those_of_the_flags<D: Device>(device: &D) -> Result<(), Failure> {
    let flags = device.info().capabilities;
    for (role, flag, is_there) in [
        ("immediate streams", flags.immediate_streams, device.immediate_streams().is_some()),
        ("gates", flags.gates, device.gates().is_some()),
        ("words in streams", flags.stream_words, device.stream_words().is_some()),
        ("copies that combine", flags.combining, device.combining().is_some()),
        ("memory that other processes reach", flags.memory_export, device.memory_export().is_some()),
        ("messages in streams", flags.stream_messages, device.stream_messaging().is_some()),
    ] {
        ensure!(flag == is_there, "{role}: the flag is {flag}, handed out: {is_there}");
    }
    Ok(())
}
