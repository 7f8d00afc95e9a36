//! Memory of the program that other processes of the node map where it is: its pages become those of a file.
//!
//! Only pages that lie within the memory as a whole do: what else is on a page belongs to others, who may write it meanwhile.
//! Memory of files is refused, as what is written would no longer reach the file, and so is the stack, which this code runs on.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use haloport_core::device::Pointer;
use haloport_core::transport::{Lease, SharedMemory};

use super::forks::CopiedInChildren;
use super::mapping::{Mapping, is_mapped, make_private, map_at, page_bytes, whole_pages};
use super::segment::{Made, failed_in};

/// The largest distance in bytes between the arrays of a field that are shared: processes that map them reserve it.
const FARTHEST: usize = 1 << 40;

/// Memory of the program whose pages are those of a file; when this is dropped, they are pages of this process alone again.
struct InPlace {
    /// `None` while it is dropped.
    moved: Option<Moved>,
    /// The address of the first page, the bytes from there on, and the parts of them that are shared.
    begin: usize,
    bytes: usize,
    parts: Vec<Range<usize>>,
}

/// Pages of the program that are those of a file.
struct Moved {
    /// In the order of the file.
    pages: Vec<Range<usize>>,
    made: Made,
    /// Children copy the pages, also while they are moved.
    _copied: CopiedInChildren,
}

/// All memory of the program that is shared, so that several exchanges share it once.
static SHARED: Mutex<Vec<Weak<InPlace>>> = Mutex::new(Vec::new());

/// Lets other processes of this node map the whole pages within these ranges, each an address and a length in bytes. `None` if there
/// are none, if processes share some of them already with other ones, and, with a line in the log, if the system has no memory
/// for that.
///
/// # Errors
/// The reason why memory of this kind is not shared.
///
/// # Safety
/// As for [`Transport::share_in_place`](haloport_core::transport::Transport::share_in_place).
pub(crate) unsafe fn share(ranges: &[(Pointer, usize)]) -> Result<Option<Lease>, String> {
    let addresses = ranges.iter().map(|(first, bytes)| (first.as_ptr().expose_provenance(), *bytes));
    let ranges: Vec<(usize, usize)> = addresses.filter(|(_, bytes)| *bytes > 0).collect();
    let pages = pages_within(&ranges);
    if pages.is_empty() {
        return Ok(None);
    }
    let mut shared = shared();
    shared.retain(|known| known.strong_count() > 0);
    let known: Vec<Arc<InPlace>> = shared.iter().filter_map(Weak::upgrade).collect();
    let lease = match known.iter().find(|known| known.has(&pages)) {
        Some(known) => Ok(Some(known.lease())),
        // SAFETY: the caller's promise.
        None => unsafe { share_pages(&ranges, pages, &mut shared) },
    };
    // First the lock: the last owner takes it when it is dropped.
    drop(shared);
    drop(known);
    lease
}

