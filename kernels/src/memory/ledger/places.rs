//! Planned places in an account: the run says which part of it begins, and the pool puts blocks where that part has them.

use std::sync::Arc;

use super::{Ledger, record::Record};
use crate::memory::{
    Part,
    allocator::{Allocator, Places, Requests},
};

impl Ledger {
    /// Lets an allocator put blocks at `places`, if there are any. Where the budget of a GPU has no room for all of them at
    /// once, the pool grows as it must: so the refusal names the op that would cross the line, and no more bytes than the
    /// places would take. On the processor a budget counts live bytes, wherever they lie.
    pub fn follow(&self, places: Option<&Arc<Places>>) {
        let account = &*self.0;
        let mut allocator = account.allocator.borrow_mut();
        let is_range = matches!(*allocator, Allocator::Range(_));
        let (Some(places), Some(pool)) = (places, allocator.pool_mut()) else { return };
        let planned = account.context.get() + places.segment();
        if is_range || account.budget.is_none_or(|budget| planned <= budget) {
            pool.follow(places);
        } else {
            account.planned.set(Some(planned));
        }
    }

    /// A part of the run begins.
    pub fn enter(&self, part: Part) {
        if let Some(pool) = self.0.allocator.borrow_mut().pool_mut() {
            pool.enter(part);
        }
        if let Record::Log(log) = &mut *self.0.record.borrow_mut() {
            log.enter(part);
        }
    }

    /// Keeps requests to a pool from here on.
    pub fn keep_requests(&self) {
        if let Some(pool) = self.0.allocator.borrow_mut().pool_mut() {
            pool.keep_requests();
        }
    }

    /// The requests to a pool since then.
    pub fn take_requests(&self) -> Requests {
        self.0.allocator.borrow_mut().pool_mut().map(|pool| pool.take_requests()).unwrap_or_default()
    }
}
