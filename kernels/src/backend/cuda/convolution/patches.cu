// Patches for a convolution as a matrix product: from the image to the contents of its windows, and back.

// The patches of `count` windows from `first` on, [count, size, size, channels]: a run of channels a thread.
extern "C" __global__ void gather_patches(const T *x, T *patches, i64 first, i64 count, WINDOW_PARAMETERS, int form) {
    by_form(form, [=](auto run, auto i) {
        typedef decltype(i) I;
        const int V = LENGTH(run);
        Window<I> w = window_of<I>(WINDOW);
        I n = (I)(count * size * size * channels);
        // A patch is an image of its own, as large as the window, and its pixels are the taps.
        each_place<V, I>(n, w.size, w.size, w.channels, [&](I at, const Pixel<I> &tap, I channel) {
            Pixel<I> output = pixel_at((I)first + tap.image, w.out_height, w.out_width);
            I y = start_of(w, output.y) + tap.y, at_x = start_of(w, output.x) + tap.x;
            A values[V];
            clear(values);
            if (is_in(y, w.height) && is_in(at_x, w.width)) {
                load(x + number_of(output.image, y, at_x, w.height, w.width) * w.channels + channel, values);
            }
            store(patches + at, values);
        });
    });
}

// The images whose patches would be these: every pixel sums over the windows that contain it. Each thread takes a run of
// channels of a pixel.
extern "C" __global__ void sum_patches(const A *patches, T *x, i64 n, WINDOW_PARAMETERS, int form) {
    each_input(n, WINDOW, form, [=](auto run, const auto &w, auto at, const auto &pixel, auto channel) {
        A sums[LENGTH(run)];
        clear(sums);
        each_window_over(w, pixel, [&](auto tap, auto output) {
            A values[LENGTH(run)];
            load(patches + (output * w.size * w.size + tap) * w.channels + channel, values);
            add_to(sums, values);
        });
        store(x + at, sums);
    });
}

// A gradient of weights that was summed wide.
extern "C" __global__ void settle_weights(const A *sums, W *dw, i64 n, int accumulate) {
    EACH(i, n) put(dw + i, sums[i], accumulate);
}
// One that was rounded to the type of the images.
extern "C" __global__ void settle_rounded(const T *rounded, W *dw, i64 n, int accumulate) {
    EACH(i, n) put(dw + i, widen(rounded[i]), accumulate);
}
