//! Memory that other processes map by a file descriptor or a fabric handle: the driver for tests has both.

use std::io::{BufRead, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use haloport_core::device::{Buffer, Device, DeviceError, MemoryExport, MemoryKind, Pointer};
use haloport_cuda::CudaDevice;

use super::recording::{Recording, recorded, recorded_with};

/// The calls that allocate such memory, zeroed.
const ALLOCATES: [&str; 7] = [
    "cuMemGetAllocationGranularity",
    "cuMemCreate",
    "cuMemAddressReserve",
    "cuMemMap",
    "cuMemSetAccess",
    "cuMemsetD8Async",
    "cuStreamSynchronize",
];

const UNMAPS: [&str; 3] = ["cuMemUnmap", "cuMemAddressFree", "cuMemRelease"];

fn names(recording: &Recording) -> Vec<String> {
    recording.take_work().into_iter().map(|call| call.name).collect()
}

fn bytes(device: &CudaDevice, from: Pointer, count: usize) -> Vec<u8> {
    let mut found = vec![0; count];
    // SAFETY: the callers' memory is that long.
    unsafe { device.read(from, &mut found, &device.default_stream()) }.unwrap();
    found
}

fn fill(device: &CudaDevice, to: Pointer, byte: u8, count: usize) {
    let stream = device.default_stream();
    // SAFETY: as above.
    unsafe { device.fill(to, &[byte], count, &stream) }.unwrap();
    device.synchronize(&stream).unwrap();
}

/// The number of threads that hand over file descriptors.
fn servers() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "haloport-share").count()
}

/// The number of files that this process has open when it has loaded its libraries.
pub(crate) fn files_of_libraries() -> usize {
    drop(CudaDevice::new().unwrap());
    open_files()
}

