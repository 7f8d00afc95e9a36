//! Windows on fields that streams hand over by words, which they write and await; no host takes part.
//!
//! The owner of a window lends fields to its *borrower*, which copies: from them, if it receives their cells, or into
//! their halos, if it sends. There is one word for each window, in host memory that both ends reach. It is 0 while
//! nothing is lent. In each exchange
//!
//! 1. the owner's stream writes 1 when the work before is done: the borrower may copy;
//! 2. the borrower's stream awaits the 1, copies, and writes 0;
//! 3. the owner's stream awaits the 0: the fields may be used again.
//!
//! Either end may await its number on the host instead, where a waiting stream could hold back the work that it waits
//! for; the other end does not notice. While a stream waits, the engine watches the words and the time. If a neighbour
//! is missing, the exchange is stopped: its copies do nothing from then on, and the host writes the numbers that its
//! stream awaits, so that the stream goes on. An owner that stops waits for a borrower that may be copying, as the state
//! of the window says.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::device::{CopyItem, Device, DeviceError, Pointer, WordOperation};
use crate::exchange::options::ExchangeError;
use crate::exchange::work::Lane;
use crate::exchange::work::copy_list::{CopyList, Purpose};
use crate::exchange::work::mark::{Marks, Patience, Word, words_of};
use crate::exchange::work::trace::TransferTrace;
use crate::transport::{TransportError, Window};

/// The word of a window.
#[derive(Clone)]
pub(crate) struct StreamWord {
    pointer: Pointer,
    /// Owns the memory, or its registration with the device.
    _owner: Arc<dyn Any + Send + Sync>,
}

/// One end of a window.
#[derive(Debug)]
pub(crate) struct StreamWindow {
    pub(crate) peer: usize,
    /// Whether the sender copies, into halos.
    pub(crate) on_halo: bool,
    /// Either end closes it for good.
    pub(crate) window: Arc<Window>,
    pub(crate) word: StreamWord,
    pub(crate) transfer: TransferTrace,
}

/// All such windows of a part.
pub(crate) struct StreamWindows<D: Device> {
    pub(super) lent: Vec<StreamWindow>,
    pub(super) borrowed: Vec<StreamWindow>,
    /// The copies from all borrowed windows.
    copies: CopyList<D>,
    /// For even exchanges and for odd ones.
    pub(super) progress: [ReachedWords<D>; 2],
    operations: [Operations; 2],
    /// Not 0 once the exchange is stopped: copies do nothing.
    pub(super) stop: Word<D>,
    /// The host awaits the numbers of neighbours.
    pub(super) awaits_on_host: bool,
    pub(super) stage: Stage,
    /// Never recorded: asking for it tells whether the device has failed.
    pub(super) never: D::Event,
    patience: Patience,
}

/// What the host has put into the stream of the current exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing, or the exchange is over.
    Over,
    /// At most its start.
    Begun,
    /// All of it.
    Put,
}

/// What the stream does with words, before the copies and after them.
struct Operations {
    begin: Vec<WordOperation>,
    /// The place in `begin` of the numbers of neighbours.
    opened: Range<usize>,
    end: Vec<WordOperation>,
    /// The place in `end` of the numbers of neighbours.
    returned: Range<usize>,
}

/// How far the stream is, in words that it sets to 1.
pub(super) struct ReachedWords<D: Device> {
    /// The work before is done.
    pub(super) begun: Word<D>,
    /// All copies between the borrowed windows and our fields are done.
    pub(super) copied: Word<D>,
    /// The exchange is over. If the stream, not the host, awaits the returns, all lent windows are returned.
    pub(super) done: Word<D>,
}

impl StreamWord {
    /// # Safety
    /// The word is 0, and its memory is kept by `owner` and accessed as an atomic, or by streams, alone.
    pub(crate) unsafe fn new(pointer: Pointer, owner: Arc<dyn Any + Send + Sync>) -> StreamWord {
        StreamWord { pointer, _owner: owner }
    }

    pub(super) fn atomic(&self) -> &AtomicU32 {
        // SAFETY: the promise of `new`.
        unsafe { AtomicU32::from_ptr(self.pointer.as_ptr().cast()) }
    }

    fn load(&self) -> u32 {
        self.atomic().load(Ordering::Acquire)
    }
}

impl fmt::Debug for StreamWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamWord({})", self.load())
    }
}

impl StreamWindow {
    /// On fields from which the receiver copies.
    pub(crate) fn on_fields(
        peer: usize,
        (window, word): (&Arc<Window>, &StreamWord),
        transfer: TransferTrace,
    ) -> StreamWindow {
        StreamWindow { peer, on_halo: false, window: Arc::clone(window), word: word.clone(), transfer }
    }

    /// On halos into which the sender copies.
    pub(crate) fn on_halo(
        peer: usize,
        on: (&Arc<Window>, &StreamWord),
        transfer: TransferTrace,
    ) -> StreamWindow {
        StreamWindow { on_halo: true, ..StreamWindow::on_fields(peer, on, transfer) }
    }
}

