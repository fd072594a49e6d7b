//! A run, a plan or a comparison as one page that a colleague can open: the figures are inside, nothing is fetched.
//!
//! Owns the HTML. Always holds: what a user wrote stays text; a page reads nothing but what it is given.

mod comparison;
mod html;
mod subject;

pub(crate) use self::{comparison::comparison, subject::subject};
