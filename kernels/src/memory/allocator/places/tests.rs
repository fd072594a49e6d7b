//! A run that asks as was planned lies in its segment; one that does not is as right as without a plan.

use proptest::prelude::*;

use super::*;
use crate::{
    device::PoolPolicy,
    memory::allocator::pool::{Place, Pool},
};

const PROFILE: PoolProfile =
    PoolProfile { granule: Bytes(512), segment: Bytes::kib(64), page: Bytes::kib(4), mapped: None };

/// The requests of a step, in granules.
#[derive(Debug, Clone)]
struct Run {
    weights: Vec<u64>,
    activations: Vec<u64>,
    batch: u64,
    micro_batches: usize,
}

/// A difference between a run and its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    /// A block more in every backward pass.
    More,
    /// The first activation is not there.
    Less,
    /// Activations are larger.
    Larger,
    /// A test comes after every step, which was not planned.
    Test,
    /// Weights and activations are halved after the second step. That is planned.
    Thinned,
}

/// A pool, and the blocks that lie in it.
struct Room {
    pool: Pool,
    alive: Vec<(u32, Place)>,
    /// Pages between others that it gave back.
    given_back: Vec<Range<u64>>,
}

impl Room {
    fn new() -> Self {
        Self { pool: Pool::new(PROFILE, PoolPolicy::Planned, Bytes::gib(1)), alive: Vec::new(), given_back: Vec::new() }
    }

    /// One on the processor.
    fn range() -> Self {
        Self { pool: Pool::range(PROFILE), ..Self::new() }
    }

    /// Takes a block, which must lie apart from all others and inside its segment.
    fn take(&mut self, granules: u64) -> u32 {
        let foretold = self.pool.reserved() + self.pool.growth(granules * 512);
        let number = self.pool.take(granules * 512);
        assert_eq!(self.pool.reserved(), foretold);
        let place = self.pool.place(number).expect("a block has a place");
        assert!(place.start + place.bytes <= place.segment_bytes);
        for (_, other) in self.alive.iter().filter(|(_, other)| other.segment == place.segment) {
            assert!(place.start + place.bytes <= other.start || other.start + other.bytes <= place.start);
        }
        let lies_in = |pages: &Range<u64>| place.start < pages.end && pages.start < place.start + place.bytes;
        assert!(!self.given_back.iter().any(lies_in), "{place:?} has no memory");
        self.alive.push((number, place));
        number
    }

    /// Channels were taken out: memory without blocks may go.
    fn step_ended(&mut self) {
        self.pool.step_ended();
        while let Some(pages) = self.pool.give_back() {
            assert!([pages.start, pages.end].iter().all(|at| at % PROFILE.page.0 == 0) && pages.start < pages.end);
            for (_, place) in &self.alive {
                assert!(place.start + place.bytes <= pages.start || pages.end <= place.start, "{place:?} in {pages:?}");
            }
            self.given_back.push(pages);
        }
        // What lay at the end comes back if the range grows.
        let end = self.alive.iter().map(|(_, place)| place.start + place.bytes).max().unwrap_or(0);
        self.given_back.retain(|pages| pages.end < end);
    }

    fn give(&mut self, number: u32) {
        let at = self.alive.iter().position(|(known, _)| *known == number).expect("alive");
        self.alive.swap_remove(at);
        self.pool.give(number);
        assert_eq!(self.pool.used().0, self.alive.iter().map(|(_, place)| place.bytes).sum::<u64>());
    }
}

impl Run {
    /// Makes the model and does some steps; the most bytes of blocks.
    fn go(&self, room: &mut Room, steps: usize, change: Change) -> Bytes {
        room.pool.enter(Part::Start);
        let mut model: Vec<u32> = self.weights.iter().map(|granules| room.take(*granules)).collect();
        let mut run = self.clone();
        let (mut ahead, mut has_state, mut most) = (None, false, Bytes::ZERO);
        for step in 0..steps {
            if change == Change::Thinned && step == 2 {
                run = run.thinned(room, &mut model);
            }
            room.pool.enter(Part::Step { is_fed: ahead.is_some(), has_state });
            let sums = room.take(1);
            let mut gradients = Vec::new();
            for index in 0..run.micro_batches {
                room.pool.enter(Part::MicroBatch { is_first: index == 0 });
                let batch = ahead.take().unwrap_or_else(|| room.take(run.batch));
                ahead = Some(room.take(run.batch));
                run.pass(room, &mut gradients, change);
                most = most.max(room.pool.used());
                room.give(batch);
            }
            room.pool.enter(Part::Update { has_state });
            if !has_state {
                model.extend(run.weights.iter().map(|granules| room.take(2 * granules)));
            }
            most = most.max(room.pool.used());
            gradients.into_iter().for_each(|gradient| room.give(gradient));
            room.give(sums);
            has_state = true;
            if change == Change::Test {
                room.pool.enter(Part::Evaluation);
                let answer = room.take(3 * self.batch);
                room.give(answer);
            }
            room.pool.step_ended();
        }
        most
    }