/// The number of files that this process has open.
fn open_files() -> usize {
    // One of them is the folder.
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits until `count` files are open: a thread that hands over descriptors closes its socket when it ends.
pub(crate) fn await_open_files(count: usize, context: &str) {
    let begin = Instant::now();
    while open_files() != count {
        let found = open_files();
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "expected {count} files, found {found}: {context}"
        );
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Waits until there are `count` of them: a thread takes its name when it begins, and ends by itself.
fn await_servers(count: usize) {
    let begin = Instant::now();
    while servers() != count {
        assert!(begin.elapsed() < Duration::from_secs(10), "expected {count}, found {}", servers());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Exports memory, imports it in the same process, and frees it before that.
fn outlives_its_owner(recording: &Recording, threads: usize) {
    let device = CudaDevice::new().unwrap();
    let before = recording.living();
    recording.take_calls();
    let buffer = device.allocate_exportable(1000).unwrap();
    let calls = names(recording);
    // Fabric handles are tried once.
    let tries = ["cuMemExportToShareableHandle", "cuMemImportFromShareableHandle", "cuMemRelease"];
    let tries = if threads == 0 { &tries[..] } else { &[] };
    assert_eq!(calls, [&ALLOCATES[..5], tries, &ALLOCATES[5..]].concat());
    assert_eq!((buffer.bytes(), buffer.kind(), buffer.host_accessible()), (1000, MemoryKind::Device, false));
    assert_eq!(bytes(&device, buffer.pointer(), 1000), [0; 1000]);
    assert_eq!(servers(), 0, "there is a thread before it is needed");
    recording.take_calls();
    let token = device.export(&buffer).unwrap();
    assert_eq!(device.export(&buffer).unwrap(), token);
    let exports = names(recording);
    assert!(exports.iter().all(|name| name == "cuMemExportToShareableHandle"), "{exports:?}");
    await_servers(threads);
    // SAFETY: such memory lives as long as it is mapped.
    let imported = unsafe { device.import(&token) }.unwrap();
    let calls = names(recording);
    let expected = ["cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"];
    assert_eq!(calls, expected);
    assert_eq!((imported.bytes(), imported.kind()), (1000, MemoryKind::Device));
    assert_ne!(imported.pointer(), buffer.pointer());
    assert!(matches!(device.export(&imported), Err(DeviceError::Unsupported { .. })));
    fill(&device, buffer.pointer(), 7, 1000);
    recording.take_calls();
    drop(buffer);
    assert_eq!(names(recording), UNMAPS);
    assert_eq!(bytes(&device, imported.pointer(), 1000), [7; 1000]);
    recording.take_calls();
    drop(imported);
    assert_eq!(names(recording), UNMAPS);
    assert_eq!(recording.living(), before);
    // SAFETY: nothing is imported.
    let error = unsafe { device.import(&token) }.unwrap_err().to_string();
    match threads {
        0 => assert!(error.contains("cuMemImportFromShareableHandle failed"), "{error}"),
        _ => assert!(error.contains("HALOPORT_CUDA_SHARE=ipc"), "{error}"),
    }
    // The thread ends when nothing is exported.
    await_servers(0);
    for wrong in [&token[1..], &[&token[..], &[0]].concat(), &[0; 72], &[9; 48]] {
        // SAFETY: as above.
        let error = unsafe { device.import(wrong) }.unwrap_err().to_string();
        assert!(error.contains("expected one that `export` returned"), "{error}");
    }
}

#[test]
fn memory_with_a_file_descriptor_outlives_its_owner() {
    recorded("shared::memory_with_a_file_descriptor_outlives_its_owner", |recording| {
        outlives_its_owner(recording, 1);
        // Once more, with another thread.
        outlives_its_owner(recording, 1);
    });
}

#[test]
fn memory_with_a_fabric_handle_outlives_its_owner() {
    let name = "shared::memory_with_a_fabric_handle_outlives_its_owner";
    let variables = [("HALOPORT_DRIVER_HANDLES", "fabric")];
    recorded_with(name, &["libcuda.so.1"], &variables, |recording| outlives_its_owner(recording, 0));
}

/// All orders of `count` things.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1);
    let with_last = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, count - 1);
        order
    };
    shorter.iter().flat_map(|order| (0..count).map(move |at| with_last(order, at))).collect()
}

/// A device, memory that is exported, and two imports of it, dropped in any order, leave neither objects nor files.
fn go_in_any_order(recording: &Recording) {
    let files = files_of_libraries();
    for order in orders(4) {
        let device = CudaDevice::new().unwrap();
        let buffer = device.allocate_exportable(64).unwrap();
        let token = device.export(&buffer).unwrap();
        // SAFETY: such memory lives as long as it is mapped.
        let [first, second] = [(); 2].map(|()| unsafe { device.import(&token) }.unwrap());
        fill(&device, second.pointer(), 5, 64);
        assert_eq!(bytes(&device, first.pointer(), 64), [5; 64]);
        assert_ne!(open_files(), files);
        let (mut device, mut memory) = (Some(device), [Some(buffer), Some(first), Some(second)]);
        for which in order.clone() {
            match which.checked_sub(1) {
                None => device = None,
                Some(number) => memory[number] = None,
            }
            // What is left still works.
            if let Some(device) = &device {
                memory
                    .iter()
                    .flatten()
                    .for_each(|left| assert_eq!(bytes(device, left.pointer(), 64), [5; 64], "{order:?}"));
            }
        }
        assert_eq!(recording.living(), "", "{order:?}");
        await_open_files(files, &format!("{order:?}"));
    }
}

#[test]
fn memory_with_a_file_descriptor_goes_in_any_order() {
    recorded("shared::memory_with_a_file_descriptor_goes_in_any_order", go_in_any_order);
}

#[test]
fn memory_with_a_fabric_handle_goes_in_any_order() {
    let name = "shared::memory_with_a_fabric_handle_goes_in_any_order";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_DRIVER_HANDLES", "fabric")], go_in_any_order);
}

/// Each call in turn returns a status that refuses handles or memory with them: other handles take their place, or the error
/// is returned.
fn every_call_is_refused(recording: &Recording) {
    let job = || -> Result<(), DeviceError> {
        let device = CudaDevice::new()?;
        let buffer = device.allocate_exportable(1000)?;
        let token = device.export(&buffer)?;
        // SAFETY: the buffer lives longer.
        let imported = unsafe { device.import(&token) }?;
        let stream = device.default_stream();
        // SAFETY: both are that long.
        unsafe { device.fill(buffer.pointer(), &[7], 1000, &stream) }?;
        let mut found = vec![0; 1000];
        // SAFETY: as above.
        unsafe { device.read(imported.pointer(), &mut found, &stream) }?;
        recording.mark();
        // The driver gives other memory to a process that opens its own by CUDA's older calls.
        let is_older = recording.take_calls().iter().any(|call| call.name == "cuIpcOpenMemHandle_v2");
        assert!(is_older || found == [7; 1000]);
        Ok(())
    };
    let files = files_of_libraries();
    job().unwrap();
    recording.take_calls();
    let mut fallbacks = 0;
    // Values, handles, permission, support, and the daemon of fabric handles; one call, or all from that one on.
    for (status, for_ever) in [1, 400, 800, 801, 802].map(|status| [(status, false), (status, true)]).concat()
    {
        for position in 0.. {
            recording.fail(position, status, for_ever);
            let result = job();
            let context = format!("call {position} returned {status}, {for_ever}");
            if !recording.has_failed() {
                result.unwrap();
                break;
            }
            match result {
                Ok(()) => fallbacks += 1,
                Err(error) => {
                    let error = error.to_string();
                    assert!(
                        error.contains("failed on cuda:0") || error.contains("driver"),
                        "{context}: {error}"
                    );
                }
            }
            recording.take_calls();
            assert_eq!(recording.living(), "", "{context}");
            await_open_files(files, &context);
        }
    }
    assert!(fallbacks > 10, "{fallbacks} calls have a fallback");
}

#[test]
fn a_refused_call_of_file_descriptors_is_an_error_or_has_a_fallback() {
    let name = "shared::a_refused_call_of_file_descriptors_is_an_error_or_has_a_fallback";
    recorded(name, every_call_is_refused);
}

#[test]
fn a_refused_call_of_fabric_handles_is_an_error_or_has_a_fallback() {
    let name = "shared::a_refused_call_of_fabric_handles_is_an_error_or_has_a_fallback";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_DRIVER_HANDLES", "fabric")], every_call_is_refused);
}

#[test]
fn some_of_many_offers_are_taken_in_any_order() {
    recorded("shared::some_of_many_offers_are_taken_in_any_order", |_| {
        let device = CudaDevice::new().unwrap();
        let mut buffers: Vec<_> = (0..20).map(|_| device.allocate_exportable(64).unwrap()).collect();
        let tokens: Vec<_> = buffers.iter().map(|buffer| device.export(buffer).unwrap()).collect();
        for (number, buffer) in buffers.iter().enumerate() {
            fill(&device, buffer.pointer(), number as u8, 64);
        }
        await_servers(1);
        drop(buffers.remove(7));
        for (number, token) in tokens.iter().enumerate().rev() {
            // SAFETY: such memory lives as long as it is mapped.
            let imported = unsafe { device.import(token) };
            if number == 7 {
                let error = imported.unwrap_err().to_string();
                assert!(error.contains("(the memory has been freed)"), "{error}");
                continue;
            }
            assert_eq!(bytes(&device, imported.unwrap().pointer(), 64), [number as u8; 64]);
        }
    });
}

/// The first memory shows that fabric handles are of no use, and later memory is allocated without them.
fn takes_descriptors(recording: &Recording, tried: &[&str]) {
    let device = CudaDevice::new().unwrap();
    let before = recording.living();
    recording.take_calls();
    let buffer = device.allocate_exportable(1000).unwrap();
    assert_eq!(names(recording), [tried, &ALLOCATES[..]].concat());
    device.export(&buffer).unwrap();
    await_servers(1);
    recording.take_calls();
    drop(device.allocate_exportable(1000).unwrap());
    assert_eq!(names(recording)[..7], ALLOCATES);
    drop(buffer);
    assert_eq!(recording.living(), before);
}

#[test]
fn without_fabric_handles_file_descriptors_are_used() {
    let name = "shared::without_fabric_handles_file_descriptors_are_used";
    let variables = [("HALOPORT_DRIVER_HANDLES", "denied")];
    recorded_with(name, &["libcuda.so.1"], &variables, |recording| {
        takes_descriptors(recording, &ALLOCATES[..1])
    });
}

#[test]
fn fabric_handles_that_cannot_be_imported_are_not_used() {
    let name = "shared::fabric_handles_that_cannot_be_imported_are_not_used";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_DRIVER_HANDLES", "unready")], |recording| {
        let tries = ["cuMemExportToShareableHandle", "cuMemImportFromShareableHandle"];
        takes_descriptors(recording, &[&ALLOCATES[..5], &tries, &UNMAPS].concat());
    });
}

