// What a convolution as a matrix product needs beside the product: what its windows see, one after another, and back.

// The patches of `count` windows from `first` on, [count, size, size, channels]: a run of channels a thread.
extern "C" __global__ void gather_patches(const T *x, T *patches, i64 first, i64 count, i64 height, i64 width,
                                          i64 channels, i64 size, i64 stride, i64 padding, int form) {
    by_form(form, [=](auto run, auto i) {
        typedef decltype(i) I;
        const int V = LENGTH(run);
        Window<I> w = window_of<I>(height, width, channels, size, stride, padding);
        // A patch is an image of its own, as large as the window.
        each_place<V, I>((I)(count * size * size * channels), w.size, w.size, w.channels, [&](I at, const Place<I> &p) {
            I pixel = (I)first + p.image, line = pixel / w.out_width, image = line / w.out_height;
            I y = (line - image * w.out_height) * w.stride + p.y - w.padding;
            I x_place = (pixel - line * w.out_width) * w.stride + p.x - w.padding;
            A values[V];
#pragma unroll
            for (int v = 0; v < V; ++v) values[v] = 0;
            if (is_in(y, w.height) && is_in(x_place, w.width)) {
                load(x + ((image * w.height + y) * w.width + x_place) * w.channels + p.channel, values);
            }
            store(patches + at, values);
        });
    });
}

// The images whose patches would be these: every pixel sums what the windows that saw it have for it. A run of channels of a
// pixel a thread.
extern "C" __global__ void sum_patches(const A *patches, T *x, i64 n, i64 height, i64 width, i64 channels, i64 size,
                                       i64 stride, i64 padding, int form) {
    by_form(form, [=](auto run, auto i) {
        typedef decltype(i) I;
        const int V = LENGTH(run);
        Window<I> w = window_of<I>(height, width, channels, size, stride, padding);
        each_place<V, I>((I)n, w.height, w.width, w.channels, [&](I at, const Place<I> &p) {
            Range<I> rows = covering(w, p.y, w.out_height), columns = covering(w, p.x, w.out_width);
            A sums[V];
#pragma unroll
            for (int v = 0; v < V; ++v) sums[v] = 0;
            for (I oy = rows.first; oy < rows.end; ++oy) {
                I ky = p.y + w.padding - oy * w.stride;
                for (I ox = columns.first; ox < columns.end; ++ox) {
                    I window = (p.image * w.out_height + oy) * w.out_width + ox;
                    I tap = (window * w.size + ky) * w.size + p.x + w.padding - ox * w.stride;
                    A values[V];
                    load(patches + tap * w.channels + p.channel, values);
#pragma unroll
                    for (int v = 0; v < V; ++v) sums[v] += values[v];
                }
            }
            store(x + at, sums);
        });
    });
}

// A gradient of weights that was summed wide.
extern "C" __global__ void settle_weights(const A *sums, W *dw, i64 n, int accumulate) {
    EACH(i, n) put(dw + i, sums[i], accumulate);
}
