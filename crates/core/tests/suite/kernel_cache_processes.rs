//! The kernel cache between processes: many that start at once with an empty folder compile each kernel once, writers may
//! be killed, and variables choose the folder. The test binary runs itself as the other processes.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use haloport_core::device::{KernelCache, KernelKey, KernelParts};

const ROUNDS: usize = 20;
const PROCESSES: usize = 8;
const THREADS: usize = 4;
const KERNELS: usize = 6;

fn key(number: usize) -> KernelKey {
    let source = number.to_le_bytes();
    KernelKey::new(&KernelParts { source: &source, options: &[], compiler: "none", device: "none" })
}

fn kernel(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + number * 7) as u8).collect()
}

/// Starts this binary in the given role. It prints a line when it is ready.
fn process(role: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kernel_cache_processes::another_process", "--nocapture", "--test-threads=1"])
        .env("HALOPORT_TEST_ROLE", role)
        .env("HALOPORT_CACHE_DIR", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The job of the other processes; nothing in the process that cargo starts.
#[test]
fn another_process() {
    match std::env::var("HALOPORT_TEST_ROLE").as_deref() {
        Ok("ask") => {
            println!("ready");
            // Until the first process closes the pipe.
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            println!("compiled {}", ask_from_threads());
        }
        Ok("write") => {
            println!("ready");
            let cache = KernelCache::of_user();
            for number in 0.. {
                // The same few kernels again and again, each time like a process that finds none.
                let found =
                    cache.get_or_compile(&key(number % 4), || Ok::<_, ()>(kernel(number % 4, 1 << 20)));
                cache.forget(&key(number % 4), &found.unwrap());
            }
        }
        Ok("default") => {
            if std::env::var("HALOPORT_CACHE_DIR").is_ok_and(|folder| folder.is_empty()) {
                // Without the variable: an empty value would be tried as a folder, with a warning.
                assert!(format!("{:?}", KernelCache::of_user()).contains("None"));
            }
            KernelCache::of_process().get_or_compile(&key(0), || Ok::<_, ()>(kernel(0, 10))).unwrap();
        }
        _ => {}
    }
}

/// Gets all kernels on each of the threads, in different orders; returns the number of compilations.
fn ask_from_threads() -> usize {
    let compiled = AtomicUsize::new(0);
    let together = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (compiled, together) = (&compiled, &together);
            scope.spawn(move || {
                together.wait();
                for step in 0..KERNELS {
                    let number = (step + thread) % KERNELS;
                    let found = KernelCache::of_process().get_or_compile(&key(number), || {
                        compiled.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_micros(500));
                        Ok::<_, ()>(kernel(number, 10_000 * number))
                    });
                    assert!(*found.unwrap() == *kernel(number, 10_000 * number), "kernel {number} is whole");
                }
            });
        }
    });
    compiled.into_inner()
}

#[test]
fn processes_that_start_together_compile_each_kernel_once() {
    for round in 0..ROUNDS {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("cache");
        let mut children: Vec<Child> = (0..PROCESSES).map(|_| process("ask", &folder)).collect();
        let mut outputs: Vec<_> = children.iter_mut().map(lines_of).collect();
        outputs.iter_mut().for_each(|output| assert!(line_with(output, "ready").is_some()));
        let start: Vec<Option<ChildStdin>> = children.iter_mut().map(|child| child.stdin.take()).collect();
        drop(start);
        let mut all = 0;
        for (child, output) in children.iter_mut().zip(&mut outputs) {
            let line = line_with(output, "compiled ").expect("a process ended before its threads did");
            let compiled: usize = line.split("compiled ").nth(1).unwrap().trim().parse().unwrap();
            all += compiled;
            output.by_ref().for_each(drop);
            assert!(child.wait().unwrap().success());
        }
        assert_eq!(all, KERNELS, "round {round}: each kernel is compiled once");
        let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), KERNELS, "round {round}: nothing but the kernels remains: {names:?}");
        let later = KernelCache::in_folder(&folder);
        for number in 0..KERNELS {
            let found = later.get_or_compile(&key(number), || Err("a miss"));
            assert!(*found.unwrap() == *kernel(number, 10_000 * number));
        }
    }
}

#[test]
fn a_writer_killed_at_any_moment_leaves_no_damage() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("cache");
    let deadline = Instant::now() + Duration::from_secs(60);
    let (mut cut, mut kills) = (0, 0);
    while cut < 5 {
        assert!(Instant::now() < deadline, "of {kills} killed writers, {cut} were writing");
        let mut child = process("write", &folder);
        assert!(line_with(&mut lines_of(&mut child), "ready").is_some());
        // Once a file is being written, or a little later.
        while half_written(&folder) == cut && Instant::now() < deadline {}
        std::thread::sleep(Duration::from_micros(97 * (kills % 7)));
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        cut = half_written(&folder);
        for number in 0..4 {
            if folder.join(key(number).to_string()).exists() {
                let found = KernelCache::in_folder(&folder).get_or_compile(&key(number), || Err("damaged"));
                assert!(*found.unwrap() == *kernel(number, 1 << 20));
            }
        }
    }
    println!("of {kills} killed writers, {cut} were writing");
}

fn half_written(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b".writing-")).count()
}

#[test]
fn variables_choose_the_folder() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    let run = |variables: &[(&str, &Path)]| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "kernel_cache_processes::another_process"])
            .env("HALOPORT_TEST_ROLE", "default")
            .current_dir(root);
        for name in ["HALOPORT_CACHE_DIR", "XDG_CACHE_HOME", "HOME"] {
            command.env_remove(name);
        }
        command.env("HOME", root.join("home")).envs(variables.iter().copied());
        assert!(command.stdout(Stdio::null()).status().unwrap().success());
    };
    let file = key(0).to_string();
    let made = |folder: &str| root.join(folder).join(&file).exists();
    run(&[("HALOPORT_CACHE_DIR", Path::new(""))]);
    assert_eq!(fs::read_dir(root).unwrap().count(), 0, "an empty value is no cache on disk");
    run(&[("XDG_CACHE_HOME", Path::new("relative"))]);
    assert!(made("home/.cache/haloport/kernels") && !root.join("relative").exists());
    run(&[("XDG_CACHE_HOME", &root.join("xdg"))]);
    assert!(made("xdg/haloport/kernels"));
    run(&[("XDG_CACHE_HOME", &root.join("xdg2")), ("HALOPORT_CACHE_DIR", &root.join("own/folder"))]);
    assert!(made("own/folder") && !root.join("xdg2").exists());
    run(&[("HALOPORT_CACHE_DIR", Path::new("here"))]);
    assert!(made("here"), "a relative folder is one of the working folder");
}

fn lines_of(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok)
}

/// The next line that contains `text`; `None` if the process ends first.
fn line_with(lines: &mut impl Iterator<Item = String>, text: &str) -> Option<String> {
    lines.find(|line| line.contains(text))
}