#[test]
fn a_variable_excludes_fabric_handles() {
    let name = "shared::a_variable_excludes_fabric_handles";
    let variables = [("HALOPORT_DRIVER_HANDLES", "fabric"), ("HALOPORT_CUDA_SHARE", "fd")];
    recorded_with(name, &["libcuda.so.1"], &variables, |_| {
        let device = CudaDevice::new().unwrap();
        let buffer = device.allocate_exportable(1000).unwrap();
        device.export(&buffer).unwrap();
        await_servers(1);
    });
}

#[test]
fn a_value_of_the_variable_that_is_no_kind_is_refused() {
    let name = "shared::a_value_of_the_variable_that_is_no_kind_is_refused";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_CUDA_SHARE", "socket")], |_| {
        let error = CudaDevice::new().unwrap_err().to_string();
        assert_eq!(error, "HALOPORT_CUDA_SHARE: expected `fabric`, `fd` or `ipc`, found \"socket\"");
    });
}

/// Without memory of `cuMemCreate`: by CUDA's calls for IPC, in a block of its own.
fn shares_a_whole_block(recording: &Recording) {
    let device = CudaDevice::new().unwrap();
    recording.take_calls();
    let buffer = device.allocate_exportable(1000).unwrap();
    let calls = recording.take_work();
    assert_eq!((calls[0].name.as_str(), calls[0].argument("bytes")), ("cuMemAlloc_v2", "0x200000"));
    assert_eq!(buffer.bytes(), 1000);
    let token = device.export(&buffer).unwrap();
    // SAFETY: the buffer lives longer.
    let imported = unsafe { device.import(&token) }.unwrap();
    assert_eq!(imported.bytes(), 1000);
    let names = names(recording);
    assert_eq!(names, ["cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2"]);
}