impl<D: Device> ReachedWords<D> {
    fn new(marks: &mut Marks<D>) -> Result<ReachedWords<D>, DeviceError> {
        Ok(ReachedWords { begun: marks.word()?, copied: marks.word()?, done: marks.word()? })
    }
}

impl Operations {
    fn new<D: Device>(
        ReachedWords { begun, copied, done }: &ReachedWords<D>,
        lent: &[StreamWindow],
        borrowed: &[StreamWindow],
    ) -> Operations {
        use WordOperation::{Await, Write};

        let mut begin = vec![Write(begun.pointer(), 1)];
        begin.extend(lent.iter().map(|lent| Write(lent.word.pointer, 1)));
        let opened = begin.len()..begin.len() + borrowed.len();
        begin.extend(borrowed.iter().map(|borrowed| Await(borrowed.word.pointer, 1)));
        // First, so that a host that finds a window closed and its word 0 knows whether it was read.
        let mut end = vec![Write(copied.pointer(), 1)];
        end.extend(borrowed.iter().map(|borrowed| Write(borrowed.word.pointer, 0)));
        let returned = end.len()..end.len() + lent.len();
        end.extend(lent.iter().map(|lent| Await(lent.word.pointer, 0)));
        end.push(Write(done.pointer(), 1));
        Operations { begin, opened, end, returned }
    }
}

impl<D: Device> StreamWindows<D> {
    /// Binds the `copies` between the borrowed windows and our fields.
    pub(crate) fn bind(
        device: &D,
        lent: Vec<StreamWindow>,
        borrowed: Vec<StreamWindow>,
        copies: Vec<CopyItem>,
        marks: &mut Marks<D>,
    ) -> Result<StreamWindows<D>, DeviceError> {
        let progress = [ReachedWords::new(marks)?, ReachedWords::new(marks)?];
        let operations = progress.each_ref().map(|words| Operations::new(words, &lent, &borrowed));
        Ok(StreamWindows {
            lent,
            borrowed,
            copies: CopyList::bind(device, Purpose::Unpacking, copies, None)?,
            progress,
            operations,
            stop: marks.word()?,
            awaits_on_host: false,
            stage: Stage::Over,
            never: device.create_event(false)?,
            patience: Patience::default(),
        })
    }

    /// Puts the exchange into the stream of `lane`; if `awaits_on_host`, only its start. The work before comes before it
    /// in that stream.
    ///
    /// # Safety
    /// Until the exchange is over, nothing writes the cells that are sent, and nothing but the exchange, here and at the
    /// neighbours, uses the halo cells that are filled.
    pub(crate) unsafe fn start(
        &mut self,
        lane: &Lane<'_, D>,
        awaits_on_host: bool,
    ) -> Result<(), ExchangeError> {
        self.begin(lane.round, awaits_on_host)?;
        let Operations { begin, opened, .. } = &self.operations[lane.round];
        // WAIT: copying follows the neighbour's word: its field may be read.
        // SAFETY: the caller guarantees it.
        unsafe { self.put_words((begin, opened), lane.device, lane.stream)? };
        if awaits_on_host {
            return Ok(());
        }
        // SAFETY: as above; the words that are awaited come from streams of neighbours, or from the host that stops it.
        unsafe { self.put_end(lane) }
    }

    /// Begins an exchange on the host, before its work is put into a stream.
    fn begin(&mut self, round: usize, awaits_on_host: bool) -> Result<(), ExchangeError> {
        let ReachedWords { begun, copied, done } = &self.progress[round];
        [begun, copied, done].into_iter().for_each(|word| word.store(0));
        (self.awaits_on_host, self.stage) = (awaits_on_host, Stage::Begun);
        self.patience.begin();
        self.each().for_each(|window| window.transfer.open());
        if let Some(closed) = self.lent.iter().find(|lent| lent.window.is_closed()) {
            return Err(TransportError::PeerGaveUp { peer: closed.peer }.into());
        }
        if !awaits_on_host {
            self.begin_use()?;
        }
        self.each().for_each(|window| window.transfer.begin());
        Ok(())
    }

    /// Puts the copies and the end of the exchange into the stream of `lane`.
    ///
    /// # Safety
    /// As for [`start`](StreamWindows::start). All borrowed windows are open when the stream gets there.
    unsafe fn put_end(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        let Operations { end, returned, .. } = &self.operations[lane.round];
        if !self.copies.is_empty() {
            // SAFETY: the caller guarantees it; all runs of the list are in the stream of this part.
            unsafe { self.copies.run_unless(self.stop.pointer(), lane)? };
        }
        // WAIT: the end follows the neighbour's word: this rank's field has been read.
        // SAFETY: as above.
        unsafe { self.put_words((end, returned), lane.device, lane.stream)? };
        self.stage = Stage::Put;
        Ok(())
    }