    /// Makes the smaller model of half of everything, with its state, and frees the larger one.
    fn thinned(&self, room: &mut Room, model: &mut Vec<u32>) -> Self {
        room.pool.enter(Part::Prune);
        let scores = room.take(7);
        let half = |all: &[u64]| all.iter().map(|granules| granules.div_ceil(2)).collect::<Vec<u64>>();
        let run = Self { weights: half(&self.weights), activations: half(&self.activations), ..self.clone() };
        let new = run.weights.iter().flat_map(|granules| [*granules, 2 * granules]).map(|granules| room.take(granules));
        let new: Vec<u32> = new.collect();
        std::mem::replace(model, new).into_iter().for_each(|block| room.give(block));
        room.give(scores);
        room.step_ended();
        run
    }

    /// Forward and backward; the first micro-batch makes the gradients.
    fn pass(&self, room: &mut Room, gradients: &mut Vec<u32>, change: Change) {
        let skipped = usize::from(change == Change::Less);
        let factor = if change == Change::Larger { 2 } else { 1 };
        let kept: Vec<u32> = self.activations[skipped..].iter().map(|granules| room.take(factor * granules)).collect();
        let is_first = gradients.is_empty();
        for (i, activation) in kept.into_iter().enumerate().rev() {
            let dy = room.take(self.activations[i]);
            if change == Change::More {
                let more = room.take(5);
                room.give(more);
            }
            if is_first && let Some(granules) = self.weights.get(i) {
                gradients.push(room.take(*granules));
            }
            room.give(activation);
            room.give(dy);
        }
    }

    /// Its places, as a run of a few steps shows them.
    fn places(&self) -> Arc<Places> {
        self.places_of(3, Change::Nothing)
    }

    /// The same of so many steps with this change.
    fn places_of(&self, steps: usize, change: Change) -> Arc<Places> {
        let mut room = Room::new();
        room.pool.keep_requests();
        self.go(&mut room, steps, change);
        Arc::new(Places::of(&room.pool.take_requests(), &PROFILE, Search::Careful))
    }
}

fn runs() -> impl Strategy<Value = Run> {
    let sizes = |count| prop::collection::vec(1..200u64, 1..count);
    (sizes(12), sizes(20), 1..100u64, 1..5usize).prop_map(|(weights, activations, batch, micro_batches)| Run {
        weights,
        activations,
        batch,
        micro_batches,
    })
}

fn changes() -> impl Strategy<Value = Change> {
    prop::sample::select(vec![Change::More, Change::Less, Change::Larger, Change::Test, Change::Thinned])
}

proptest! {
    #[test]
    fn a_run_as_it_was_planned_lies_in_its_segment(run in runs(), steps in 1..8usize) {
        let places = run.places();
        let mut room = Room::new();
        room.pool.follow(&places);
        let most = run.go(&mut room, steps, Change::Nothing);
        prop_assert_eq!(room.pool.reserved(), places.segment());
        prop_assert!(places.extent() >= most || steps < 2);
        let end = room.alive.iter().map(|(_, place)| place.start + place.bytes).max();
        prop_assert!(end <= Some(places.extent().0));
    }

    #[test]
    fn a_run_that_becomes_smaller_as_it_was_planned_lies_in_its_segment(run in runs(), steps in 3..8usize) {
        let places = run.places_of(5, Change::Thinned);
        let mut room = Room::new();
        room.pool.follow(&places);
        let most = run.go(&mut room, steps, Change::Thinned);
        prop_assert_eq!(room.pool.reserved(), places.segment());
        prop_assert!(places.extent() >= most);
        let end = room.alive.iter().map(|(_, place)| place.start + place.bytes).max();
        prop_assert!(end <= Some(places.extent().0));
    }

    #[test]
    fn a_run_that_asks_for_other_blocks_lies_apart_all_the_same(run in runs(), steps in 1..5usize, change in changes()) {
        let mut room = Room::new();
        room.pool.follow(&run.places());
        // Every block is looked at as it comes.
        run.go(&mut room, steps, change);
        for (number, _) in std::mem::take(&mut room.alive) {
            room.pool.give(number);
        }
        prop_assert_eq!(room.pool.used(), Bytes(0));
    }

    #[test]
    fn a_range_is_as_long_as_its_places_where_a_run_is_as_planned(run in runs(), steps in 1..8usize) {
        let (mut room, places) = (Room::range(), run.places());
        room.pool.follow(&places);
        run.go(&mut room, steps, Change::Nothing);
        prop_assert_eq!(room.pool.reserved().0, places.extent.next_multiple_of(PROFILE.page.0));
    }

    #[test]
    fn a_range_keeps_what_the_smaller_model_needs_and_no_more(run in runs(), steps in 3..8usize) {
        let (mut room, places) = (Room::range(), run.places_of(5, Change::Thinned));
        room.pool.follow(&places);
        run.go(&mut room, 2, Change::Nothing);
        let whole = room.pool.reserved();
        prop_assert!(whole.0 <= places.extent.next_multiple_of(PROFILE.page.0));
        let mut room = Room::range();
        room.pool.follow(&places);
        run.go(&mut room, steps, Change::Thinned);
        let Some(Unneeded([between, above])) = &places.unneeded else { panic!("a smaller model leaves some") };
        let kept = between.start.next_multiple_of(PROFILE.page.0).min(between.end) + above.start - between.end;
        prop_assert!(room.pool.reserved().0 <= kept + 2 * PROFILE.page.0, "{:?} of {kept}", room.pool.reserved());
    }

    #[test]
    fn a_range_takes_other_blocks_than_were_planned(run in runs(), steps in 1..5usize, change in changes()) {
        let mut room = Room::range();
        room.pool.follow(&run.places());
        run.go(&mut room, steps, change);
        prop_assert!(room.pool.reserved() >= room.pool.used());
    }

    #[test]
    fn the_same_requests_have_the_same_places(run in runs()) {
        prop_assert_eq!(run.places(), run.places());
    }
}

