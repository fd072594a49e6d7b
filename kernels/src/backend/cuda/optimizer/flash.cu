// AdamW with companded moments of 8 bits, and corrections of weights of 16 bits. Each warp takes a group of 32 elements, and each
// lane one of them. T is the gradient's type, W the weight's; a weight with corrections may be narrower than its gradient.

#define GROUP 32
#define ROOT_FACTOR 16.0f

__device__ __forceinline__ f32 magnitude(f32 x) {
    // NaN is ignored.
    return x > 0.0f ? x : x < 0.0f ? -x : 0.0f;
}

// Half the gap between a weight and its neighbour away from zero.
__device__ __forceinline__ f32 half_gap(f32 weight, u32 least_exponent, u32 fraction_bits) {
    u32 exponent = (__float_as_uint(weight) >> 23) & 255u;
    if (exponent < least_exponent) exponent = least_exponent;
    return __uint_as_float(exponent << 23) * __uint_as_float((126u - fraction_bits) << 23);
}
__device__ __forceinline__ f32 half_gap(bf16 weight) { return half_gap(widen(weight), 1, 7); }
__device__ __forceinline__ f32 half_gap(f16 weight) { return half_gap(widen(weight), 113, 10); }
// Wider weights have no corrections.
__device__ __forceinline__ f32 half_gap(f32) { return 0; }
__device__ __forceinline__ f32 half_gap(f64) { return 0; }

// The code of a number between -1 and 1, in two's complement; for NaN, the code of zero.
__device__ __forceinline__ u8 code_of(f32 share) {
    if (share != share) return 0;
    if (share < -1.0f) share = -1.0f;
    if (share > 1.0f) share = 1.0f;
    return (u8)(int)(share * 127.0f + (share < 0.0f ? -0.5f : 0.5f));
}
__device__ __forceinline__ f32 decoded(u8 code) { return (f32)(code < 128 ? (int)code : (int)code - 256) / 127.0f; }

// The code of a share of the root of the group's largest second moment: zero for zero only, and for NaN.
__device__ __forceinline__ u8 root_code(f32 share) {
    f32 place = share * 255.0f + 0.5f;
    int code = place > 0.0f ? (place < 255.0f ? (int)place : 255) : 0;
    return (u8)(code == 0 && share > 0.0f ? 1 : code);
}

// What is kept of a group's scale: its root, of the two around it the one that bits of chance decide on.
__device__ __forceinline__ f16 kept(f32 scale, u32 chance) {
    f32 root = ROOT_FACTOR * sqrt_of(scale);
    if (root > 65504.0f) root = 65504.0f;
    const f32 gap = 2.0f * half_gap(root, 113, 10);
    // The bits that f32 has more than f16. No group becomes one of zeros.
    u32 place = (u32)(root / gap + (f32)(chance & 8191u) / 8192.0f);
    if (place == 0 && root > 0.0f) place = 1;
    return narrow<f16>((f32)place * gap);
}
__device__ __forceinline__ f32 scale_of(f16 kept) {
    const f32 root = widen(kept) / ROOT_FACTOR;
    return root * root;
}

extern "C" __global__ void adamw_flash(const T *grad, W *weight, bf16 *low, f16 *half, i64 n, u8 *mean_codes, f16 *mean_scales, u8 *root_codes, f16 *root_scales, u8 *corrections, u64 rounding, double rate, double decay, double beta1, double beta2, double epsilon, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    const A keep1 = (A)beta1, take1 = (A)(1 - beta1), keep2 = (A)beta2, take2 = (A)(1 - beta2);
    const int lane = threadIdx.x % GROUP;
    const i64 warps = blockDim.x / GROUP, groups = (n + GROUP - 1) / GROUP;
    for (i64 group = (i64)blockIdx.x * warps + threadIdx.x / GROUP; group < groups; group += (i64)gridDim.x * warps) {
        const i64 i = group * GROUP + lane;
        const bool is_there = i < n;
        f32 mean = 0, root = 0;
        if (is_there) {
            f32 companded = decoded(mean_codes[i]);
            f32 before = scale_of(mean_scales[group]) * (companded / (2.0f - (companded < 0 ? -companded : companded)));
            A deviation = (A)(scale_of(root_scales[group]) * ((f32)root_codes[i] / 255.0f));
            A g = (A)grad_scale * widen(grad[i]);
            A m = keep1 * (A)before + take1 * g;
            A v = keep2 * (deviation * deviation) + take2 * (g * g);
            deviation = sqrt_of(v);
            A whole = widen(weight[i]);
            if (corrections) whole += (A)(half_gap(weight[i]) * decoded(corrections[i]));
            whole = (A)decay * whole - (A)rate * m / (deviation + (A)epsilon);
            W after = narrow<W>(whole);
            weight[i] = after;
            if (corrections) corrections[i] = code_of((f32)(whole - (A)widen(after)) / half_gap(after));
            if (low) low[i] = narrow<bf16>(widen(after));
            if (half) half[i] = narrow<f16>(widen(after));
            mean = (f32)m;
            root = (f32)deviation;
        }
        // Every lane has read the scales of its group before one of them is written.
        const u64 chance = random_bits(rounding, (u64)group);
        const f16 mean_kept = kept(warp_max(magnitude(mean)), (u32)chance);
        const f16 root_kept = kept(warp_max(magnitude(root)), (u32)(chance >> 32));
        if (lane == 0) {
            mean_scales[group] = mean_kept;
            root_scales[group] = root_kept;
        }
        const f32 mean_scale = scale_of(mean_kept), root_scale = scale_of(root_kept);
        // Of a group of zeros every share is zero.
        f32 share = mean / (mean_scale > 0 ? mean_scale : 1.0f);
        if (is_there) {
            mean_codes[i] = code_of(2.0f * share / (1.0f + (share < 0 ? -share : share)));
            root_codes[i] = root_code(root / (root_scale > 0 ? root_scale : 1.0f));
        }
    }
}
