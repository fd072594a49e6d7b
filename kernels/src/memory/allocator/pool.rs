//! The memory pool of a run on a GPU: segments that the device gives, and blocks in them.
//!
//! Owns the places of blocks, which the run on the GPU puts there: a segment is one piece of mapped memory, or one block in the
//! driver's pool. A block is rounded up to the granule and put into the smallest hole that holds it (of holes as large, the one
//! at the lowest place); if there is none, the pool grows by a segment for it: the profile's least one, or the block rounded up
//! to whole pages if that is more. Adjacent holes become one; segments never do. A pool that is a [range](Pool::range) has one
//! segment, which grows at its end by whole pages, and gives pages back that a smaller model does not need. A pool whose places
//! were found beforehand takes one segment for all of them; if it is a range, it grows to where they end by now
//! ([`Guide::reach`]). It puts a block where its [`Guide`] says while that is a hole. Always holds: blocks do not overlap,
//! `used` is the sum of the rounded blocks, `reserved` is the sum of the segments and at least `used`, and the same requests
//! are put at the same places. Refuses nothing: [`Pool::growth`] says beforehand what a block would cost.
//!
//! NVIDIA documents that a pool's allocations from the system "may happen at different granularity from the user
//! allocations" (CUDA Driver API, `cuMemPoolTrimTo`), that a pool keeps what it has up to its release threshold, and that
//! the driver may map free memory together to avoid growing ("Using the NVIDIA CUDA Stream-Ordered Memory Allocator",
//! part 1). How often it does is not documented, and programs have seen pools with tens of percent of holes (RMM issue
//! 1245, PyTorch issue 110194). So nothing but segments is left to the driver, in sizes that its own pool takes: those of the
//! profile, where a measurement replaces the estimate. Mapped memory comes in the same sizes, so the model is one for both.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
    sync::Arc,
};

use crate::{
    bytes::Bytes,
    device::{PoolPolicy, profile::PoolProfile},
    memory::{
        Part,
        allocator::places::{Guide, Places, Requests, Unneeded},
    },
};

/// A pool.
#[derive(Debug)]
pub struct Pool {
    profile: PoolProfile,
    policy: PoolPolicy,
    /// Whether its one segment grows, in place of others that come.
    is_range: bool,
    /// The segments by number; numbers are not used again.
    segments: BTreeMap<u32, Segment>,
    /// Every hole: its bytes, its segment, where it starts.
    holes: BTreeSet<(u64, u32, u64)>,
    next: u32,
    /// Places of blocks by their numbers, and the numbers that stand for none.
    places: Vec<Place>,
    vacant: Vec<u32>,
    used: u64,
    reserved: u64,
    /// Where blocks should lie, if that was found beforehand.
    guide: Option<Guide>,
    /// The requests, if they are to be kept.
    requests: Option<Requests>,
}

/// The number that stands for no place, as for all blocks of a heap.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A piece of memory that the device gave at once.
#[derive(Debug)]
struct Segment {
    bytes: u64,
    /// Holes, by where they start, with their bytes.
    holes: BTreeMap<u64, u64>,
}

/// Where a block lies, by the model: a device that follows the model puts the block there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The segment's number. No two segments of a run have the same.
    pub segment: u32,
    /// The segment's bytes.
    pub segment_bytes: u64,
    /// Where the block begins in it.
    pub start: u64,
    /// The block's bytes, rounded.
    pub bytes: u64,
}

impl Pool {
    /// An empty pool that may hold `limit`; one that reserves takes it all at once, if it has room for a segment at all.
    pub fn new(profile: PoolProfile, policy: PoolPolicy, limit: Bytes) -> Self {
        let mut pool = Self {
            profile,
            policy,
            is_range: false,
            segments: BTreeMap::new(),
            holes: BTreeSet::new(),
            next: 0,
            places: Vec::new(),
            vacant: Vec::new(),
            used: 0,
            reserved: 0,
            guide: None,
            requests: None,
        };
        let whole = limit.0 - limit.0 % profile.page.0.max(1);
        if policy == PoolPolicy::Reserve && whole > 0 && whole >= profile.segment.0 {
            pool.grow(whole);
        }
        pool
    }

    /// An empty pool of one segment that grows at its end: a range of addresses, of which memory comes to lie under as much as
    /// was ever used.
    pub fn range(profile: PoolProfile) -> Self {
        Self { is_range: true, ..Self::new(profile, PoolPolicy::Grow, Bytes::ZERO) }
    }

    /// Puts blocks at these places, where they are free, from the next part on. The first block takes a segment for all.
    pub fn follow(&mut self, places: &Arc<Places>) {
        self.guide = Some(Guide::new(Arc::clone(places)));
    }