/// As [`share`], of these pages of the ranges, which are added to `shared`.
///
/// # Safety
/// As there.
unsafe fn share_pages(
    ranges: &[(usize, usize)],
    pages: Vec<Range<usize>>,
    shared: &mut Vec<Weak<InPlace>>,
) -> Result<Option<Lease>, String> {
    let maps = fs::read("/proc/self/maps").map_err(|error| format!("/proc/self/maps: {error}"))?;
    if !are_ours(&pages, &maps)? {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let made = unsafe { InPlace::new(ranges, pages) };
    let made = made.inspect_err(|error| tracing::info!(%error, "memory of the program is not shared"));
    Ok(made.ok().map(Arc::new).map(|made| {
        shared.push(Arc::downgrade(&made));
        made.lease()
    }))
}

fn shared() -> MutexGuard<'static, Vec<Weak<InPlace>>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl InPlace {
    /// Shares the `pages` of these ranges.
    ///
    /// # Safety
    /// As for [`share`].
    unsafe fn new(ranges: &[(usize, usize)], pages: Vec<Range<usize>>) -> io::Result<InPlace> {
        let page = page_bytes();
        let begin = ranges.iter().map(|(begin, _)| begin / page * page).min().unwrap_or_default();
        let end = ranges.iter().map(|(begin, bytes)| begin + bytes).max().unwrap_or_default();
        let bytes = whole_pages(end - begin).filter(|bytes| *bytes <= FARTHEST);
        let bytes = bytes.ok_or_else(|| io::Error::other("its arrays lie too far apart"))?;
        let parts: Vec<Range<usize>> = pages.iter().map(|it| it.start - begin..it.end - begin).collect();
        let mut moved = Moved {
            pages: Vec::with_capacity(pages.len()),
            made: Made::new(bytes, &parts)?,
            _copied: CopiedInChildren::new(&parts, begin),
        };
        let mut at = page;
        for pages in pages {
            let length = pages.len();
            // SAFETY: the caller's promise.
            unsafe { to_file(moved.made.file(), &pages, at)? };
            moved.pages.push(pages);
            at += length;
        }
        Ok(InPlace { moved: Some(moved), begin, bytes, parts })
    }

    /// Whether all of these pages are among those that are shared.
    fn has(&self, pages: &[Range<usize>]) -> bool {
        let own = self.moved.as_ref().map_or(&[][..], |moved| &moved.pages);
        pages.iter().all(|pages| own.iter().any(|own| own.start <= pages.start && pages.end <= own.end))
    }

    fn lease(self: &Arc<InPlace>) -> Lease {
        let pointer = Pointer::new(ptr::with_exposed_provenance_mut(self.begin));
        // SAFETY: the address is that of a page. As long as the owner exists, the parts are pages of the file, readable and
        // writable; they are reserved and sealed, so access to them cannot fail.
        let memory = unsafe {
            SharedMemory::new(pointer, self.bytes, self.parts.iter().cloned(), Box::new(Arc::clone(self)))
        };
        let token = self.moved.as_ref().map(|moved| moved.made.token()).unwrap_or_default();
        Lease { memory, token, name: Box::new(Arc::clone(self)) }
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        // No thread shares the pages again meanwhile.
        let _shared = shared();
        self.moved = None;
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        let mut at = page_bytes();
        for pages in &self.pages {
            // SAFETY: the pages are mapped, and nothing else writes them now: see `share`.
            if let Err(error) = unsafe { make_private(pages) } {
                // The file goes on to exist as long as they do.
                tracing::warn!(%error, "pages of the program stay those of a file, which children share");
                let begin = ptr::with_exposed_provenance_mut::<u8>(pages.start);
                // SAFETY: if they are not mapped, the system has unmapped them just now, and the file has their content.
                if !is_mapped(pages) && unsafe { map_at(begin, pages.len(), self.made.file(), at) }.is_err() {
                    lost();
                }
            }
            at += pages.len();
        }
    }
}

/// The whole pages that lie within these ranges, in ascending order with gaps between them.
fn pages_within(ranges: &[(usize, usize)]) -> Vec<Range<usize>> {
    let page = page_bytes();
    let within = |(begin, bytes): &(usize, usize)| {
        let pages = begin.checked_next_multiple_of(page)?..(begin + bytes) / page * page;
        (!pages.is_empty()).then_some(pages)
    };
    let mut pages: Vec<Range<usize>> = ranges.iter().filter_map(within).collect();
    pages.sort_by_key(|pages| pages.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(pages.len());
    for pages in pages {
        match joined.last_mut() {
            Some(last) if pages.start <= last.end => last.end = last.end.max(pages.end),
            _ => joined.push(pages),
        }
    }
    joined
}

/// Whether all pages are memory of this process alone, by the list of its mappings, which is that of `/proc/self/maps`; not if
/// processes share them already.
///
/// # Errors
/// The reason why memory of this kind is not shared.
fn are_ours(pages: &[Range<usize>], maps: &[u8]) -> Result<bool, String> {
    let maps = String::from_utf8_lossy(maps);
    let mappings: Vec<(Range<usize>, &str)> = maps.lines().filter_map(mapping_of).collect();
    for pages in pages {
        let mut checked = pages.start;
        let meets = |range: &Range<usize>| range.start < pages.end && pages.start < range.end;
        for (range, what) in mappings.iter().filter(|(range, _)| meets(range)) {
            if range.start > checked {
                break;
            }
            if !is_ours(what)? {
                return Ok(false);
            }
            checked = range.end;
        }
        if checked < pages.end {
            return Err(format!("nothing is mapped at {checked:#x}"));
        }
    }
    Ok(true)
}

/// The addresses of a line of the list, and the rest of it.
fn mapping_of(line: &str) -> Option<(Range<usize>, &str)> {
    let (range, what) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?, what))
}

/// As [`are_ours`], of one mapping, by the rest of its line: its protection, an offset, a device, an inode and a name.
fn is_ours(what: &str) -> Result<bool, String> {
    let words: Vec<&str> = what.splitn(5, ' ').map(str::trim).collect();
    let word = |place: usize| words.get(place).copied().unwrap_or_default();
    match (word(0), word(3), word(4)) {
        (_, _, "[stack]") => Err("it lies on the stack, expected memory of an allocation".into()),
        ("rw-p", "0", _) => Ok(true),
        (_, _, name) if name.starts_with("/memfd:haloport") => Ok(false),
        (found, "0", _) => Err(format!(
            "its pages are `{found}`, expected `rw-p`: memory that this process alone reads and writes"
        )),
        (_, _, name) => Err(format!("it is memory of the file {name}, expected memory of an allocation")),
    }
}

