//! Tensors: a shape, a dtype and a shared buffer with a ticket of the ledger.

use std::{cell::RefCell, fmt, ops::Range, rc::Rc};

use crate::{
    backend::Backend,
    memory::Ticket,
    tensor::{DType, Shape},
};

/// A tensor. Clones share the buffer; the drop of the last one frees it.
pub struct Tensor<B: Backend> {
    shape: Shape,
    dtype: DType,
    /// Index in the buffer of the first element.
    offset: usize,
    buffer: Rc<Buffer<B>>,
}

struct Buffer<B: Backend> {
    // Before the ticket, so the memory is freed before the right to it is given back.
    storage: RefCell<B::Storage>,
    ticket: Ticket,
}

impl<B: Backend> Tensor<B> {
    pub(super) fn new(shape: Shape, dtype: DType, storage: B::Storage, ticket: Ticket) -> Self {
        Self { shape, dtype, offset: 0, buffer: Rc::new(Buffer { storage: RefCell::new(storage), ticket }) }
    }

    /// The extents.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// How many elements.
    pub fn elements(&self) -> usize {
        self.shape.elements()
    }

    /// Bytes of the elements.
    pub fn bytes(&self) -> u64 {
        (self.elements() * self.dtype.size()) as u64
    }

    /// Whether no other tensor shares the buffer, so that it may be overwritten. Always false for a part of a buffer.
    pub fn is_unique(&self) -> bool {
        Rc::strong_count(&self.buffer) == 1 && self.bytes() == self.buffer.ticket.bytes()
    }

    /// Whether both share one buffer.
    pub fn shares_buffer(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.buffer, &other.buffer)
    }

    /// A number of its buffer's own, as long as the buffer lives.
    #[cfg(feature = "cuda")]
    pub(super) fn buffer_number(&self) -> usize {
        Rc::as_ptr(&self.buffer).addr()
    }

    /// The same elements under another shape.
    ///
    /// # Panics
    /// When the number of elements differs: a bug in a layer.
    #[must_use]
    pub fn reshape(&self, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        assert_eq!(shape.elements(), self.elements(), "reshape of {} to {shape}", self.shape);
        Self { shape, ..self.clone() }
    }

    /// A view of some indices of the outermost extent, such as rows of a matrix, for work in chunks.
    ///
    /// # Panics
    /// When the rows are out of range, which is a bug in a layer.
    #[must_use]
    pub fn rows_view(&self, rows: Range<usize>) -> Self {
        let count = self.shape.first();
        assert!(rows.start <= rows.end && rows.end <= count, "rows {rows:?} of {self:?}");
        let offset = self.offset + rows.start * (self.elements() / count.max(1));
        Self { shape: self.shape.with_first(rows.len()), offset, ..self.clone() }
    }

    /// Gives the buffer another name in the ledger, from here on.
    pub fn rename(&self, label: &'static str) {
        self.buffer.ticket.rename(label);
    }

    /// The buffer, for the backend's kernels.
    pub(super) fn storage(&self) -> &RefCell<B::Storage> {
        &self.buffer.storage
    }

    /// Which of the buffer's elements are the tensor's.
    pub(super) fn place(&self) -> Range<usize> {
        self.offset..self.offset + self.elements()
    }
}

impl<B: Backend> Clone for Tensor<B> {
    fn clone(&self) -> Self {
        Self { shape: self.shape, dtype: self.dtype, offset: self.offset, buffer: Rc::clone(&self.buffer) }
    }
}

impl<B: Backend> fmt::Debug for Tensor<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.dtype.name(), self.shape)
    }
}
