// Rows of 0 and 1 on a device, each at its best given the rest: thali/kernels/hard_rows.py and the
// solvers of thali/kernels/row_solvers, whose names these functions have, a row a thread. The
// counts of other rows are those that the round began with. REAL is float or double.
//
// A row's numbers lie `step` apart, so that threads that lie side by side read numbers that do.
// With OWN matrices each row has what it misses of E[AAᵀ]: (K², N) in `gone`.

#define BEST 0
#define LOCAL_SEARCH 1
#define DOUBLE_GREEDY 2
#define NONE REAL(-1e300)
#define THREADS 128
#define TILE 8 // features whose slack a thread holds in registers

#if FEW // at most 64 features: a set is the bits of one number
typedef unsigned long long Marks;
#define IN(marks, i, step) ((marks) >> (i) & 1)
#define TURN(marks, i, step) ((marks) ^= 1ull << (i))
#else
typedef unsigned char *Marks;
#define IN(marks, i, step) ((marks)[(i) * (step)])
#define TURN(marks, i, step) ((marks)[(i) * (step)] ^= 1)
#endif

struct Row {
    int k, others;
    bool some_own; // whether any row has features that no other has, or could
    long long step;
    const REAL *pairs, *total, *by_count; // shared by all rows; pairs (k, k)
    const signed char *own_of;            // (2, k): of rows without a feature, and with it
    REAL *weights;
    Marks has; // the row as it was
#if OWN
    const REAL *gone;
    long long gone_step;
    REAL precision;
#endif
};

__device__ REAL pair(const Row &row, int i, int l) {
#if OWN
    if (i == l)
        return 0;
    const REAL missed = row.gone[(i * (long long)row.k + l) * row.gone_step];
    return row.pairs[i * row.k + l] - row.precision * missed;
#else
    return row.pairs[i * row.k + l];
#endif
}

__device__ REAL total(const Row &row, int i) {
#if OWN
    return row.total[i * row.step];
#else
    return row.total[i];
#endif
}

struct Set { // z, its slack, and how many of the row's own features it has
    Marks z;
    REAL *slack;
    int j;
};

__device__ bool own(const Row &row, int i) {
    return row.some_own && row.own_of[IN(row.has, i, row.step) * row.k + i];
}

__device__ REAL count(const Row &row, int j) { return row.by_count[row.others + j]; }

__device__ bool in(const Row &row, const Set &set, int i) { return IN(set.z, i, row.step); }

__device__ void empty(const Row &row, Set &set) {
    for (int i = 0; i < row.k; i++)
        if (in(row, set, i))
            TURN(set.z, i, row.step);
}

__device__ void begin(const Row &row, Set &set) {
    set.j = 0;
    for (int first = 0; first < row.k; first += TILE) {
        const int many = min(TILE, row.k - first);
        REAL r[TILE];
#pragma unroll
        for (int t = 0; t < TILE; t++)
            r[t] = t < many ? row.weights[(first + t) * row.step] : REAL(0);
        for (int i = 0; i < row.k; i++) {
            const REAL on = in(row, set, i) ? REAL(1) : REAL(0);
#pragma unroll
            for (int t = 0; t < TILE; t++)
                if (t < many)
                    r[t] -= on * pair(row, i, first + t);
        }
#pragma unroll
        for (int t = 0; t < TILE; t++)
            if (t < many)
                set.slack[(first + t) * row.step] = r[t];
    }
    if (row.some_own)
        for (int i = 0; i < row.k; i++)
            set.j += in(row, set, i) && own(row, i);
}

__device__ REAL added(const Row &row, const Set &set, int i) {
    const REAL slack = set.slack[i * row.step];
    return own(row, i) ? slack + count(row, set.j + 1) - count(row, set.j) : slack;
}

__device__ REAL removed(const Row &row, const Set &set, int i) {
    const REAL slack = set.slack[i * row.step];
    return own(row, i) ? count(row, set.j - 1) - count(row, set.j) - slack : -slack;
}

__device__ void flip(const Row &row, Set &set, int i) {
    const bool off = in(row, set, i);
    const REAL sign = off ? REAL(1) : REAL(-1);
#pragma unroll 4
    for (int l = 0; l < row.k; l++)
        set.slack[l * row.step] += sign * pair(row, i, l);
    if (own(row, i))
        set.j += off ? -1 : 1;
    TURN(set.z, i, row.step);
}

__device__ REAL worth(const Row &row, const Set &set) {
    REAL value = count(row, set.j) - count(row, 0);
    for (int i = 0; i < row.k; i++)
        if (in(row, set, i))
            value += REAL(0.5) * (row.weights[i * row.step] + set.slack[i * row.step]);
    return value;
}