#[test]
fn what_waits_for_the_next_step_takes_turns() {
    let run = Run { weights: vec![10], activations: vec![7], batch: 4, micro_batches: 1 };
    let places = run.places();
    // Two batches, a weight with its two moments, and a step: sums, the activation, its gradient and the weight's.
    assert_eq!(places.extent(), Bytes(512 * (2 * 4 + 3 * 10 + 1 + 7 + 7 + 10)));
}

#[test]
fn a_smaller_model_lies_in_the_room_of_the_larger_one() {
    let run = Run { weights: vec![10, 6], activations: vec![40, 20], batch: 4, micro_batches: 1 };
    // Next to the larger one with its moments, the smaller one needs 24 granules and the scores, where activations lay.
    assert_eq!(run.places_of(5, Change::Thinned).extent(), run.places().extent());
}

#[test]
fn state_that_a_micro_batch_makes_has_one_place_though_it_goes_with_the_larger_model() {
    let mut room = Room::range();
    room.pool.keep_requests();
    room.pool.enter(Part::Start);
    let weight = room.take(100);
    room.pool.enter(Part::Step { is_fed: false, has_state: false });
    room.pool.enter(Part::MicroBatch { is_first: true });
    // An update in the backward pass.
    let state = room.take(200);
    room.pool.enter(Part::Step { is_fed: false, has_state: true });
    room.pool.enter(Part::Prune);
    let smaller = [50, 100].map(|granules| room.take(granules));
    [weight, state].into_iter().for_each(|block| room.give(block));
    room.pool.enter(Part::Step { is_fed: false, has_state: true });
    let places = Places::of(&room.pool.take_requests(), &PROFILE, Search::Careful);
    assert_eq!(places.extent(), Bytes(512 * (300 + 150)), "{smaller:?}");
}

#[test]
fn a_guide_finds_its_way_past_what_is_left_out_and_what_is_added() {
    let expected = [1, 2, 3, 4].map(|granules| Advised { bytes: 512 * granules, starts: [4096 * granules; 2] });
    let parts = vec![((Era::Whole, Part::Start, Part::Start), expected.to_vec())];
    let reaches = [Reach { before_codes: 1 << 20, with_codes: 1 << 20 }; 2];
    let places = Places { extent: 1 << 20, reaches, unneeded: None, segment: 1 << 20, parts };
    let mut guide = Guide::new(Arc::new(places));
    assert_eq!(guide.next(512), None, "no part has begun");
    guide.enter(Part::Start);
    let found = [1, 9, 3, 2, 4].map(|granules| guide.next(512 * granules).map(|starts| starts[0] / 4096));
    assert_eq!(found, [Some(1), None, Some(3), None, Some(4)]);
    guide.enter(Part::Saving);
    assert_eq!(guide.next(512), None);
}

#[test]
fn a_range_has_no_room_for_codes_before_they_are_made() {
    let go = |room: &mut Room| {
        let of_step = Part::Step { is_fed: false, has_state: false };
        let parts = [(of_step, 100), (Part::Compression, 50), (Part::Calibration, 200), (Part::Coding, 300)];
        room.pool.enter(Part::Start);
        room.take(10);
        parts.map(|(part, granules)| {
            room.pool.enter(part);
            let block = room.take(granules);
            room.give(block);
            room.pool.reserved().0
        })
    };
    let mut asked = Room::range();
    asked.pool.keep_requests();
    go(&mut asked);
    let places = Places::of(&asked.pool.take_requests(), &PROFILE, Search::Quick);
    let mut room = Room::range();
    room.pool.follow(&Arc::new(places));
    assert_eq!(
        go(&mut room),
        [210, 210, 210, 310].map(|granules: u64| (granules * 512).next_multiple_of(PROFILE.page.0))
    );
}
