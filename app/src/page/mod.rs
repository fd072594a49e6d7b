//! A run, a plan or a comparison as one page that a colleague can open: the figures are inside, nothing is fetched.
//!
//! Owns the HTML. Always holds: a user's words stay text; a page reads only its arguments.

mod comparison;
mod html;
mod subject;

pub(crate) use self::{comparison::comparison, subject::subject};
