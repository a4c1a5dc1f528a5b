// What a device does to rows beside cuBLAS's products. REAL is float or double; with FEW
// features a row's probabilities lie in shared memory, else they stay where they are.
// All arrays of rows are by feature, (K, N), so that threads that lie side by side read numbers
// that do: a thread has a row of its own.

#define TILE 8            // features whose residuals a thread holds in registers
#define STILL REAL(1e-11) // a change of a probability below this is not made

struct __align__(16) Tile {
    REAL of[TILE];
};

// The sweeps of thali/kernels/expected_rows.py, expect_bits, for rows without amounts:
//
//     logit p_i = odds_i + precision (r_i + (p_i - 1/2) Q_ii),   r = B - p Q,
//
// feature after feature, until none moves by `small` or after so many passes. r is not kept: the
// part of a tile is made anew when the pass comes to it, of the p that there are by then, which
// needs one read of p_j for TILE products. Q has rows of kp numbers, zeros behind the k-th.
extern "C" __global__ void expect_bits(const REAL *__restrict__ B, long long b_step, REAL *W,
                                       long long w_step, const REAL *__restrict__ Q,
                                       const REAL *__restrict__ odds, REAL precision, REAL small,
                                       long long n, int k, int kp, int passes) {
    extern __shared__ __align__(16) unsigned char room[];
    const long long row = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (row >= n)
        return;
#if !FEW
    REAL *p = W + row;
    const long long step = w_step;
#else
    REAL *p = reinterpret_cast<REAL *>(room) + threadIdx.x;
    const int step = blockDim.x;
    for (int i = 0; i < k; i++)
        p[i * step] = W[i * w_step + row];
#endif
    for (int pass = 0; pass < passes; pass++) {
        REAL largest = 0;
        for (int first = 0; first < k; first += TILE) {
            const int many = min(TILE, k - first);
            REAL r[TILE];
#pragma unroll
            for (int t = 0; t < TILE; t++)
                r[t] = t < many ? B[(first + t) * b_step + row] : REAL(0);
#pragma unroll 4
            for (int j = 0; j < k; j++) {
                const REAL have = p[j * step];
                const Tile q = *reinterpret_cast<const Tile *>(Q + j * kp + first);
#pragma unroll
                for (int t = 0; t < TILE; t++)
                    r[t] -= have * q.of[t];
            }
#pragma unroll
            for (int t = 0; t < TILE; t++) {
                if (t >= many)
                    break;
                const int i = first + t;
                const Tile q = *reinterpret_cast<const Tile *>(Q + i * kp + first);
                const REAL old = p[i * step];
                const REAL x = odds[i] + precision * (r[t] + (old - REAL(0.5)) * q.of[t]);
                const REAL now = REAL(1) / (REAL(1) + exp(-x));
                const REAL change = now - old;
                if (fabs(change) > STILL) {
                    p[i * step] = now;
                    largest = max(largest, fabs(change));
#pragma unroll
                    for (int u = t + 1; u < TILE; u++)
                        r[u] -= change * q.of[u];
                }
            }
        }
        if (largest < small)
            break;
    }
#if FEW
    for (int i = 0; i < k; i++)
        W[i * w_step + row] = p[i * step];
#endif
}

// The same of rows that miss entries, and so have matrices of their own: Q less `gone`, (K², N).
// Residuals are made anew for each feature, since Q is read once a pass in any case.
extern "C" __global__ void expect_own_bits(const REAL *__restrict__ B, long long b_step, REAL *W,
                                           long long w_step, const REAL *__restrict__ Q,
                                           const REAL *__restrict__ gone, long long gone_step,
                                           const REAL *__restrict__ odds, REAL precision,
                                           REAL small, long long n, int k, int kp, int passes) {
    const long long row = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (row >= n)
        return;
    REAL *p = W + row;
    gone += row;
    for (int pass = 0; pass < passes; pass++) {
        REAL largest = 0;
        for (int i = 0; i < k; i++) {
            REAL r = B[i * b_step + row], own = 0;
#pragma unroll 8
            for (int j = 0; j < k; j++) {
                const REAL q = Q[i * kp + j] - gone[(i * (long long)k + j) * gone_step];
                r -= p[j * w_step] * q;
                own = j == i ? q : own;
            }
            const REAL old = p[i * w_step];
            const REAL x = odds[i] + precision * (r + (old - REAL(0.5)) * own);
            const REAL now = REAL(1) / (REAL(1) + exp(-x));
            if (fabs(now - old) > STILL) {
                p[i * w_step] = now;
                largest = max(largest, fabs(now - old));
            }
        }
        if (largest < small)
            break;
    }
}

// Of each row E[z zᵀ], (K², N).
extern "C" __global__ void outer_products(const REAL *__restrict__ W, long long w_step, REAL *out,
                                          long long out_step, long long n, int k) {
    const long long row = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (row >= n)
        return;
    const int i = blockIdx.y;
    const REAL p = W[i * w_step + row];
    for (int j = 0; j < k; j++)
        out[(i * (long long)k + j) * out_step + row] = j == i ? p : p * W[j * w_step + row];
}

// Of feature blockIdx.x, over a share of the rows: sums of p and of its entropies, and how many
// rows have it rather than not; into out, (shares, 3, K).
extern "C" __global__ void tallies(const REAL *__restrict__ W, long long w_step, long long n,
                                   double *out) {
    __shared__ double sums[3][32];
    double found[3] = {0.0, 0.0, 0.0};
    const REAL *p = W + blockIdx.x * w_step;
    for (long long row = blockIdx.y * (long long)blockDim.x + threadIdx.x; row < n;
         row += gridDim.y * (long long)blockDim.x) {
        const REAL x = p[row];
        found[0] += x;
        if (x > REAL(0) && x < REAL(1))
            found[1] -= x * log(x) + (REAL(1) - x) * log1p(-x);
        found[2] += x > REAL(0.5);
    }
    for (int i = 0; i < 3; i++) {
        for (int apart = 16; apart; apart /= 2)
            found[i] += __shfl_down_sync(0xffffffff, found[i], apart);
        if (threadIdx.x % 32 == 0)
            sums[i][threadIdx.x / 32] = found[i];
    }
    __syncthreads();
    if (threadIdx.x < 3) {
        double total = 0.0;
        for (int warp = 0; warp < blockDim.x / 32; warp++)
            total += sums[threadIdx.x][warp];
        out[(blockIdx.y * 3 + threadIdx.x) * gridDim.x + blockIdx.x] = total;
    }
}

// total_i += the sum of `many` parts, each of `size` numbers, in double and always in one order.
template <class T>
__device__ void add_up(const T *__restrict__ parts, long long many, long long size,
                       double *total) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= size)
        return;
    double sum = 0.0;
#pragma unroll 8
    for (long long part = 0; part < many; part++)
        sum += parts[part * size + i];
    total[i] += sum;
}

extern "C" __global__ void fold(const REAL *__restrict__ parts, long long many, long long size,
                                double *total) {
    add_up(parts, many, size, total);
}

extern "C" __global__ void fold_double(const double *__restrict__ parts, long long many,
                                       long long size, double *total) {
    add_up(parts, many, size, total);
}