__device__ REAL scale(const Row &row) {
    REAL most = 1;
    for (int i = 0; i < row.k; i++)
        most = max(most, fabs(row.weights[i * row.step]));
    return most;
}

__device__ void climb(const Row &row, Set &set, REAL least) {
    while (true) {
        REAL best = least;
        int at = -1;
#pragma unroll 4
        for (int i = 0; i < row.k; i++) {
            const REAL gain = added(row, set, i); // read of all, so that many are under way
            if (!in(row, set, i) && gain > best) {
                best = gain;
                at = i;
            }
        }
        if (at < 0) { // nothing more to put in: is there one to take out?
            for (int i = 0; i < row.k; i++)
                if (in(row, set, i)) {
                    const REAL gain = removed(row, set, i);
                    if (gain > best) {
                        best = gain;
                        at = i;
                    }
                }
            if (at < 0)
                return;
        }
        flip(row, set, at);
    }
}

__device__ REAL complement_worth(const Row &row, const Set &set) {
    REAL value = 0;
    int own_ones = 0;
    for (int i = 0; i < row.k; i++) {
        own_ones += own(row, i);
        const REAL weight = row.weights[i * row.step];
        if (!in(row, set, i))
            value += weight - REAL(0.5) * (total(row, i) - weight + set.slack[i * row.step]);
    }
    return value + count(row, own_ones - set.j) - count(row, 0);
}

__device__ void local_search(const Row &row, Set &set, REAL least) {
    empty(row, set);
    begin(row, set);
    REAL best = NONE;
    int at = 0;
    for (int i = 0; i < row.k; i++) {
        const REAL alone = added(row, set, i);
        if (alone > best) {
            best = alone;
            at = i;
        }
    }
    flip(row, set, at);
    climb(row, set, least);
    if (complement_worth(row, set) > worth(row, set)) {
        for (int i = 0; i < row.k; i++)
            TURN(set.z, i, row.step);
        begin(row, set);
    }
}

__device__ void double_greedy(const Row &row, Set &low, REAL *upper) {
    Set high = {low.z, upper, 0}; // the set that starts full; of its z nothing is asked
    empty(row, low);
    for (int i = 0; i < row.k; i++) {
        upper[i * row.step] = row.weights[i * row.step] - total(row, i);
        high.j += own(row, i);
    }
    begin(row, low);
    for (int i = 0; i < row.k; i++) {
        if (added(row, low, i) >= removed(row, high, i))
            flip(row, low, i);
        else {
            for (int l = 0; l < row.k; l++)
                upper[l * row.step] += pair(row, i, l);
            high.j -= own(row, i);
        }
    }
}

// A pass over the features that z has, each exchanged for the one that adds most, if any.
__device__ bool exchange(const Row &row, Set &set, REAL least) {
    bool moved = false;
    for (int i = 0; i < row.k; i++) {
        if (!in(row, set, i))
            continue;
        const int left = set.j - own(row, i); // own features without i
        REAL best = set.slack[i * row.step] + count(row, set.j) - count(row, left) + least;
        const REAL fresh = count(row, left + 1) - count(row, left);
        int at = -1;
#pragma unroll 4
        for (int l = 0; l < row.k; l++) {
            REAL gain = set.slack[l * row.step] + pair(row, i, l);
            if (own(row, l))
                gain += fresh;
            if (!in(row, set, l) && gain > best) {
                best = gain;
                at = l;
            }
        }
        if (at >= 0) {
            flip(row, set, i);
            flip(row, set, at);
            moved = true;
        }
    }
    return moved;
}

__device__ void climb_by_exchanges(const Row &row, Set &set, REAL least) {
    do
        climb(row, set, least);
    while (exchange(row, set, least));
}

// The trial takes the place of the set, and it of the trial's, if it is worth more.
__device__ REAL keep(const Row &row, Set &set, Set &trial, REAL value, REAL same) {
    const REAL found = worth(row, trial);
    if (!(found > value + same * (REAL(1) + fabs(value))))
        return value;
    const Set other = set;
    set = trial;
    trial = other;
    return found;
}

