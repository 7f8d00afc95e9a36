//! A terminal on which the command runs.

use std::fs::File;
use std::io::Read;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Runs the command with standard error on a terminal until that shows `wanted`, or the command ends; a minute at most.
/// Returns all that the terminal showed until then.
pub(crate) fn shown(command: &mut Command, wanted: &str) -> String {
    let (terminal, of_command) = open();
    let mut child = command.stderr(of_command).spawn().unwrap();
    // The command alone holds its end of the terminal.
    command.stderr(std::process::Stdio::null());
    let text = read_until(&watch(terminal), wanted);
    let _ = child.kill();
    child.wait().unwrap();
    text
}

/// Runs the command with standard output and standard error on a terminal of this many columns, until it ends or the
/// terminal shows `wanted`; a minute at most. Returns the lines that the terminal showed, without colours.
pub(crate) fn lines(command: &mut Command, columns: u16, wanted: &str) -> Vec<String> {
    let (terminal, of_command) = open();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();
    let mut child = command.stdout(of_command.try_clone().unwrap()).stderr(of_command).spawn().unwrap();
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let text = read_until(&watch(terminal), wanted);
    let _ = child.kill();
    child.wait().unwrap();
    let text = console::strip_ansi_codes(&text).replace('\r', "\n");
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Both ends of a new terminal.
fn open() -> (File, File) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let other = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (terminal.into(), other)
}

/// The text written to the terminal, piece by piece, until its other end is closed.
fn watch(mut terminal: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = terminal.read(&mut bytes) {
            if sender.send(bytes[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

fn read_until(output: &Receiver<Vec<u8>>, wanted: &str) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let left = end.saturating_duration_since(Instant::now());
        match output.recv_timeout(left) {
            _ if text.contains(wanted) => return text,
            Ok(more) => bytes.extend(more),
            Err(_) => return text,
        }
    }
}
