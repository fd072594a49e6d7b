//! An account's side of planned places: what a run says of where it stands, and what its pool makes of it.

use std::sync::Arc;

use super::Ledger;
use crate::memory::{
    Part,
    allocator::{Places, Requests},
};

impl Ledger {
    /// Lets a pool put blocks at `places`, if there are any. Where the budget has no room for all of them at once, the pool
    /// grows as it must: so the refusal names the op that would cross the line.
    pub fn follow(&self, places: Option<&Arc<Places>>) {
        let account = &*self.0;
        let has_room =
            |places: &&Arc<Places>| account.budget.is_none_or(|budget| account.context + places.segment() <= budget);
        if let Some(places) = places.filter(has_room)
            && let Some(pool) = account.allocator.borrow_mut().pool_mut()
        {
            pool.follow(places);
        }
    }

    /// A part of the run begins.
    pub fn enter(&self, part: Part) {
        if let Some(pool) = self.0.allocator.borrow_mut().pool_mut() {
            pool.enter(part);
        }
    }

    /// Keeps what a pool is asked for from here on.
    pub fn keep_requests(&self) {
        if let Some(pool) = self.0.allocator.borrow_mut().pool_mut() {
            pool.keep_requests();
        }
    }

    /// What a pool was asked for since then.
    pub fn take_requests(&self) -> Requests {
        self.0.allocator.borrow_mut().pool_mut().map(|pool| pool.take_requests()).unwrap_or_default()
    }
}
