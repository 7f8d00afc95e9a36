//! The kernel cache in one process: hits, misses, and the folders that it uses.
#![cfg(unix)]

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, SystemTime};

use haloport_core::device::{KernelCache, KernelKey, KernelParts};

const PARTS: KernelParts<'static> =
    KernelParts { source: b"kernel", options: &["-O2", "-D N=3"], compiler: "cc 1", device: "gpu" };

/// The kernel that the cache returns for `PARTS`, and whether `kernel` was compiled for that.
fn ask(cache: &KernelCache, kernel: &[u8]) -> (Arc<[u8]>, bool) {
    let mut compiled = false;
    let compile = || {
        compiled = true;
        Ok::<_, ()>(kernel.to_vec())
    };
    let found = cache.get_or_compile(&KernelKey::new(&PARTS), compile).unwrap();
    (found, compiled)
}

/// Whether a later process finds `kernel` in `folder`.
fn hit(folder: &Path, kernel: &[u8]) -> bool {
    let (found, compiled) = ask(&KernelCache::in_folder(folder), kernel);
    assert_eq!(*found, *kernel, "what was found is what was asked for");
    !compiled
}

fn write(file: &Path, content: &[u8]) {
    fs::write(file, content).unwrap();
    fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_key_differs_where_any_part_differs() {
    let changed = [
        KernelParts { source: b"kernel2", ..PARTS },
        KernelParts { source: b"", ..PARTS },
        KernelParts { options: &["-O2"], ..PARTS },
        KernelParts { options: &["-D N=3", "-O2"], ..PARTS },
        KernelParts { options: &["-O2-D N=3"], ..PARTS },
        KernelParts { options: &["-O2", "-D N=3", ""], ..PARTS },
        KernelParts { options: &[], ..PARTS },
        KernelParts { compiler: "cc 2", ..PARTS },
        KernelParts { compiler: "cc 1g", device: "pu", ..PARTS },
        KernelParts { source: b"kernelc", compiler: "c 1", ..PARTS },
        KernelParts { device: "gp", options: &["u-O2", "-D N=3"], ..PARTS },
        KernelParts { device: "gpu2", ..PARTS },
        PARTS,
    ];
    let mut keys: Vec<String> = changed.iter().map(|parts| KernelKey::new(parts).to_string()).collect();
    assert!(keys.iter().all(|key| key.len() == 64));
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), changed.len());
    assert_eq!(KernelKey::new(&PARTS), KernelKey::new(&PARTS.clone()));
}