#[test]
fn an_old_driver_shares_a_whole_block() {
    let name = "shared::an_old_driver_shares_a_whole_block";
    let variables = [("HALOPORT_DRIVER_HANDLES", "none")];
    recorded_with(name, &["libcuda.so.1"], &variables, shares_a_whole_block);
}

#[test]
fn a_variable_makes_memory_shared_as_by_an_old_driver() {
    let name = "shared::a_variable_makes_memory_shared_as_by_an_old_driver";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_CUDA_SHARE", "ipc")], shares_a_whole_block);
}

#[test]
fn memory_that_is_too_large_is_an_error_value() {
    recorded("shared::memory_that_is_too_large_is_an_error_value", |_| {
        let device = CudaDevice::new().unwrap();
        for bytes in [usize::MAX, 1 << 62, (1 << 30) + 1] {
            let error = device.allocate_exportable(bytes).unwrap_err();
            assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
        }
        assert_eq!(device.allocate_exportable(0).unwrap().bytes(), 0);
    });
}

/// The devices that are given access reach memory of `cuMemCreate`, whether it is allocated before that or after.
#[test]
fn a_device_that_reaches_another_one_reaches_its_exportable_memory() {
    let name = "shared::a_device_that_reaches_another_one_reaches_its_exportable_memory";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_DRIVER_DEVICES", "2")], |recording| {
        let [one, two] = ["cuda:0", "cuda:1"].map(|device| CudaDevice::select(device).unwrap());
        let early = one.allocate_exportable(64).unwrap();
        assert!(two.reaches(one.id()).unwrap());
        let late = one.allocate_exportable(64).unwrap();
        for (byte, buffer) in [(3, &early), (4, &late)] {
            fill(&one, buffer.pointer(), byte, 64);
            assert_eq!(bytes(&two, buffer.pointer(), 64), [byte; 64]);
        }
        // Not beyond the life of the other device.
        drop(two);
        recording.take_calls();
        let alone = one.allocate_exportable(64).unwrap();
        let calls = recording.take_calls();
        let access = calls.iter().find(|call| call.name == "cuMemSetAccess").unwrap();
        assert_eq!(access.argument("count"), "1");
        drop((early, late, alone));
    });
}

#[test]
fn a_device_that_does_not_reach_another_one_has_no_access_to_its_exportable_memory() {
    let name = "shared::a_device_that_does_not_reach_another_one_has_no_access_to_its_exportable_memory";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_DRIVER_DEVICES", "2")], |_| {
        let [one, two] = ["cuda:0", "cuda:1"].map(|device| CudaDevice::select(device).unwrap());
        let buffer = one.allocate_exportable(64).unwrap();
        let mut found = [0; 64];
        // SAFETY: the driver refuses the address.
        let read = unsafe { two.read(buffer.pointer(), &mut found, &two.default_stream()) };
        let error = read.unwrap_err().to_string();
        assert!(error.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{error}");
    });
}

/// Set in the processes that export memory for a test, to its size.
const OWNER: &str = "HALOPORT_TEST_OWNER";

/// A process that exports memory, with the token.
struct Owner(Child, Vec<u8>);

