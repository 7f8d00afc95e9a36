//! A missing or old NCCL, and where it is looked for.

use haloport_core::device::{Device, StreamMessaging};
use haloport_core::{BindOptions, DataPath, Field, Grid, Halo, Pattern, Split, run_ranks};

use super::libraries::{built, devices, with_both, without_nccl};

/// Whether the process has loaded a library with this in its path.
fn has_loaded(part: &str) -> bool {
    std::fs::read_to_string("/proc/self/maps").unwrap().contains(part)
}

#[test]
fn it_is_loaded_when_it_is_asked_for() {
    with_both("missing::it_is_loaded_when_it_is_asked_for", &[], || {
        let devices = devices();
        assert!(devices[0].info().capabilities.stream_messages);
        assert!(has_loaded("test_driver") && !has_loaded("test_nccl"));
        let offer = devices[3].offer_stream_messages().unwrap();
        assert!(has_loaded("test_nccl"));
        assert_eq!(offer.library, "NCCL 2.27.3");
        assert!(offer.processor.ends_with(" 0000:03:00"), "{offer:?}");
    });
}

#[test]
fn no_library_is_an_error_value() {
    let named = [("HALOPORT_NCCL", "/nonexistent/libnccl.so:/nonexistent/other.so")];
    without_nccl("missing::no_library_is_an_error_value", &named, || {
        let device = &devices()[0];
        // A machine may have the library where the loader looks by itself.
        let Err(error) = device.offer_stream_messages() else { return };
        let text = error.to_string();
        let expected = "NCCL, NVIDIA's library for messages between GPUs, was not found: looked for \
                        /nonexistent/libnccl.so (cannot open shared object file: No such file or directory), \
                        /nonexistent/other.so (cannot open shared object file: No such file or directory), \
                        libnccl.so.2 (cannot open shared object file: No such file or directory), libnccl.so (";
        assert!(text.starts_with(expected), "{text}");
        let advice = "; install NCCL 2.27.3 or newer, for the CUDA of the driver (or the Python package \
                      nvidia-nccl-cu12 or nvidia-nccl-cu13); if the loader does not find the file, name it in \
                      HALOPORT_NCCL";
        assert!(text.ends_with(advice), "{text}");
        assert_eq!(device.stream_messages_token().unwrap_err(), error);
    });
}

#[test]
fn the_library_of_the_user_comes_first() {
    let file = built("libhaloport_cuda_test_nccl.so");
    let named = [("HALOPORT_NCCL", file.to_str().unwrap())];
    without_nccl("missing::the_library_of_the_user_comes_first", &named, || {
        assert_eq!(devices()[0].offer_stream_messages().unwrap().library, "NCCL 2.27.3");
    });
}

#[test]
fn an_old_library_is_an_error_value() {
    let old = [("HALOPORT_TEST_NCCL_VERSION", "22105")];
    with_both("missing::an_old_library_is_an_error_value", &old, || {
        let error = devices()[0].offer_stream_messages().unwrap_err().to_string();
        let expected = "an NCCL that is new enough was not found: looked for version 2.27.3 or newer, and found 2.21.5; \
                        install NCCL 2.27.3 or newer";
        assert!(error.starts_with(expected), "{error}");
    });
}

/// With that variable, joining could wait for a missing rank for ever.
#[test]
fn a_variable_that_makes_nccl_block_is_an_error_value() {
    let blocking = [("NCCL_COMM_BLOCKING", "1")];
    with_both("missing::a_variable_that_makes_nccl_block_is_an_error_value", &blocking, || {
        let error = devices()[0].offer_stream_messages().unwrap_err().to_string();
        assert!(error.starts_with("NCCL_COMM_BLOCKING: expected 0 or no value"), "{error}");
    });
}

#[test]
fn another_library_in_its_place_is_an_error_value() {
    let file = built("libhaloport_cuda_test_driver.so");
    let named = [("HALOPORT_NCCL", file.to_str().unwrap())];
    without_nccl("missing::another_library_in_its_place_is_an_error_value", &named, || {
        let error = devices()[0].offer_stream_messages().unwrap_err().to_string();
        assert!(error.contains("looked for a library with the function ncclGetVersion; "), "{error}");
    });
}

/// The option `path` asks for messages in streams: all ranks get an error that names the rank and the library.
#[test]
fn an_exchange_without_a_library_is_an_error_value() {
    without_nccl("missing::an_exchange_without_a_library_is_an_error_value", &[], || {
        let devices = devices();
        // A machine may have the library where the loader looks by itself.
        if devices[0].offer_stream_messages().is_ok() {
            return;
        }
        let errors = run_ranks(2, |comm| {
            let grid = Grid::new([16])?.periodic([true])?;
            let mine = Split::even(&grid, [2])?.part(comm.rank()).ok_or("no part")?;
            let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
            let options = || BindOptions::default().path(DataPath::StreamMessages);
            let field = Field::<f64, _>::new(&devices[comm.rank()], &pattern)?;
            let error = pattern.bind_with(field, options()).unwrap_err();
            // The communicator is as it was.
            comm.barrier()?;
            Ok::<_, haloport_core::Error>(error)
        })
        .unwrap();
        assert_eq!(errors[0], errors[1]);
        let text = errors[0].to_string();
        let begin = "fields cannot go in messages of streams, which the option `path` asks for: rank 0: NCCL, NVIDIA's \
                     library for messages between GPUs, was not found: looked for libnccl.so.2 (";
        assert!(text.starts_with(begin), "{text}");
    });
}