#[test]
fn a_kernel_is_found_in_memory_and_on_disk() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("a/b/cache");
    let cache = KernelCache::in_folder(&folder);
    assert!(!folder.exists(), "a cache touches nothing before the first write");
    for kernel in [&b"machine code"[..], b""] {
        let (first, compiled) = ask(&cache, kernel);
        assert!(compiled);
        let (second, compiled) = ask(&cache, b"another");
        assert!(!compiled && Arc::ptr_eq(&first, &second), "memory gives the same kernel");
        assert!(hit(&folder, kernel));
        // The device refuses it: it is removed from both caches, once.
        cache.forget(&KernelKey::new(&PARTS), &first);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
    let (newer, _) = ask(&cache, b"newer");
    cache.forget(&KernelKey::new(&PARTS), &Arc::from(&b"newer"[..]));
    assert!(
        Arc::ptr_eq(&newer, &ask(&cache, b"").0),
        "what has been replaced already is not forgotten again"
    );
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o7777, 0o700);
    let file = folder.join(KernelKey::new(&PARTS).to_string());
    assert_eq!(fs::metadata(file).unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn without_a_folder_memory_remains() {
    let cache = KernelCache::in_memory();
    assert!(ask(&cache, b"code").1);
    assert!(!ask(&cache, b"code").1);
    assert!(ask(&KernelCache::in_memory(), b"code").1);
}

#[test]
fn every_damage_to_an_entry_is_a_miss() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("cache");
    let kernel = b"machine code";
    assert!(!hit(&folder, kernel));
    let file = folder.join(KernelKey::new(&PARTS).to_string());
    let whole = fs::read(&file).unwrap();
    // Each miss writes the kernel again, over the damaged one.
    let miss = |what: &str| {
        assert!(!hit(&folder, kernel), "{what} is a miss");
        assert!(hit(&folder, kernel), "{what} is mended");
        assert_eq!(fs::read(&file).unwrap(), whole);
    };
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        write(&file, &damaged);
        miss(&format!("a flipped bit in byte {at}"));
        write(&file, &whole[..at]);
        miss(&format!("a file of {at} bytes"));
    }
    let mut longer = whole.clone();
    longer.push(0);
    write(&file, &longer);
    miss("a byte too many");
    longer.splice(52..52, *b"0");
    write(&file, &longer);
    miss("bytes between");

    let sparse = fs::OpenOptions::new().write(true).open(&file).unwrap();
    sparse.set_len(1 << 40).unwrap();
    miss("a file of a terabyte");
    fs::set_permissions(&file, Permissions::from_mode(0o620)).unwrap();
    miss("a file that others may write");
    fs::rename(&file, folder.join("elsewhere")).unwrap();
    symlink(folder.join("elsewhere"), &file).unwrap();
    miss("a link");
    let other = KernelKey::new(&KernelParts { device: "another", ..PARTS });
    let cache = KernelCache::in_folder(&folder);
    cache.get_or_compile(&other, || Ok::<_, ()>(b"for another device".to_vec())).unwrap();
    fs::rename(folder.join(other.to_string()), &file).unwrap();
    miss("the file of another kernel");
    let pipe = std::process::Command::new("mkfifo").arg("-m").arg("600").arg(folder.join("pipe")).status();
    if pipe.is_ok_and(|status| status.success()) {
        fs::rename(folder.join("pipe"), &file).unwrap();
        miss("a pipe");
    } else {
        println!("skipped: a pipe in the place of a file (no mkfifo)");
    }
    if chown(&file, Some(12345), None).is_ok() {
        miss("a file of another user");
    } else {
        println!("skipped: files and folders of another user (only root can make them)");
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(!hit(&folder, kernel), "a folder in the place of a file is a miss");
    assert!(!hit(&folder, kernel), "and cannot be mended");
}

#[test]
fn what_killed_writers_left_is_swept_away() {
    let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap();
    let age = |name: &str, minutes: u64| {
        let file = folder.path().join(name);
        write(&file, b"half");
        let then = SystemTime::now() - Duration::from_secs(60 * minutes);
        fs::OpenOptions::new().write(true).open(&file).unwrap().set_modified(then).unwrap();
        file
    };
    let old = age(".writing-1-2-3", 61);
    let (young, other) = (age(".writing-4-5-6", 59), age("notes", 1000));
    assert!(!hit(folder.path(), b"code"));
    assert!(!old.exists());
    assert!(young.exists() && other.exists());
}

