//! A device that is chosen at run time, as a device.

use haloport::device::{Device, DeviceError, KernelSource, LaunchConfig, MemoryKind, Priority};
use haloport::sycl::SyclDevice;
use haloport::{AnyDevice, Pattern, Schedule, run_ranks};

/// A kernel without parameters, which does nothing.
const NOTHING: KernelSource = KernelSource {
    name: "nothing",
    portable: Some("KERNEL void nothing(void) {}"),
    host: |_, _| {},
    parameters: &[],
};

#[test]
fn what_a_device_of_another_backend_has_made_is_refused() {
    let (cpu, sycl) = match (AnyDevice::select("cpu:threads=1"), AnyDevice::select("sycl")) {
        (Ok(cpu), Ok(sycl)) => (cpu, sycl),
        (_, Err(why)) => return println!("skipped: {why}"),
        (Err(why), _) => panic!("{why}"),
    };
    let of_cpu = (cpu.default_stream(), cpu.create_event(true).unwrap(), cpu.compile(&NOTHING).unwrap());
    let config = LaunchConfig { global: [1; 3], group: None };
    let mut launch = cpu.bind(&of_cpu.2, config, &[]).unwrap();
    let refusals: [(&str, Result<(), DeviceError>); 8] = [
        ("stream", sycl.synchronize(&of_cpu.0)),
        ("stream", sycl.check_not_captured(&of_cpu.0)),
        ("event, stream", sycl.record(&of_cpu.1, &sycl.default_stream())),
        ("event", sycl.query(&of_cpu.1).map(drop)),
        ("begin, end", sycl.elapsed(&of_cpu.1, &of_cpu.1).map(drop)),
        ("kernel", sycl.bind(&of_cpu.2, config, &[]).map(drop)),
        ("launch", sycl.rebind(&mut launch, 0, haloport::device::KernelArgument::I32(0))),
        // SAFETY: nothing is launched.
        ("launch, stream", unsafe { sycl.launch(&launch, &sycl.default_stream()) }),
    ];
    for (expected, found) in refusals {
        match found {
            Err(DeviceError::InvalidArgument { what, .. }) => assert_eq!(what, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    assert!(!sycl.is_default(&of_cpu.0));
    let buffer = cpu.allocate(64, MemoryKind::Device).unwrap();
    if let Some(export) = sycl.memory_export() {
        assert!(export.export(&buffer).is_err());
    }
}

#[test]
fn it_takes_streams_of_its_backend_and_its_backend_takes_its_streams() {
    let device = match SyclDevice::new() {
        Ok(device) => device,
        Err(why) => return println!("skipped: {why}"),
    };
    let any = AnyDevice::from(device.clone());
    run_ranks(1, |comm| {
        let pattern = Pattern::on_grid(&comm, [6]).periodic([true]).halo(1).build()?;
        let (of_backend, own) =
            (device.create_stream(Priority::Normal)?, any.create_stream(Priority::Normal)?);
        let mut on_any = pattern.bind(pattern.field::<i64, _>(&any)?)?;
        on_any.run_on(Schedule::On(&of_backend))?;
        on_any.run_on(Schedule::On(&own))?;
        let mut on_backend = pattern.bind(pattern.field::<i64, _>(&device)?)?;
        on_backend.run_on(Schedule::On(&own))?;
        Ok(())
    })
    .unwrap();
}