    /// Puts operations into `stream`, without those at `awaited`, which await numbers of neighbours, if the host awaits
    /// these.
    ///
    /// # Safety
    /// As for [`start`](StreamWindows::start).
    unsafe fn put_words(
        &self,
        (operations, awaited): (&[WordOperation], &Range<usize>),
        device: &D,
        stream: &D::Stream,
    ) -> Result<(), DeviceError> {
        let pieces = if self.awaits_on_host {
            [&operations[..awaited.start], &operations[awaited.end..]]
        } else {
            [operations, &[]]
        };
        pieces.into_iter().filter(|piece| !piece.is_empty()).try_for_each(|piece| {
            // SAFETY: the words live as long as the windows, which outlive the work.
            unsafe { words_of(device)?.put_words(piece, stream) }
        })
    }

    /// Makes progress, and returns whether the exchange is over.
    pub(crate) fn advance(&mut self, lane: &Lane<'_, D>) -> Result<bool, ExchangeError> {
        if self.stage == Stage::Over {
            return Ok(true);
        }
        if self.stage == Stage::Begun {
            if self.progress[lane.round].begun.load() == 0
                || self.borrowed.iter().any(|it| it.word.load() == 0)
            {
                self.check(lane.device, lane.round)?;
                return Ok(false);
            }
            self.begin_use()?;
            // SAFETY: `start` had the promise, and all borrowed windows are open.
            unsafe { self.put_end(lane)? };
        }
        let is_over = self.progress[lane.round].done.load() != 0
            && (!self.awaits_on_host || self.lent.iter().all(|lent| lent.word.load() == 0));
        if is_over {
            self.stage = Stage::Over;
            // Each of them, also after one whose owner has not waited.
            let torn: Vec<_> = self.borrowed.iter().filter(|borrowed| !borrowed.window.end_use()).collect();
            if let Some(torn) = torn.first() {
                return Err(TransportError::PeerGaveUp { peer: torn.peer }.into());
            }
            let mut on_halos = self.lent.iter().filter(|lent| lent.on_halo);
            if let Some(unfilled) = on_halos.find(|lent| lent.window.is_use_abandoned()) {
                return Err(TransportError::PeerGaveUp { peer: unfilled.peer }.into());
            }
            self.each().for_each(|window| window.transfer.end());
        } else {
            self.check(lane.device, lane.round)?;
        }
        Ok(is_over)
    }

    /// Whether the device is still busy with the work before, or copies.
    pub(crate) fn is_on_device(&self, round: usize) -> bool {
        let ReachedWords { begun, copied, .. } = &self.progress[round];
        let all_open = self.borrowed.iter().all(|borrowed| borrowed.word.load() != 0);
        begun.load() == 0 || copied.load() == 0 && all_open
    }

    /// The neighbours that are missing, each also in words.
    pub(crate) fn missing(&self, round: usize) -> impl Iterator<Item = (usize, String)> {
        let copied = self.progress[round].copied.load() != 0;
        let closed = self.borrowed.iter().filter(move |borrowed| !copied && borrowed.word.load() == 0);
        let unread = self.lent.iter().filter(|lent| lent.word.load() != 0);
        let texts = |window: &StreamWindow, [on_field, on_halo]: [&str; 2]| {
            let text = if window.on_halo { on_halo } else { on_field };
            (window.peer, text.replace("{}", &window.peer.to_string()))
        };
        let on_borrowed = ["the field of rank {}", "the halo of rank {}"];
        let on_lent =
            ["rank {}, which has not copied our field yet", "rank {}, which has not filled our halo yet"];
        let closed = closed.map(move |borrowed| texts(borrowed, on_borrowed));
        closed.chain(unread.map(move |lent| texts(lent, on_lent)))
    }

    pub(crate) fn fail(&mut self) {
        self.each().for_each(|window| window.transfer.fail());
    }

    /// Begins to use the borrowed fields: their owners, if they stop, wait for us.
    fn begin_use(&self) -> Result<(), TransportError> {
        let closed = self.borrowed.iter().find(|borrowed| !borrowed.window.begin_use());
        closed.map_or(Ok(()), |closed| Err(TransportError::PeerGaveUp { peer: closed.peer }))
    }

    /// An error if a neighbour has given up, or the device has failed.
    fn check(&self, device: &D, round: usize) -> Result<(), ExchangeError> {
        let ReachedWords { begun, copied, .. } = &self.progress[round];
        // A neighbour that ends well opens or returns its windows before it closes them: what is found open or returned
        // after that was so before.
        let mut closed = self.borrowed.iter().filter(|it| it.window.is_closed());
        // In this order: our stream notes that it has copied before it returns the windows.
        let owner = closed.find(|it| it.word.load() == 0 && copied.load() == 0);
        let mut closed = self.lent.iter().filter(|it| it.window.is_closed());
        let borrower = closed.find(|it| begun.load() != 0 && it.word.load() != 0);
        if let Some(gone) = owner.or(borrower) {
            return Err(TransportError::PeerGaveUp { peer: gone.peer }.into());
        }
        if self.patience.is_over() {
            device.query(&self.never)?;
        }
        Ok(())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &StreamWindow> {
        self.lent.iter().chain(&self.borrowed)
    }

    fn each(&mut self) -> impl Iterator<Item = &mut StreamWindow> {
        self.lent.iter_mut().chain(&mut self.borrowed)
    }
}