    /// Keeps requests from here on.
    pub fn keep_requests(&mut self) {
        self.requests = Some(Requests::default());
    }

    /// The requests since [`Pool::keep_requests`].
    pub fn take_requests(&mut self) -> Requests {
        self.requests.take().unwrap_or_default()
    }

    /// A part of the run begins.
    pub fn enter(&mut self, part: Part) {
        self.guide.iter_mut().for_each(|guide| guide.enter(part));
        self.requests.iter_mut().for_each(|requests| requests.enter(part));
    }

    /// Bytes of blocks.
    pub fn used(&self) -> Bytes {
        Bytes(self.used)
    }

    /// Bytes of segments.
    pub fn reserved(&self) -> Bytes {
        Bytes(self.reserved)
    }

    /// The bytes that a block of `bytes` takes. The driver has no empty blocks.
    pub fn rounded(&self, bytes: u64) -> u64 {
        self.profile.rounded(bytes)
    }

    /// The bytes that the pool would grow by for a block of `bytes`.
    pub fn growth(&self, bytes: u64) -> Bytes {
        let bytes = self.rounded(bytes);
        let planned = self.not_yet_taken();
        let is_held = bytes <= planned || self.holes.range((bytes, 0, 0)..).next().is_some();
        let more = match is_held {
            true => 0,
            false if self.is_range => return Bytes(self.longer(bytes).max(self.length() + planned) - self.length()),
            false => self.profile.segment_for(bytes),
        };
        Bytes(planned + more)
    }

    /// The segment of planned places, until it is there; of a range, what it is too short by for the present part.
    fn not_yet_taken(&self) -> u64 {
        match &self.guide {
            Some(guide) if self.is_range => self.profile.pages(guide.reach().0).saturating_sub(self.length()),
            Some(guide) if self.next == 0 => guide.places().segment().0,
            Some(_) | None => 0,
        }
    }

    /// The hole that a block of `bytes` goes into by the guide, and where in it.
    fn advised(&mut self, bytes: u64) -> Option<((u64, u32, u64), u64)> {
        let starts = self.guide.as_mut()?.next(bytes)?;
        // The planned segment is the first.
        let segment = self.segments.get(&0)?;
        starts.into_iter().find_map(|start| {
            let (at, room) = segment.holes.range(..=start).next_back().map(|(at, room)| (*at, *room))?;
            (start + bytes <= at + room).then_some(((room, 0, at), start))
        })
    }

    /// The smallest hole that holds a block of `bytes`, in a new segment if there is none.
    fn smallest(&mut self, bytes: u64) -> (u64, u32, u64) {
        let found = self.holes.range((bytes, 0, 0)..).next().copied();
        found.unwrap_or_else(|| match self.is_range {
            true => self.lengthen_to(self.longer(bytes)),
            false => self.grow(self.profile.segment_for(bytes)),
        })
    }

    /// Places a block, and returns the number of its place.
    pub fn take(&mut self, bytes: u64) -> u32 {
        let bytes = self.rounded(bytes);
        let planned = self.not_yet_taken();
        match planned {
            0 => {}
            more if self.is_range => _ = self.lengthen_to(self.length() + more),
            all => _ = self.grow(all),
        }
        let ((room, segment, hole), start) = self.advised(bytes).unwrap_or_else(|| {
            let hole = self.smallest(bytes);
            (hole, hole.2)
        });
        self.close(segment, hole, room);
        if start > hole {
            self.open(segment, hole, start - hole);
        }
        if hole + room > start + bytes {
            self.open(segment, start + bytes, hole + room - start - bytes);
        }
        self.used += bytes;
        let segment_bytes = self.segments.get(&segment).map_or(0, |segment| segment.bytes);
        let number = self.numbered(Place { segment, segment_bytes, start, bytes });
        self.requests.iter_mut().for_each(|requests| requests.born(number, bytes));
        number
    }

    /// The number of a place that is one from now on.
    fn numbered(&mut self, place: Place) -> u32 {
        match self.vacant.pop() {
            Some(number) => {
                self.places[number as usize] = place;
                number
            }
            None => {
                self.places.push(place);
                (self.places.len() - 1) as u32
            }
        }
    }

    /// The place of this number.
    pub fn place(&self, number: u32) -> Option<Place> {
        self.places.get(number as usize).copied()
    }

