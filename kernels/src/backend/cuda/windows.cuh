// Windows over images: an element, or a run of channels, a thread. Places are counted in I: 32 bits where every tensor has
// fewer than 2^31 elements, because a division by 64 bits takes many times as long.

// The geometry of the windows, as an argument of kernels.
#define WINDOW_PARAMETERS i64 height, i64 width, i64 channels, i64 size, i64 stride, i64 padding
#define WINDOW height, width, channels, size, stride, padding

template <class I> struct Window {
    I height, width, channels, size, stride, padding, out_height, out_width;
};
template <class I> __device__ __forceinline__ Window<I> window_of(WINDOW_PARAMETERS) {
    Window<I> w;
    w.height = (I)height;
    w.width = (I)width;
    w.channels = (I)channels;
    w.size = (I)size;
    w.stride = (I)stride;
    w.padding = (I)padding;
    w.out_height = (I)((height + 2 * padding - size) / stride + 1);
    w.out_width = (I)((width + 2 * padding - size) / stride + 1);
    return w;
}

// ---- Places.

// A pixel of a batch of images; its number counts them image by image, row by row.
template <class I> struct Pixel { I image, y, x; };
template <class I> __device__ __forceinline__ Pixel<I> pixel_at(I number, I height, I width) {
    I line = quotient(number, width), image = quotient(line, height);
    Pixel<I> pixel = {image, line - image * height, number - line * width};
    return pixel;
}
template <class I> __device__ __forceinline__ I number_of(I image, I y, I x, I height, I width) {
    return (image * height + y) * width + x;
}

// Whether a place is in the image. Before the first is far past the last as a number without a sign.
template <class I> __device__ __forceinline__ bool is_in(I at, I extent) { return (u64)at < (u64)extent; }

// ---- Windows and what they see, along one side of the image.

// Where the window of an output begins: before the image, where it begins in the padding.
template <class I> __device__ __forceinline__ I start_of(const Window<I> &w, I output) {
    return output * w.stride - w.padding;
}

template <class I> struct Range { I first, end; };

// The taps of an output's window that are inside the image.
template <class I> __device__ __forceinline__ Range<I> inside(const Window<I> &w, I output, I extent) {
    I start = output * w.stride, end = extent + w.padding - start;
    Range<I> range = {w.padding > start ? w.padding - start : 0, end < w.size ? end : w.size};
    return range;
}
// The outputs whose windows cover a pixel.
template <class I> __device__ __forceinline__ Range<I> covering(const Window<I> &w, I pixel, I outputs) {
    I place = pixel + w.padding, end = place / w.stride + 1;
    Range<I> range = {place + 1 > w.size ? (place - w.size) / w.stride + 1 : 0, end < outputs ? end : outputs};
    return range;
}

// ---- Both sides. Each calls f(tap, number), row by row: a tap of the window, and what it joins.

// The taps of an output's window that are inside the image, and the pixel that each sees.
template <class I, class F>
__device__ __forceinline__ void each_pixel_seen(const Window<I> &w, const Pixel<I> &output, F f) {
    Range<I> rows = inside(w, output.y, w.height), columns = inside(w, output.x, w.width);
    for (I ky = rows.first; ky < rows.end; ++ky) {
        I line = number_of<I>(output.image, start_of(w, output.y) + ky, 0, w.height, w.width);
        for (I kx = columns.first; kx < columns.end; ++kx) f(ky * w.size + kx, line + start_of(w, output.x) + kx);
    }
}
// The taps by which windows see a pixel, and the output of each of those windows.
template <class I, class F>
__device__ __forceinline__ void each_window_over(const Window<I> &w, const Pixel<I> &pixel, F f) {
    Range<I> rows = covering(w, pixel.y, w.out_height), columns = covering(w, pixel.x, w.out_width);
    for (I oy = rows.first; oy < rows.end; ++oy) {
        I ky = pixel.y - start_of(w, oy), line = number_of<I>(pixel.image, oy, 0, w.out_height, w.out_width);
        for (I ox = columns.first; ox < columns.end; ++ox) f(ky * w.size + pixel.x - start_of(w, ox), line + ox);
    }
}

// ---- Runs of channels, for the threads of a launch.

// Calls f(i, pixel, channel) for the thread's runs of V channels of images, i the first element.
template <int V, class I, class F>
__device__ __forceinline__ void each_place(I n, I height, I width, I channels, F f) {
    I runs = n / V, across = channels / V;
    for (I i = (I)first_index(); i < runs; i += (I)index_stride()) {
        I number = quotient(i, across);
        f(i * V, pixel_at(number, height, width), (i - number * across) * V);
    }
}

// How a launch is compiled: f(run, I()) of runs of four with places of 32 bits, of single channels with those, or of single
// channels with places of 64 bits.
template <class F> __device__ __forceinline__ void by_form(int form, F f) {
    if (form == 2) {
        f(Run<4>(), (u32)0);
    } else if (form == 1) {
        f(Run<1>(), (u32)0);
    } else {
        f(Run<1>(), (i64)0);
    }
}

// Calls f(run, w, i, output, channel) for the thread's runs of the n elements that the windows put out.
template <class F> __device__ __forceinline__ void each_output(i64 n, WINDOW_PARAMETERS, int form, F f) {
    by_form(form, [=](auto run, auto i) {
        typedef decltype(i) I;
        Window<I> w = window_of<I>(WINDOW);
        each_place<LENGTH(run), I>((I)n, w.out_height, w.out_width, w.channels,
                                   [&](I at, const Pixel<I> &output, I channel) { f(run, w, at, output, channel); });
    });
}
// Calls f(run, w, i, pixel, channel) for the thread's runs of the n elements that the windows are over.
template <class F> __device__ __forceinline__ void each_input(i64 n, WINDOW_PARAMETERS, int form, F f) {
    by_form(form, [=](auto run, auto i) {
        typedef decltype(i) I;
        Window<I> w = window_of<I>(WINDOW);
        each_place<LENGTH(run), I>((I)n, w.height, w.width, w.channels,
                                   [&](I at, const Pixel<I> &pixel, I channel) { f(run, w, at, pixel, channel); });
    });
}