__device__ void solve(const Row &row, Set &set, Set &trial, REAL *upper, int solver, REAL same,
                      REAL share) {
    const REAL least = share * scale(row);
    REAL value = worth(row, set);
    if (solver == BEST) {
        for (int i = 0; i < row.k; i++) {
            if (in(row, trial, i) != in(row, set, i))
                TURN(trial.z, i, row.step);
            trial.slack[i * row.step] = set.slack[i * row.step];
        }
        trial.j = set.j;
        climb_by_exchanges(row, trial, least);
        const REAL last = value;
        value = keep(row, set, trial, value, same);
        if (value == last && complement_worth(row, set) <= value)
            return; // nothing moves: what is there is at least a third of the best
        local_search(row, trial, least);
        climb_by_exchanges(row, trial, least);
    } else if (solver == LOCAL_SEARCH)
        local_search(row, trial, least);
    else
        double_greedy(row, trial, upper);
    keep(row, set, trial, value, same);
}

// Half of a feature's own cost.
__device__ REAL half_of(const Row &row, const REAL *half, int i) {
#if OWN
    return half[i] -
           REAL(0.5) * row.precision * row.gone[i * (long long)(row.k + 1) * row.gone_step];
#else
    return half[i];
#endif
}

// The likelihood's part of what a set is worth: the sum of likely_i, less half of its pairs.
__device__ double likely(const Row &row, const Set &set, const REAL *B, long long b_step,
                         const REAL *half, REAL precision) {
    double value = 0.0;
    for (int i = 0; i < row.k; i++)
        if (in(row, set, i))
            value += double(precision * B[i * b_step] - half_of(row, half, i)) -
                     0.5 * double(row.weights[i * row.step] - set.slack[i * row.step]);
    return value;
}

// Improve n rows W; what the likelihood's part of the bound gained, for each block of threads, and
// how many more rows have each feature, for each `parts` of them (so many, K).
// `numbers` has room for 4, with OWN matrices 5, and `marks` for 3 numbers of each feature of each
// row; prior (2, k). The first marks are the rows as they were.
extern "C" __global__ void solve_rows(const REAL *__restrict__ B, long long b_step, REAL *W,
                                      long long w_step, const REAL *pairs, const REAL *total,
                                      const REAL *half, const REAL *prior, const signed char *own_of,
                                      int some_own, const REAL *by_count, REAL precision, REAL same,
                                      REAL share, long long n, int k, int solver, REAL *numbers,
                                      unsigned char *marks, double *gained, int *changes,
                                      int parts, const REAL *gone, long long gone_step) {
    __shared__ double sums[THREADS / 32];
    const long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    const bool here = at < n;
    const long long room = n * k;
    Row row = {k, 0, some_own != 0, n, pairs, total, by_count, own_of, numbers + at};
    Set set = {0, numbers + room + at, 0}, trial = {0, numbers + 2 * room + at, 0};
#if FEW
    row.has = 0;
#else
    row.has = marks + at;
    set.z = marks + room + at;
    trial.z = marks + 2 * room + at;
#endif
    double gain = 0.0;
    if (here) {
#if OWN
        row.gone = gone + at;
        row.gone_step = gone_step;
        row.precision = precision;
        REAL *totals = numbers + 4 * room + at;
        row.total = totals;
        for (int i = 0; i < k; i++) {
            REAL sum = 0;
            for (int l = 0; l < k; l++)
                sum += pair(row, i, l);
            totals[i * n] = sum;
        }
#endif
        for (int i = 0; i < k; i++) {
            const bool has = W[i * w_step + at] > REAL(0.5);
            marks[i * n + at] = has;
#if FEW
            row.has |= (unsigned long long)has << i;
#else
            set.z[i * n] = has;
            trial.z[i * n] = 0;
#endif
            row.weights[i * n] = precision * B[i * b_step + at] - half_of(row, half, i) +
                                 prior[has * k + i];
            row.others += !own(row, i);
        }
#if FEW
        set.z = row.has;
#endif
        begin(row, set);
        gain = -likely(row, set, B + at, b_step, half, precision);
        solve(row, set, trial, numbers + 3 * room + at, solver, same, share);
        gain += likely(row, set, B + at, b_step, half, precision);
        for (int i = 0; i < k; i++)
            W[i * w_step + at] = in(row, set, i);
    }
    int *change = changes + blockIdx.x / parts * k;
    for (int i = 0; i < k; i++) {
        const int was = here && IN(row.has, i, n), is = here && in(row, set, i);
        const int more = __popc(__ballot_sync(0xffffffff, is)) -
                         __popc(__ballot_sync(0xffffffff, was));
        if (more && threadIdx.x % 32 == 0)
            atomicAdd(change + i, more);
    }
    for (int apart = 16; apart; apart /= 2)
        gain += __shfl_down_sync(0xffffffff, gain, apart);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = gain;
    __syncthreads();
    if (threadIdx.x == 0) {
        double whole = 0.0;
        for (int i = 0; i < THREADS / 32; i++)
            whole += sums[i];
        gained[blockIdx.x] = whole;
    }
}