    /// Removes the block at the place of this number.
    pub fn give(&mut self, number: u32) {
        let Some(place) = self.places.get(number as usize).copied() else { return };
        let Some(segment) = self.segments.get(&place.segment) else { return };
        self.requests.iter_mut().for_each(|requests| requests.died(number));
        self.vacant.push(number);
        self.used -= place.bytes;
        let (mut start, mut end) = (place.start, place.start + place.bytes);
        let before = segment.holes.range(..start).next_back().map(|(at, bytes)| (*at, *bytes));
        let after = segment.holes.get(&end).copied();
        if let Some((at, bytes)) = before
            && at + bytes == start
        {
            self.close(place.segment, at, bytes);
            start = at;
        }
        if let Some(bytes) = after {
            self.close(place.segment, end, bytes);
            end += bytes;
        }
        self.open(place.segment, start, end - start);
    }

    /// A hash of where the holes lie: two pools with equal fingerprints place the same requests at the same addresses from
    /// here on.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for segment in self.segments.values() {
            (segment.bytes, &segment.holes).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Marks the end of a step: a pool that gives back releases the segments that nothing lies in.
    pub fn step_ended(&mut self) {
        if self.policy != PoolPolicy::Release {
            return;
        }
        let is_empty = |segment: &Segment| segment.holes.get(&0) == Some(&segment.bytes);
        let empty: Vec<u32> = self.segments.iter().filter(|(_, s)| is_empty(s)).map(|(number, _)| *number).collect();
        for number in empty {
            if let Some(segment) = self.segments.remove(&number) {
                self.holes.remove(&(segment.bytes, number, 0));
                self.reserved -= segment.bytes;
            }
        }
    }

    /// Gives back whole pages of a range under a hole that the smaller model leaves unneeded: where they begin and end. No block
    /// lies there from then on, unless the range grows to there again. `None` once there are no more, and at any other time than
    /// in the taking out of channels.
    pub fn give_back(&mut self) -> Option<Range<u64>> {
        let Unneeded(unneeded) = self.guide.as_ref().filter(|_| self.is_range)?.unneeded()?;
        let pages = |at: u64, room: u64, of: &Range<u64>| {
            let (start, end) = (self.profile.pages(at.max(of.start)), (at + room).min(of.end));
            let end = end - end % self.profile.page.0;
            (start < end).then_some((at, room, start..end))
        };
        let holes = self.segments.get(&0)?.holes.iter();
        let (at, room, pages) =
            holes.flat_map(|(at, room)| unneeded.iter().map(move |of| pages(*at, *room, of))).flatten().next()?;
        let length = self.length();
        self.close(0, at, room);
        if at < pages.start {
            self.open(0, at, pages.start - at);
        }
        if pages.end < at + room {
            self.open(0, pages.end, at + room - pages.end);
        }
        if pages.end == length
            && let Some(segment) = self.segments.get_mut(&0)
        {
            segment.bytes = pages.start;
        }
        self.reserved -= pages.end - pages.start;
        Some(pages)
    }

    /// A new segment, which is one hole: its bytes, its number, its start.
    fn grow(&mut self, bytes: u64) -> (u64, u32, u64) {
        let number = self.next;
        self.next += 1;
        self.segments.insert(number, Segment { bytes, holes: BTreeMap::new() });
        self.reserved += bytes;
        self.open(number, 0, bytes);
        (bytes, number, 0)
    }

    /// Where the range ends.
    fn length(&self) -> u64 {
        self.segments.get(&0).map_or(0, |segment| segment.bytes)
    }

    /// The hole at the end of the range, with its bytes.
    fn last_hole(&self) -> Option<(u64, u64)> {
        let (at, bytes) = self.segments.get(&0)?.holes.last_key_value()?;
        (at + bytes == self.length()).then_some((*at, *bytes))
    }

    /// The length of the range once it has a hole of `bytes` at its end.
    fn longer(&self, bytes: u64) -> u64 {
        let start = self.last_hole().map_or(self.length(), |(at, _)| at);
        self.profile.pages(start + bytes)
    }

    /// Lengthens the range to this: the bytes of the hole at its end, the range's number, the hole's start.
    fn lengthen_to(&mut self, length: u64) -> (u64, u32, u64) {
        let last = self.last_hole();
        let before = self.length();
        let start = last.map_or(before, |(at, _)| at);
        if let Some((at, room)) = last {
            self.close(0, at, room);
        }
        self.next = 1;
        self.segments.entry(0).or_insert_with(|| Segment { bytes: 0, holes: BTreeMap::new() }).bytes = length;
        self.reserved += length - before;
        self.open(0, start, length - start);
        (length - start, 0, start)
    }

    fn open(&mut self, segment: u32, start: u64, bytes: u64) {
        self.holes.insert((bytes, segment, start));
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.holes.insert(start, bytes);
        }
    }

    fn close(&mut self, segment: u32, start: u64, bytes: u64) {
        self.holes.remove(&(bytes, segment, start));
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.holes.remove(&start);
        }
    }
}

#[cfg(test)]
mod tests;
