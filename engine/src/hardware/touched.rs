//! How a process has begun before a run, and the pages of the program's own file that the run will be the first to touch.

use crate::bytes::Bytes;

/// The state of a process before a run, as far as the run adds another amount to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Begun {
    pub(crate) touched: Touched,
    /// Whether it shows a window, whose memory changes while a run goes on.
    pub(crate) has_window: bool,
}

/// Bytes that a window grows by while it draws a run. Of eleven runs of presets it was 0.6 to 3.8 MB.
const DRAWN: Bytes = Bytes::mib(4);

impl Begun {
    /// Bytes of the program and of its window that a run adds, where the code has `code` bytes.
    pub(super) fn to_come(self, code: Bytes, goes_on: bool) -> Bytes {
        let drawn = if self.has_window { DRAWN } else { Bytes::ZERO };
        self.touched.to_come(code, goes_on) + drawn
    }
}

/// How much of the program a process has touched.
///
/// The system maps pages of the program's file when they are touched, sixteen at a time. How many a run adds was measured of a
/// program with 58.7 MB of code, as `RssFile` in `/proc/self/status`, and is told as a share of the code, so that a larger
/// build of the program has more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Touched {
    /// It has planned, but trained nothing, and no code was mapped ahead. A run that is kept and its preparations added 7.1 to
    /// 8.2 MB to a plan of the command line, and 0.8 MB to a window.
    Little,
    /// The same with the code of kernels and engine mapped. They added 1.6 to 2.8 MB.
    Mapped,
    /// All is ready for its first run, and that code and libraries are mapped. It added 0.0 to 0.2 MB.
    Prepared,
    /// The same where the system mapped no code ahead. A run added 0.6 to 2.4 MB.
    Unmapped,
    /// It has trained. Another run added 0.0 to 0.2 MB where code was mapped, and up to 0.8 MB elsewhere.
    Trained,
}

impl Touched {
    /// Bytes of the program that a run is still to touch, where its code has `code` bytes. A process that goes on with a run
    /// has read a checkpoint and mostly a store before it plans: what it added was 5 to 6 MB less.
    fn to_come(self, code: Bytes, goes_on: bool) -> Bytes {
        let thousandths = match self {
            Self::Little if goes_on => 60,
            Self::Little => 140,
            Self::Mapped if goes_on => 23,
            Self::Mapped => 48,
            Self::Prepared => 3,
            Self::Unmapped => 45,
            Self::Trained => 4,
        };
        Bytes(code.0 / 1000 * thousandths)
    }
}