impl Owner {
    /// Starts a process of the test `name`, in which [`exports`] does something.
    fn new(name: &str, bytes: usize) -> Owner {
        let mut process = Command::new(std::env::current_exe().unwrap());
        process
            .args([&format!("recorded::{name}"), "--exact", "--nocapture", "--test-threads=1"])
            .env(OWNER, bytes.to_string());
        let mut process = process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let token = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, numbers) = line.split_once("token")?;
            Some(numbers.split_whitespace().map(|number| number.parse().unwrap()).collect())
        });
        Owner(process, token.unwrap())
    }

    fn token(&self) -> &[u8] {
        &self.1
    }

    /// Stops all threads of the process.
    fn stop(&self) {
        let process = self.0.id();
        let stop = Command::new("kill").args(["-STOP", &process.to_string()]).status();
        assert!(stop.unwrap().success());
        let are_stopped = || {
            let mut threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
            threads.all(|thread| {
                let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
                stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
            })
        };
        let begin = Instant::now();
        while !are_stopped() {
            assert!(begin.elapsed() < Duration::from_secs(20), "the process does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the process without a chance to clean up.
    fn kill(self) {}
}

/// Also if the test fails: a process that is stopped would stay, with the pipes of the test.
impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// In the process of an [`Owner`]: exports memory, and waits to be killed. In others, returns `false`.
fn exports() -> bool {
    let Ok(bytes) = std::env::var(OWNER) else { return false };
    let device = CudaDevice::new().unwrap();
    let bytes = bytes.parse().unwrap();
    let buffer = device.allocate_exportable(bytes).unwrap();
    fill(&device, buffer.pointer(), 9, bytes);
    let token: Vec<String> = device.export(&buffer).unwrap().iter().map(u8::to_string).collect();
    println!("token {}", token.join(" "));
    // Waits until the test has ended, even if it fails.
    std::io::stdin().lines().for_each(drop);
    true
}

/// If the owner of memory is killed, existing mappings of the memory stay, and mapping it is an error at once.
fn a_killed_owner(name: &str) {
    if exports() {
        return;
    }
    let device = CudaDevice::new().unwrap();
    let (owner, gone) = (Owner::new(name, 3_000_000), Owner::new(name, 64));
    // SAFETY: such memory lives as long as it is mapped.
    let imported = unsafe { device.import(owner.token()) }.unwrap();
    assert_eq!(imported.bytes(), 3_000_000);
    owner.kill();
    assert_eq!(bytes(&device, imported.pointer(), 3_000_000), vec![9; 3_000_000]);
    let token = gone.token().to_vec();
    gone.kill();
    let begin = Instant::now();
    // SAFETY: nothing is imported.
    let error = unsafe { device.import(&token) }.unwrap_err().to_string();
    assert!(error.contains("HALOPORT_CUDA_SHARE="), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[test]
fn memory_with_a_file_descriptor_outlives_a_killed_owner() {
    let name = "shared::memory_with_a_file_descriptor_outlives_a_killed_owner";
    recorded(name, |_| a_killed_owner(name));
}

#[test]
fn memory_with_a_fabric_handle_outlives_a_killed_owner() {
    let name = "shared::memory_with_a_fabric_handle_outlives_a_killed_owner";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_DRIVER_HANDLES", "fabric")], |_| {
        a_killed_owner(name)
    });
}

/// A process that connects without a request, or requests memory that is not offered, holds back no other process.
#[test]
fn idle_and_wrong_requests_end() {
    let name = "shared::idle_and_wrong_requests_end";
    recorded(name, |_| {
        if exports() {
            return;
        }
        let device = CudaDevice::new().unwrap();
        let owner = Owner::new(name, 64);
        let number = |at: usize| u64::from_le_bytes(owner.token()[8 * at..][..8].try_into().unwrap());
        let socket = format!("haloport-cuda-{}-{:016x}", number(3), number(4));
        let address = SocketAddr::from_abstract_name(socket).unwrap();
        let idle = UnixStream::connect_addr(&address).unwrap();
        let mut wrong = owner.token().to_vec();
        wrong[40] += 1;
        // SAFETY: nothing is imported.
        let error = unsafe { device.import(&wrong) }.unwrap_err().to_string();
        assert!(error.contains("(the memory has been freed)"), "{error}");
        // SAFETY: such memory lives as long as it is mapped.
        let imported = unsafe { device.import(owner.token()) }.unwrap();
        assert_eq!(bytes(&device, imported.pointer(), 64), [9; 64]);
        drop(idle);
        owner.kill();
    });
}

/// If the process that hands memory over has stopped, the other one gets an error in time.
#[test]
fn a_stopped_owner_is_an_error_value() {
    let name = "shared::a_stopped_owner_is_an_error_value";
    recorded(name, |_| {
        if exports() {
            return;
        }
        let device = CudaDevice::new().unwrap();
        let owner = Owner::new(name, 64);
        owner.stop();
        let begin = Instant::now();
        // SAFETY: nothing is imported.
        let error = unsafe { device.import(owner.token()) }.unwrap_err().to_string();
        assert!(error.contains("HALOPORT_CUDA_SHARE=ipc"), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
        owner.kill();
    });
}