#[test]
fn folders_that_are_not_the_users_own_are_not_used_and_that_is_said_once() {
    let temporary = tempfile::tempdir().unwrap();
    let make = |name: &str, mode: u32| {
        let folder = temporary.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        folder
    };
    // Each folder has a valid entry, which would be found if the cache looked there.
    let refused = |folder: &Path, holds: &Path, why: &str| {
        let entries = || fs::read_dir(holds).map(|entries| entries.count()).unwrap_or(0);
        let before = entries();
        let said = said_during(|| {
            let cache = KernelCache::in_folder(folder);
            assert!(ask(&cache, b"code").1, "{folder:?} is not read");
            assert!(!ask(&cache, b"code").1, "memory remains");
            let other = KernelKey::new(&KernelParts { device: "another", ..PARTS });
            cache.get_or_compile(&other, || Ok::<_, ()>(vec![])).unwrap();
        });
        assert_eq!(entries(), before, "{folder:?} is not written");
        assert_eq!(said.matches("WARN").count(), 1, "said once: {said}");
        assert!(said.contains(why) && said.contains("HALOPORT_CACHE_DIR"), "{said}");
    };
    let good = make("good", 0o700);
    assert!(!hit(&good, b"code") && hit(&good, b"code"));
    let filled = |name: &str| {
        let folder = make(name, 0o700);
        hit(&folder, b"code");
        folder
    };
    for mode in [0o755, 0o710, 0o701, 0o720, 0o777, 0o1777] {
        let folder = filled(&format!("mode-{mode:o}"));
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        refused(&folder, &folder, &format!("mode {mode:o}"));
    }
    let link = temporary.path().join("link");
    symlink(&good, &link).unwrap();
    refused(&link, &good, "a file or a link");
    refused(&temporary.path().join("link/"), &good, "a file or a link");
    refused(&temporary.path().join("link/."), &good, "a file or a link");
    let dangling = temporary.path().join("dangling");
    symlink(temporary.path().join("nothing"), &dangling).unwrap();
    refused(&dangling, &dangling, "a file or a link");
    let file = temporary.path().join("file");
    write(&file, b"");
    refused(&file, &file, "a file or a link");
    refused(&file.join("cache"), &file, "a file or a link");
    refused(Path::new("/proc/no/such/folder"), Path::new("/proc/no"), "could not be made");
    let owned = filled("owned");
    match chown(&owned, Some(12345), None) {
        Ok(()) => refused(&owned, &owned, "belongs to user 12345"),
        Err(_) => println!("skipped: a folder of another user (only root can make one)"),
    }
}

/// The logged warnings and errors.
fn said_during(body: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Said(Arc<Mutex<Vec<u8>>>);
    impl Write for Said {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let said = Said::default();
    let writer = said.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, body);
    String::from_utf8(said.0.lock().unwrap().clone()).unwrap()
}

#[test]
fn threads_that_ask_at_once_compile_once() {
    let cache = KernelCache::in_memory();
    for round in 0..50_u32 {
        let source = round.to_le_bytes();
        let key = KernelKey::new(&KernelParts { source: &source, ..PARTS });
        let compiled = AtomicUsize::new(0);
        let together = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    together.wait();
                    let kernel = cache.get_or_compile(&key, || {
                        compiled.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(1));
                        Ok::<_, ()>(source.to_vec())
                    });
                    assert_eq!(*kernel.unwrap(), source);
                });
            }
        });
        assert_eq!(compiled.into_inner(), 1);
    }
}

#[test]
fn different_kernels_are_compiled_side_by_side() {
    let cache = KernelCache::in_memory();
    let both_compile = Barrier::new(2);
    std::thread::scope(|scope| {
        for source in [b"a", b"b"] {
            let (cache, both_compile) = (&cache, &both_compile);
            scope.spawn(move || {
                let key = KernelKey::new(&KernelParts { source, ..PARTS });
                let compile = || {
                    both_compile.wait();
                    Ok::<_, ()>(vec![])
                };
                cache.get_or_compile(&key, compile).unwrap();
            });
        }
    });
}

#[test]
fn after_a_failure_or_a_panic_the_next_tries() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("cache");
    let cache = KernelCache::in_folder(&folder);
    let key = KernelKey::new(&PARTS);
    assert_eq!(cache.get_or_compile(&key, || Err("log")), Err("log"));
    let panics = || cache.get_or_compile(&key, || -> Result<_, ()> { panic!("of the compiler") });
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "failures leave no file");

    // The same while other threads wait.
    let (tries, together) = (AtomicUsize::new(0), Barrier::new(4));
    let ends: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    together.wait();
                    cache.get_or_compile(&key, || match tries.fetch_add(1, Ordering::Relaxed) {
                        0 => panic!("of the compiler"),
                        1 => Err("log"),
                        _ => Ok(b"code".to_vec()),
                    })
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    assert_eq!(tries.into_inner(), 3);
    assert_eq!(ends.iter().filter(|end| end.is_err()).count(), 1);
    assert_eq!(ends.iter().flatten().filter(|end| end.is_err()).count(), 1);
    assert!(hit(&folder, b"code"));
}
