//! The status that a call returns, and the text of the last failure.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use haloport::comm::{RanksError, TransportError};
use haloport::device::{DeviceError, SelectError};
use haloport::domain::GridError;
use haloport::exchange::{BindError, ExchangeError};
use haloport::field::{FieldError, ShapeError};
use haloport::pattern::PatternError;
use haloport::sparse::SparseError;

/// The version of the interface: `HP_ABI` of the header.
pub(crate) const ABI: u32 = 1;

/// `hp_status` of the header.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok = 0,
    Argument = 1,
    Refused = 2,
    Transport = 3,
    TimeLimit = 4,
    Device = 5,
    NoMemory = 6,
    WrongThread = 7,
    InFlight = 8,
    Poisoned = 9,
    Panic = 10,
}

/// Every status, with its name in the header.
pub(crate) const NAMES: [(Status, &CStr); 11] = [
    (Status::Ok, c"HP_OK"),
    (Status::Argument, c"HP_ARGUMENT"),
    (Status::Refused, c"HP_REFUSED"),
    (Status::Transport, c"HP_TRANSPORT"),
    (Status::TimeLimit, c"HP_TIME_LIMIT"),
    (Status::Device, c"HP_DEVICE"),
    (Status::NoMemory, c"HP_NO_MEMORY"),
    (Status::WrongThread, c"HP_WRONG_THREAD"),
    (Status::InFlight, c"HP_IN_FLIGHT"),
    (Status::Poisoned, c"HP_POISONED"),
    (Status::Panic, c"HP_PANIC"),
];

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl Failure {
    /// A wrong argument.
    pub(crate) fn argument(text: impl Into<String>) -> Failure {
        Failure { status: Status::Argument, text: text.into() }
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_abi() -> u32 {
    ABI
}

/// See the header. A program may pass any number.
#[unsafe(no_mangle)]
extern "C" fn hp_status_name(status: i32) -> *const c_char {
    let found = NAMES.iter().find(|(known, _)| *known as i32 == status);
    found.map_or(c"unknown status", |(_, name)| name).as_ptr()
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_message() -> *const c_char {
    const NONE: &CStr = c"no call of this thread has failed";
    // While the thread ends, its message is gone.
    let message = MESSAGE.try_with(|message| match message.try_borrow() {
        Ok(message) if !message.is_empty() => message.as_ptr(),
        _ => NONE.as_ptr(),
    });
    message.unwrap_or(NONE.as_ptr())
}

/// Runs the body of a function of the header. If it fails, keeps the text; a panic is a failure, too.
pub(crate) fn call(name: &str, body: impl FnOnce() -> Result<(), Failure>) -> Status {
    // Unwind safe: what the body has changed is behind locks, which notice panics, or is freed.
    let ended = catch_unwind(AssertUnwindSafe(body));
    let failure = match ended {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
            Failure { status: Status::Panic, text: format!("Haloport panicked, which is a defect: {text}") }
        }
    };
    keep(format!("{name}: {}", failure.text));
    failure.status
}

fn keep(text: String) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    let _ = MESSAGE.try_with(|message| message.replace(text));
}

/// Errors as failures.
macro_rules! failures {
    ($($error:ty: |$name:ident| $status:expr;)+) => {
        $(impl From<$error> for Failure {
            fn from($name: $error) -> Failure {
                let text = $name.to_string();
                Failure { status: $status, text }
            }
        })+
    };
}

failures! {
    TransportError: |error| transport(&error);
    DeviceError: |error| device(&error);
    SelectError: |error| match &error {
        SelectError::Device(error) => device(error),
        _ => Status::Argument,
    };
    FieldError: |error| match &error {
        FieldError::Device(error) => device(error),
        FieldError::InFlight => Status::InFlight,
        _ => Status::Argument,
    };
    GridError: |_error| Status::Argument;
    ShapeError: |_error| Status::Argument;
    RanksError: |_error| Status::Argument;
    PatternError: |error| match &error {
        PatternError::Transport(error) => transport(error),
        PatternError::Grid(_) => Status::Argument,
        _ => Status::Refused,
    };
    BindError: |error| match &error {
        BindError::Transport(error) => transport(error),
        BindError::Device { error, .. } => device(error),
        _ => Status::Refused,
    };
}

impl From<ExchangeError> for Failure {
    fn from(error: ExchangeError) -> Failure {
        let text = match &error {
            ExchangeError::Poisoned(reason) => {
                format!(
                    "an exchange of the plan failed: {reason}; free the plan and make it again, on all ranks"
                )
            }
            error => error.to_string().replace("BindOptions::", "options."),
        };
        Failure { status: exchange(&error), text }
    }
}

impl From<SparseError> for Failure {
    fn from(error: SparseError) -> Failure {
        match error {
            SparseError::InRound => Failure {
                status: Status::InFlight,
                text: "a round was started and not finished; finish it first".into(),
            },
            SparseError::NotInRound => Failure {
                status: Status::InFlight,
                text: "expected a round that was started, found none; start one first".into(),
            },
            error => Failure { status: sparse(&error), text: error.to_string() },
        }
    }
}

fn transport(error: &TransportError) -> Status {
    match error {
        TransportError::TimeLimit { .. } => Status::TimeLimit,
        TransportError::WrongThread { .. } | TransportError::NoProgressThread { .. } => Status::WrongThread,
        TransportError::NoSuchRank { .. } => Status::Argument,
        TransportError::OutOfStep { .. } => Status::Refused,
        TransportError::Busy => Status::InFlight,
        _ => Status::Transport,
    }
}

fn device(error: &DeviceError) -> Status {
    match error {
        DeviceError::OutOfMemory { .. } => Status::NoMemory,
        DeviceError::InvalidArgument { .. } => Status::Argument,
        _ => Status::Device,
    }
}

fn exchange(error: &ExchangeError) -> Status {
    match error {
        ExchangeError::TimeLimit { .. } => Status::TimeLimit,
        ExchangeError::Poisoned(_) => Status::Poisoned,
        ExchangeError::Transport(error) => transport(error),
        ExchangeError::Device(error) => device(error),
        ExchangeError::AllInFlight { .. } | ExchangeError::NotInFlight | ExchangeError::InFlightElsewhere => {
            Status::InFlight
        }
        ExchangeError::AddressCount { .. }
        | ExchangeError::Address { .. }
        | ExchangeError::FieldCount { .. }
        | ExchangeError::FieldDiffers { .. }
        | ExchangeError::ForeignStream { .. } => Status::Argument,
        _ => Status::Transport,
    }
}

fn sparse(error: &SparseError) -> Status {
    match error {
        SparseError::Refused(_) => Status::Refused,
        SparseError::NotADestination { .. } => Status::Argument,
        SparseError::TimeLimit { .. } => Status::TimeLimit,
        SparseError::Poisoned(_) => Status::Poisoned,
        SparseError::Transport(error) => transport(error),
        _ => Status::Transport,
    }
}
