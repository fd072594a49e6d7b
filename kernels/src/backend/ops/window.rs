//! The geometry of convolution and pooling.

/// How a window slides over an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    /// Images in the batch.
    pub batch: usize,
    /// Input height.
    pub height: usize,
    /// Input width.
    pub width: usize,
    /// Input channels.
    pub channels: usize,
    /// Output channels (equal to `channels` for depthwise convolution and pooling).
    pub filters: usize,
    /// Side of the square window.
    pub size: usize,
    /// Step between windows.
    pub stride: usize,
    /// Zeros around the image, on each side.
    pub padding: usize,
}

impl Window {
    /// Shape of the input: `[batch, height, width, channels]`.
    pub fn image(&self) -> [usize; 4] {
        [self.batch, self.height, self.width, self.channels]
    }

    /// Shape of the output: `[batch, out_height, out_width, filters]`.
    pub fn out_image(&self) -> [usize; 4] {
        [self.batch, self.out_height(), self.out_width(), self.filters]
    }

    /// Elements of the input.
    pub fn elements(&self) -> usize {
        self.image().iter().product()
    }

    /// Elements of the output.
    pub fn out_elements(&self) -> usize {
        self.out_pixels() * self.filters
    }

    /// Output height: `(height + 2 padding - size) / stride + 1`.
    pub fn out_height(&self) -> usize {
        (self.height + 2 * self.padding - self.size) / self.stride + 1
    }

    /// Output width.
    pub fn out_width(&self) -> usize {
        (self.width + 2 * self.padding - self.size) / self.stride + 1
    }

    /// Output pixels of the whole batch: the rows of the convolution's GEMM.
    pub fn out_pixels(&self) -> usize {
        self.batch * self.out_height() * self.out_width()
    }

    /// Elements one filter reads: `size * size * channels`, the depth of the convolution's GEMM.
    pub fn taps(&self) -> usize {
        self.size * self.size * self.channels
    }

    /// Whether the window moves, fits into the padded image, and always covers a part of the image itself.
    pub fn is_valid(&self) -> bool {
        let reach = self.size > 0 && self.stride > 0 && self.padding < self.size;
        reach && self.size <= self.height + 2 * self.padding && self.size <= self.width + 2 * self.padding
    }

    /// Whether it is valid and has as many output channels as input channels.
    pub(super) fn keeps_channels(&self) -> bool {
        self.is_valid() && self.filters == self.channels
    }
}
