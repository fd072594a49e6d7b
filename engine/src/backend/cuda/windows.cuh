// Windows over images: an element, or a run of channels, a thread. Places are counted in I: 32 bits where every tensor has
// fewer than 2^31 elements, for a division by 64 bits takes many times as long.

template <class I> struct Window {
    I height, width, channels, size, stride, padding, out_height, out_width;
};
template <class I>
__device__ __forceinline__ Window<I> window_of(i64 height, i64 width, i64 channels, i64 size, i64 stride, i64 padding) {
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

// Whether a place is in the image. Before the first is far past the last as a number without a sign.
template <class I> __device__ __forceinline__ bool is_in(I at, I extent) { return (u64)at < (u64)extent; }

template <class I> struct Range { I first, end; };

// The taps of the window at `at` that are inside the image.
template <class I> __device__ __forceinline__ Range<I> inside(const Window<I> &w, I at, I extent) {
    I start = at * w.stride, end = extent + w.padding - start;
    Range<I> range = {w.padding > start ? w.padding - start : 0, end < w.size ? end : w.size};
    return range;
}
// The outputs whose windows cover a pixel.
template <class I> __device__ __forceinline__ Range<I> covering(const Window<I> &w, I at, I outputs) {
    I place = at + w.padding, end = place / w.stride + 1;
    Range<I> range = {place + 1 > w.size ? (place - w.size) / w.stride + 1 : 0, end < outputs ? end : outputs};
    return range;
}

// A run of channels of a pixel.
template <class I> struct Place { I image, y, x, channel; };

// Calls f(i, place) for the thread's runs of V channels of images, i the first element.
template <int V, class I, class F>
__device__ __forceinline__ void each_place(I n, I height, I width, I channels, F f) {
    I runs = n / V, across = channels / V;
    for (I i = (I)first_index(); i < runs; i += (I)index_stride()) {
        I rest = i / across;
        Place<I> place;
        place.channel = (i - rest * across) * V;
        place.x = rest % width;
        rest /= width;
        place.y = rest % height;
        place.image = rest / height;
        f(i * V, place);
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