/// Copies pages to `file`, from byte `at` on, and puts those of the file in their place. After an error, they are as before.
///
/// # Safety
/// The pages are mapped, and nothing else writes them meanwhile.
unsafe fn to_file(file: &File, pages: &Range<usize>, at: usize) -> io::Result<()> {
    let begin = ptr::with_exposed_provenance_mut::<u8>(pages.start);
    // SAFETY: the caller's promise.
    let content = unsafe { slice::from_raw_parts(begin, pages.len()) };
    file.write_all_at(content, at as u64).map_err(failed_in("write"))?;
    // SAFETY: the range is the caller's, with the same content.
    let moved = unsafe { map_at(begin, pages.len(), file, at) };
    if moved.is_err() && !is_mapped(pages) {
        // The system has unmapped the pages before it failed.
        let restored = Mapping::private(pages.len()).and_then(|copy| {
            // SAFETY: the mapping is new, and as long.
            let to = unsafe { slice::from_raw_parts_mut(copy.begin(), pages.len()) };
            file.read_exact_at(to, at as u64)?;
            // SAFETY: the pages are the caller's, with the same content.
            unsafe { copy.move_to(begin) }
        });
        if restored.is_err() {
            lost();
        }
    }
    moved.map_err(failed_in("mmap"))
}

/// Ends the process: the system has unmapped memory of the program, and has no other memory in its place.
fn lost() -> ! {
    tracing::error!(
        "memory of the program is lost: the system has unmapped it, and has no other in its place"
    );
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that is shared has the content that it had, also behind another mapping of it; children change copies of their own;
    /// afterwards the process has it alone.
    #[test]
    fn memory_stays_as_it_is() {
        let (page, mut memory) = (page_bytes(), vec![1u64; 1 << 16]);
        memory.iter_mut().zip(0..).for_each(|(word, number)| *word = number);
        let expected = memory.clone();
        let begin = memory.as_mut_ptr();
        let range = [(Pointer::new(begin.cast()), size_of_val(&memory[..]))];
        // SAFETY: the memory is used by this thread alone, and outlives the leases.
        let share = || unsafe { share(&range) }.unwrap().unwrap();
        let (one, other) = (share(), share());
        assert_eq!(one.token, other.token);
        assert_eq!(memory, expected);
        let found = crate::node::segment::map(&one.token).unwrap();
        let at = begin.addr().next_multiple_of(page) - begin.addr();
        let offset = (begin.addr() + at) - one.memory.pointer().as_ptr().addr();
        assert!(found.covers(offset..offset + page) && !found.covers(0..found.bytes()));
        // SAFETY: the parts of both are readable; the child calls nothing but `_exit`, and its parent waits for it.
        unsafe {
            let (here, there) =
                (begin.byte_add(at), found.pointer().offset(offset as isize).as_ptr().cast::<u64>());
            assert_eq!(there.read_volatile(), here.read_volatile());
            let child = libc::fork();
            if child == 0 {
                here.write_volatile(7);
                libc::_exit(3);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(libc::WEXITSTATUS(status), 3);
            assert_eq!(memory, expected);
            here.write_volatile(9);
            assert_eq!(there.read_volatile(), 9);
            drop((one, other));
            assert_eq!(here.read_volatile(), 9);
            here.write_volatile(10);
            assert_eq!(there.read_volatile(), 9);
        }
    }

    #[test]
    fn other_memory_is_refused() {
        let maps = b"1000-3000 rw-p 00000000 00:00 0\n3000-4000 rw-p 00000000 00:00 0 [heap]\n4000-5000 r--p 00000000 00:00 0\n\
            5000-6000 rw-p 00000000 08:01 77 /data/a file\n6000-7000 rw-s 00000000 00:01 9 /memfd:haloport (deleted)\n\
            8000-9000 rw-p 00000000 00:00 0 [stack]\n";
        let check = |range| are_ours(&[range], maps);
        assert_eq!(check(0x1000..0x4000), Ok(true));
        assert_eq!(check(0x6000..0x7000), Ok(false));
        assert_eq!(check(0x6000..0x8000), Ok(false));
        for (range, expected) in [
            (0x3000..0x5000, "its pages are `r--p`"),
            (0x5000..0x6000, "it is memory of the file /data/a file, expected"),
            (0x7000..0x8000, "nothing is mapped at 0x7000"),
            (0x8000..0x9000, "it lies on the stack"),
        ] {
            let found = check(range).unwrap_err();
            assert!(found.contains(expected), "{found}");
        }
    }
}
