/* The sums over kernels of eqrm.distributions.kde.sums, one pass each, the whole quantile of a row
 * in the common case, and the middle pairs of the median bandwidth.
 *
 * Built by hatch_build.py where a C compiler is found, and
 * called through native.py. Everything is finite: native.py is given checked risks only, so the
 * file may be compiled with -ffast-math. p may be NULL for equal weights, which then count 1
 * each and total is n.
 */
#include <float.h>
#include <math.h>
#include <stddef.h>

#include "kernels.h"
#include "ranks.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EACH_PROCESSOR
#endif

#define SMALLEST 1e-250
/* Bandwidths between mean and quantile from which centring at the mean costs digits. */
#define FAR_FROM_MEAN 1e3
/* More steps than this leave the row to root.py. */
#define MOST_STEPS 40
/* From so many risks on the first steps are taken in single precision: so many at most, until one
 * is this short. */
#define WORTH_ROUGH 128
#define MOST_ROUGH 6
#define ROUGH_TOLERANCE 0.7
/* Kernels with centres at most so many bandwidths apart overlap. */
#define NEIGHBOURS 4.0
/* In the middle of a gap of so many bandwidths every kernel underflows. */
#define WIDE_GAP 70.0
#define SQRT_2 1.4142135623730951
#define SQRT_2PI 2.5066282746310002
#define TWO_OVER_SQRT_PI 1.1283791670955126

/* native.py refuses a library of another version. */
int eqrm_version(void) { return 11; }

INSIDE double standardised(double x, double shift, double unit)
{
    return fmax(-FARTHEST, fmin(FARTHEST, shift + unit * x));
}

/* exp(-(z + by)^2) over exp(-z^2), where by is small; 0 for kernels that are nothing. */
INSIDE double moved(double z, double by)
{
    const double y = -by * (2.0 * z + by);
    const double rest = 0.5 + y * (1.0 / 6.0 + y * (1.0 / 24.0 + y / 120.0));
    return fabs(z) < FARTHEST ? 1.0 + y * (1.0 + y * rest) : 0.0;
}

/* Loops ask for p[i] or 1 in each turn. What they are in is compiled once with p and once with NULL
 * in its place: one loop for both would read p where it is not, which is allowed but very slow. */
#define WEIGHT(p, i) ((p) ? (p)[i] : 1.0)

/* x = r - pivot - mean(r - pivot); found = {pivot, that mean, sum of p*x*x}. The pivot is r[0], or
 * with weights the heaviest, so that the rounding of the others' differences counts for little. */
INSIDE void centre(const double *restrict r, const double *restrict p, ptrdiff_t n, double total,
                   double *restrict x, double *restrict found)
{
    ptrdiff_t heaviest = 0;
    for (ptrdiff_t i = 1; p && i < n; i++)
        if (p[i] > p[heaviest])
            heaviest = i;
    const double pivot = r[heaviest];
    double sum = 0.0, square = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        x[i] = r[i] - pivot;
        sum += WEIGHT(p, i) * x[i];
    }
    double offset = sum / total, rest = offset;
    if (p) { /* one domain may have almost all the weight: its x must have digits of its own */
        sum = 0.0;
        for (ptrdiff_t i = 0; i < n; i++) {
            x[i] -= offset;
            sum += p[i] * x[i];
        }
        rest = sum / total;
        offset += rest;
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        x[i] -= rest;
        square += WEIGHT(p, i) * x[i] * x[i];
    }
    found[0] = pivot;
    found[1] = offset;
    found[2] = square;
}

EACH_PROCESSOR
void eqrm_centre(const double *r, const double *p, ptrdiff_t n, double total, double *x,
                 double *found)
{
    if (p)
        centre(r, p, n, total, x, found);
    else
        centre(r, NULL, n, total, x, found);
}

/* weighed*z^j to the sums for j = 0..4, in the precision of these. */
#define ADD_MOMENTS                                                                                \
    zeroth += weighed;                                                                             \
    first += weighed * z;                                                                          \
    second += weighed * square;                                                                    \
    third += weighed * square * z;                                                                 \
    fourth += weighed * square * square;

/* Room for the sums over bins, and risks of which these are taken one after the other: longer sums
 * would lose digits where many risks are the same. */
#define MOST_IN_BINS 4096
#define FEW_ADDED 65536
/* Risks whose bins are found together, as vectors. */
#define FEW_AT_ONCE 256

/* Rows for the risks below all bins, and above: with one only, each would wait for the last. */
#define BESIDE 4

/* Pairs of numbers: for one risk longer vectors are no faster, even where the processor has them. */
typedef double two_powers __attribute__((vector_size(16), may_alias));

/* d^j to the eight sums of a bin, j = 0..7. */
INSIDE void add_powers(double *sums, double d)
{
    two_powers *row = (two_powers *)sums;
    const double square = d * d, fourth = square * square;
    const two_powers low = {1.0, d}, high = low * square;
    row[0] += low;
    row[1] += high;
    row[2] += low * fourth;
    row[3] += high * fourth;
}

#if defined(__x86_64__)
/* Halves of x, then of y, each the first (0x44) or the second (0xEE); or their quarters, even (0x88)
 * or odd (0xDD). */
#define PARTS(which, x, y) _mm512_shuffle_f64x2(x, y, which)

/* The same for eight risks at a time, in half the time: a vector of each power for all of them is
 * made into a vector of all powers for each. Returns how many were added. */
__attribute__((target("avx512f"))) static ptrdiff_t add_eights(double *sums, const int *bin,
                                                               const double *place, ptrdiff_t few)
{
    ptrdiff_t i = 0;
    for (; i + 8 <= few; i += 8) {
        const __m512d one = _mm512_set1_pd(1.0), d = _mm512_loadu_pd(place + i);
        const __m512d second = d * d, third = second * d, fourth = second * second;
        const __m512d fifth = fourth * d, sixth = fourth * second, seventh = fourth * third;
        for (int odd = 0; odd < 2; odd++) { /* the risks 0, 2, 4, 6, then 1, 3, 5, 7 */
            const __m512d a = odd ? _mm512_unpackhi_pd(one, d) : _mm512_unpacklo_pd(one, d);
            const __m512d b = odd ? _mm512_unpackhi_pd(second, third)
                                  : _mm512_unpacklo_pd(second, third);
            const __m512d c = odd ? _mm512_unpackhi_pd(fourth, fifth)
                                  : _mm512_unpacklo_pd(fourth, fifth);
            const __m512d e = odd ? _mm512_unpackhi_pd(sixth, seventh)
                                  : _mm512_unpacklo_pd(sixth, seventh);
            const __m512d low[2] = {PARTS(0x44, a, b), PARTS(0xEE, a, b)};
            const __m512d high[2] = {PARTS(0x44, c, e), PARTS(0xEE, c, e)};
            for (int j = 0; j < 2; j++) {
                const int *of = bin + i + 4 * j + odd;
                *(__m512d *)(sums + 8 * (ptrdiff_t)of[0]) += PARTS(0x88, low[j], high[j]);
                *(__m512d *)(sums + 8 * (ptrdiff_t)of[2]) += PARTS(0xDD, low[j], high[j]);
            }
        }
    }
    return i;
}
#define ADD_EIGHTS(sums, bin, place, few)                                                          \
    (__builtin_cpu_supports("avx512f") ? add_eights(sums, bin, place, few) : 0)
#else
#define ADD_EIGHTS(sums, bin, place, few) 0
#endif

/* So many numbers are added up in single precision. */
#define FEW_SINGLES 256

/* What passes over a long row, or a part of one, of risks in REAL. */
#define PASSES(REAL, OF)                                                                           \
    /* found = sums of r - pivot and of its square */                                              \
    EACH_PROCESSOR                                                                                 \
    void eqrm_spread##OF(const REAL *restrict r, ptrdiff_t n, double pivot, double *restrict found)\
    {                                                                                              \
        double sum = 0.0, square = 0.0;                                                            \
        for (ptrdiff_t i = 0; i < n; i++) {                                                        \
            const double x = r[i] - pivot;                                                         \
            sum += x;                                                                              \
            square += x * x;                                                                       \
        }                                                                                          \
        found[0] = sum;                                                                            \
        found[1] = square;                                                                         \
    }                                                                                              \
                                                                                                   \
    /* Risks at u = shift + unit*(r - pivot) among bins 0..bins-1 of width 1: to the row 4 + b of  \
     * the table is added d^j, j = 0..7, d being the place of u from the middle of its bin b. The  \
     * first four rows are those of the risks below all bins, in turn, and the last four above. */ \
    EACH_PROCESSOR                                                                                 \
    void eqrm_bins##OF(const REAL *restrict r, ptrdiff_t n, double pivot, double shift,            \
                       double unit, double bins, double *restrict table)                           \
    {                                                                                              \
        const double first = shift + BESIDE, last = bins + BESIDE + 0.5;                           \
        double sums[MOST_IN_BINS] __attribute__((aligned(64)));                                    \
        double turn[FEW_AT_ONCE], place[FEW_AT_ONCE];                                              \
        int bin[FEW_AT_ONCE];                                                                      \
        for (int i = 0; i < FEW_AT_ONCE; i++)                                                      \
            turn[i] = i % BESIDE;                                                                  \
        const ptrdiff_t numbers = 8 * ((ptrdiff_t)bins + 2 * BESIDE);                              \
        for (ptrdiff_t begin = 0; begin < n; begin += FEW_ADDED) {                                 \
            const ptrdiff_t end = begin + FEW_ADDED < n ? begin + FEW_ADDED : n;                   \
            for (ptrdiff_t j = 0; j < numbers; j++)                                                \
                sums[j] = 0.0;                                                                     \
            for (ptrdiff_t from = begin; from < end; from += FEW_AT_ONCE) {                        \
                const ptrdiff_t few = from + FEW_AT_ONCE < end ? FEW_AT_ONCE : end - from;         \
                for (ptrdiff_t i = 0; i < few; i++) {                                              \
                    const double x = first + unit * (r[from + i] - pivot);                         \
                    const double u = fmin(last + turn[i], fmax(0.5 + turn[i], x));                 \
                    bin[i] = (int)u;                                                               \
                    place[i] = u - bin[i] - 0.5;                                                   \
                }                                                                                  \
                for (ptrdiff_t i = ADD_EIGHTS(sums, bin, place, few); i < few; i++)                \
                    add_powers(sums + 8 * (ptrdiff_t)bin[i], place[i]);                            \
            }                                                                                      \
            for (ptrdiff_t j = 0; j < numbers; j++)                                                \
                table[j] += sums[j];                                                               \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* The gradient k = p*(a*exp(-z*z) + b*(r - pivot - offset)) with z = shift + unit*(r - pivot) */ \
    INSIDE void gradient##OF(const REAL *restrict r, const double *restrict p, REAL *restrict k,   \
                             ptrdiff_t n, double pivot, double shift, double unit, double a,       \
                             double b, double offset)                                              \
    {                                                                                              \
        for (ptrdiff_t i = 0; i < n; i++) {                                                        \
            const double x = r[i] - pivot, z = standardised(x, shift, unit);                       \
            k[i] = (REAL)(WEIGHT(p, i) * (a * exp_double(-z * z) + b * (x - offset)));             \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    EACH_PROCESSOR                                                                                 \
    void eqrm_gradient##OF(const REAL *r, const double *p, REAL *k, ptrdiff_t n, double pivot,     \
                           double shift, double unit, double a, double b, double offset,           \
                           double *found)                                                          \
    {                                                                                              \
        (void)found;                                                                               \
        if (p)                                                                                     \
            gradient##OF(r, p, k, n, pivot, shift, unit, a, b, offset);                            \
        else                                                                                       \
            gradient##OF(r, NULL, k, n, pivot, shift, unit, a, b, offset);                         \
    }

PASSES(double, )
PASSES(float, _single)

/* found = sums of p*erfc(z) and of p*exp(-z*z)*z^j for j = 0..4, z = shift + unit*x; the
 * p*exp(-z*z) are written to k unless that is NULL */
INSIDE void sums(const double *restrict x, const double *restrict p, double *restrict k,
                 ptrdiff_t n, double shift, double unit, double *restrict found)
{
    double tail = 0.0, zeroth = 0.0, first = 0.0, second = 0.0, third = 0.0, fourth = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double z = standardised(x[i], shift, unit), square = z * z;
        const double kernel = exp_double(-square);
        const double beyond = kernel * scaled_erfc_double(fabs(z));
        const double weighed = WEIGHT(p, i) * kernel;
        tail += WEIGHT(p, i) * (z < 0.0 ? 2.0 - beyond : beyond);
        if (k)
            k[i] = weighed;
        ADD_MOMENTS
    }
    found[0] = tail;
    found[1] = zeroth;
    found[2] = first;
    found[3] = second;
    found[4] = third;
    found[5] = fourth;
}

EACH_PROCESSOR
void eqrm_sums(const double *x, const double *p, double *k, ptrdiff_t n, double shift, double unit,
               double *found)
{
    if (p && k)
        sums(x, p, k, n, shift, unit, found);
    else if (p)
        sums(x, p, NULL, n, shift, unit, found);
    else if (k)
        sums(x, NULL, k, n, shift, unit, found);
    else
        sums(x, NULL, NULL, n, shift, unit, found);
}

/* The same sums in single precision, for a start. */
INSIDE void rough_sums(const double *restrict x, const double *restrict p, ptrdiff_t n,
                       double shift, double unit, double *restrict found)
{
    double total[6] = {0.0};
    for (ptrdiff_t begin = 0; begin < n; begin += FEW_SINGLES) {
        const ptrdiff_t end = begin + FEW_SINGLES < n ? begin + FEW_SINGLES : n;
        float tail = 0.0f, zeroth = 0.0f, first = 0.0f, second = 0.0f, third = 0.0f, fourth = 0.0f;
        for (ptrdiff_t i = begin; i < end; i++) {
            const float place = (float)(shift + unit * x[i]);
            const float z = fminf(FARTHEST_SINGLE, fmaxf(-FARTHEST_SINGLE, place));
            const float square = z * z, kernel = exp_single(-square);
            const float beyond = kernel * scaled_erfc_single(fabsf(z));
            const float weight = (float)WEIGHT(p, i), weighed = weight * kernel;
            tail += weight * (z < 0.0f ? 2.0f - beyond : beyond);
            ADD_MOMENTS
        }
        total[0] += tail;
        total[1] += zeroth;
        total[2] += first;
        total[3] += second;
        total[4] += third;
        total[5] += fourth;
    }
    for (int j = 0; j < 6; j++)
        found[j] = total[j];
}

EACH_PROCESSOR
void eqrm_rough_sums(const double *x, const double *p, ptrdiff_t n, double shift, double unit,
                     double *found)
{
    if (p)
        rough_sums(x, p, n, shift, unit, found);
    else
        rough_sums(x, NULL, n, shift, unit, found);
}

/* The sums of eqrm_sums, with p = 1, from the table of eqrm_bins: bin b has its middle at
 * z = shift + unit*b, and the sums are Taylor series about it. */
EACH_PROCESSOR
void eqrm_sums_of_bins(const double *restrict table, ptrdiff_t bins, double shift, double unit,
                       double *restrict found)
{
    double tail = 0.0, above = 0.0, derivatives[5] = {0.0}, factor[8] = {1.0};
    for (int j = 1; j < 8; j++)
        factor[j] = factor[j - 1] * unit / j;
    for (ptrdiff_t b = 0; b < bins; b++) {
        const double *row = table + 8 * (b + BESIDE), z = shift + unit * b;
        double slope[12], power[8]; /* derivatives of exp(-z*z), and their factors */
        slope[0] = exp_double(-z * z);
        slope[1] = -2.0 * z * slope[0];
        for (int n = 2; n < 12; n++)
            slope[n] = -2.0 * (z * slope[n - 1] + (n - 1) * slope[n - 2]);
        for (int j = 0; j < 8; j++)
            power[j] = row[j] * factor[j];
        const double beyond = slope[0] * scaled_erfc_double(fabs(z));
        double series = 0.0;
        for (int j = 1; j < 8; j++)
            series += power[j] * slope[j - 1];
        tail += row[0] * (z < 0.0 ? 2.0 - beyond : beyond) - TWO_OVER_SQRT_PI * series;
        for (int n = 0; n < 5; n++)
            for (int j = 0; j < 8; j++)
                derivatives[n] += power[j] * slope[n + j];
    }
    for (int turn = 0; turn < BESIDE; turn++)
        above += table[8 * (BESIDE + bins + turn)];
    /* From Hermite's polynomials to powers of z. */
    found[0] = tail + 2.0 * above;
    found[1] = derivatives[0];
    found[2] = -derivatives[1] / 2.0;
    found[3] = (derivatives[2] + 2.0 * found[1]) / 4.0;
    found[4] = (12.0 * found[2] - derivatives[3]) / 8.0;
    found[5] = (derivatives[4] + 48.0 * found[3] - 12.0 * found[1]) / 16.0;
}

/* The normal quantile at 1 - tail to three digits (Abramowitz and Stegun, 26.2.23). */
INSIDE double rough_normal_quantile(double tail)
{
    const double u = sqrt(-2.0 * log(fmin(tail, 1.0 - tail)));
    const double z = u - (2.515517 + u * (0.802853 + u * 0.010328)) /
                             (1.0 + u * (1.432788 + u * (0.189269 + u * 0.001308)));
    return tail < 0.5 ? z : -z;
}

/* One step of the root solve from t, as root.py takes it, but on the scale sqrt(-2 log S), which
 * needs no inverse of the normal law. Returns 0 when it goes astray: low, high and error are what
 * earlier steps have found. *reach says how far the step was, in units in which the density
 * changes. */
INSIDE int step(const double *m, double total, double log_tail, double *t, double *low,
                double *high, double *error, double *reach)
{
    const double sf = 0.5 * m[0] / total, density = m[1] / total;
    const double log_sf = log(fmax(sf, SMALLEST)), before = *error;
    if (fabs(log_sf - log_tail) <= 2e-16 * fmax(1.0, -log_tail)) {
        *reach = 0.0;
        return 1;
    }
    if (log_sf > log_tail)
        *low = *t;
    else
        *high = *t;
    *error = fabs(log_sf - log_tail);
    /* In a gap between risks the curve is flat, and steps along it lead nowhere. */
    if (*error > 0.5 * before || sf > 0.9999 || !(density > SMALLEST) || !(sf > SMALLEST))
        return 0;
    const double hazard = density / (SQRT_2PI * sf), u = 1.0 / m[1];
    const double z1 = SQRT_2 * m[2] * u, z2 = 2.0 * m[3] * u;
    const double z3 = 2.0 * SQRT_2 * m[4] * u, z4 = 4.0 * m[5] * u;
    const double a = -z1, b = z2 - 1.0, c = 3.0 * z1 - z3, d = z4 - 6.0 * z2 + 3.0;
    const double s = sqrt(-2.0 * log_sf), newton = (sqrt(-2.0 * log_tail) - s) * s / hazard;
    const double bend = 0.5 * newton * (a + hazard - hazard / (s * s));
    double by = newton / fmin(2.0, fmax(0.5, 1.0 + bend));
    const double pace = fmax(1.0, fmax(fabs(a), sqrt(fabs(b))));
    *reach = fabs(by) * pace;
    if (*reach < 1.0) {
        const double excess = -expm1(log_tail - log_sf) / hazard;
        double refined = by;
        for (int again = 0; again < 2; again++) {
            const double e = refined;
            const double slope = 1.0 + e * (a + e * (b / 2.0 + e * (c / 6.0 + e * d / 24.0)));
            const double ratio =
                1.0 + e * (a / 2.0 + e * (b / 6.0 + e * (c / 24.0 + e * d / 120.0)));
            refined -= (e * ratio - excess) / slope;
        }
        /* In a wide gap one rounding of S is a step of any length. */
        if (fabs(refined) * pace < 1.0)
            by = refined;
    }
    if (!(*low <= *t + by && *t + by <= *high))
        return 0;
    *t += by;
    return 1;
}

/* The root t of the equation for bandwidth h (negative for levels under 1/2) and risks x, taken
 * relative to a point so far beyond their mean, from a start; and with w ~ p*exp(-z*z) the gradient
 * k = w + coupling*(mean of z)*p*(x + beyond) unless k is NULL; 1 when they were found, 0 when the
 * solve needs the care of root.py. found = {t, mean of z under w}. */
INSIDE int solve(const double *restrict x, const double *restrict p, ptrdiff_t n, double total,
                 double beyond, double h, double coupling, double log_tail, double start,
                 double tolerance, double *restrict k, double *restrict found)
{
    const double unit = -1.0 / (h * SQRT_2);
    double moments[6], low = -1e300, high = 1e300, error = 1e300, reach = 1e300, t = start;
    double near = t; /* where the kernels in k are taken */
    if (n >= WORTH_ROUGH) {
        for (int count = 0; count < MOST_ROUGH && reach >= ROUGH_TOLERANCE; count++) {
            eqrm_rough_sums(x, p, n, t / SQRT_2, unit, moments);
            if (!step(moments, total, log_tail, &t, &low, &high, &error, &reach))
                break;
        }
        if (!(reach < ROUGH_TOLERANCE))
            t = start;
        low = -1e300, high = error = reach = 1e300;
    }
    for (int count = 0, bracketed = 0; reach >= tolerance; count++) {
        if (count == MOST_STEPS)
            return 0;
        near = t;
        eqrm_sums(x, p, k, n, near / SQRT_2, unit, moments);
        if (step(moments, total, log_tail, &t, &low, &high, &error, &reach))
            continue;
        if (!bracketed) { /* from the root of the smallest kernel alone to that of the largest */
            double least = DBL_MAX, most = -DBL_MAX;
            for (ptrdiff_t i = 0; i < n; i++) {
                least = fmin(least, x[i] / h);
                most = fmax(most, x[i] / h);
            }
            const double alone = rough_normal_quantile(exp(log_tail));
            low = fmax(low, least + alone - 0.01);
            high = fmin(high, most + alone + 0.01);
            bracketed = 1;
        }
        t = 0.5 * (low + high);
        reach = 1e300;
        if (!(low < t && t < high))
            return 0;
    }
    found[0] = t;
    if (!k)
        return 1;
    if (!(moments[1] > SMALLEST)) /* the middle of a wide gap */
        return 0;
    const double shift = near / SQRT_2, by = (t - near) / SQRT_2;
    double density = 0.0, first = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double z = standardised(x[i], shift, unit);
        k[i] *= moved(z, by);
        density += k[i];
        first += k[i] * (z + by);
    }
    found[1] = SQRT_2 * first / density;
    const double a = 1.0 / density, b = coupling * found[1] / total;
    for (ptrdiff_t i = 0; i < n; i++)
        k[i] = a * k[i] + b * WEIGHT(p, i) * (x[i] + beyond);
    return 1;
}

EACH_PROCESSOR
int eqrm_quantile(const double *x, const double *p, ptrdiff_t n, double total, double h,
                  double coupling, double log_tail, double start, double tolerance, double *k,
                  double *found)
{
    if (p)
        return solve(x, p, n, total, 0.0, h, coupling, log_tail, start, tolerance, k, found);
    return solve(x, NULL, n, total, 0.0, h, coupling, log_tail, start, tolerance, k, found);
}

/* Puts the values in such an order that v[rank] has its place, smaller ones before it. */
static void select_rank(double *v, ptrdiff_t n, ptrdiff_t rank)
{
    ptrdiff_t first = 0, last = n - 1;
    while (first < last) {
        const double a = v[first], b = v[(first + last) / 2], c = v[last];
        const double pivot = fmax(fmin(a, b), fmin(fmax(a, b), c));
        ptrdiff_t i = first, j = last;
        while (i <= j) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i <= j) {
                const double swapped = v[i];
                v[i++] = v[j];
                v[j--] = swapped;
            }
        }
        if (rank <= j)
            last = j;
        else if (rank >= i)
            first = i;
        else
            return;
    }
}

/* A point near the root for narrow kernels of equal weight, as near_root in sums.py: the quantile
 * of their centres, and beyond those the root of the largest kernel alone. If exactly the wanted
 * share lies beyond a gap, found = {the last before it, the first beyond it} of sign*x; otherwise
 * they are the same. */
static double near_root(const double *x, ptrdiff_t n, double h, double sign, double log_tail,
                        double *found)
{
    double y[SHORT];
    const double share = exp(log_tail) * (double)n;
    double top = -DBL_MAX;
    found[0] = found[1] = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        y[i] = sign * x[i];
        top = fmax(top, y[i]);
    }
    if (share < 1.0)
        return top / h + rough_normal_quantile(fmin(0.5, share));
    const double place = fmax((double)n - share - 0.5, 0.0);
    const ptrdiff_t rank = (ptrdiff_t)fmin(place, (double)(n - 2));
    select_rank(y, n, rank);
    double next = DBL_MAX;
    for (ptrdiff_t i = rank + 1; i < n; i++)
        next = fmin(next, y[i]);
    const double gap = next - y[rank], part = place - (double)rank;
    const double above = (double)(n - rank - 1);
    if (fabs(log(above / (double)n) - log_tail) <= 2e-16 * fmax(1.0, -log_tail)) {
        found[0] = y[rank];
        found[1] = next;
    }
    if (gap < NEIGHBOURS * h || fabs(part - 0.5) < 1e-12)
        return (y[rank] + part * gap) / h;
    if (part < 0.5)
        return y[rank] / h + rough_normal_quantile(0.5 - part);
    return next / h + rough_normal_quantile(fmin(1.5 - part, 1.0 - 1e-3));
}

/* The gradient k at the middle of a wide gap, as quantile_in_gap in root.py: half of it on each
 * side, most of that at the risk beside the gap. */
static void share_beside_gap(const double *x, ptrdiff_t n, double h, double sign, const double *gap,
                             double *k)
{
    const double across = fmin((gap[1] - gap[0]) / h, 1e200);
    double below = 0.0, above = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double y = sign * x[i];
        const double away = (y <= gap[0] ? gap[0] - y : y - gap[1]) / h;
        k[i] = away < WIDE_GAP ? exp(-0.5 * away * (away + across)) : 0.0;
        if (y <= gap[0])
            below += k[i];
        else
            above += k[i];
    }
    for (ptrdiff_t i = 0; i < n; i++)
        k[i] *= 0.5 / (sign * x[i] <= gap[0] ? below : above);
}

/* The quantile q of risks r and its gradient k (unless NULL) at once, for h the lesser of factor*std
 * and fixed, in rows that fit on the stack: centred, h found, and solved from the root for normal
 * risks, or where kernels are narrower than that is good for from the quantile of their centres.
 * goal is the root for one kernel, sign -1 for levels under 1/2, apart = 1 - sum of p*p. 0 where the
 * start or the digits need more care. found = {t, mean of z, q - mean, pivot, mean - pivot, whether
 * h is fixed}; how a fixed h follows the risks is not in the gradient. */
INSIDE int row_quantile(const double *restrict r, const double *restrict p, ptrdiff_t n,
                        double total, double apart, double factor, double fixed, double log_tail,
                        double goal, double sign, double narrow, double tolerance,
                        double *restrict k, double *restrict found)
{
    double x[SHORT], place[3];
    centre(r, p, n, total, x, place);
    const double square = place[2] / total;
    if (!(square < 1e100) || !(square > 1e-100) || !(apart > 1e-12))
        return 0;
    const double std = sqrt(square / apart), h = fmin(factor * std, fixed);
    /* A fixed h this large may be beyond factor*std only because no factor was given. */
    if (!(h > 1e-100) || !(h < 1e100) || !(std < 1e90 * h))
        return 0;
    if (p) { /* a risk of almost no weight may be farther away than std tells */
        double most = 0.0;
        for (ptrdiff_t i = 0; i < n; i++)
            most = fmax(most, fabs(x[i]));
        if (!(most < 1e90 * h))
            return 0;
    }
    const double coupling = factor * std > fixed ? 0.0 : sign * factor / (std * apart);
    int done = 0;
    double start = goal * sqrt((std / h) * (std / h) + 1.0);
    if (h >= narrow * std)
        done = solve(x, p, n, total, 0.0, sign * h, coupling, log_tail, start, tolerance, k, found);
    if (!done && !p) {
        double away = 0.0, gap[2];
        start = near_root(x, n, h, sign, log_tail, gap);
        if (coupling == 0.0 && gap[1] - gap[0] > WIDE_GAP * h) {
            found[1] = 0.0;
            found[2] = sign * (gap[0] + 0.5 * (gap[1] - gap[0]));
            found[3] = place[0];
            found[4] = place[1];
            found[5] = 1.0;
            if (k)
                share_beside_gap(x, n, h, sign, gap, k);
            return 1;
        }
        if (fabs(start) >= 0.5 * FAR_FROM_MEAN) { /* from there the differences are exact again */
            place[0] += place[1] + sign * h * start;
            away = place[0] - r[0] - place[1];
            place[1] = start = 0.0;
            for (ptrdiff_t i = 0; i < n; i++)
                x[i] = r[i] - place[0];
        }
        done =
            solve(x, p, n, total, away, sign * h, coupling, log_tail, start, tolerance, k, found);
    }
    if (!done)
        return 0;
    found[2] = sign * h * found[0];
    found[3] = place[0];
    found[4] = place[1];
    found[5] = factor * std > fixed;
    return fabs(found[0]) < FAR_FROM_MEAN;
}

EACH_PROCESSOR
int eqrm_row_quantile(const double *r, const double *p, ptrdiff_t n, double total, double apart,
                      double factor, double fixed, double log_tail, double goal, double sign,
                      double narrow, double tolerance, double *k, double *found)
{
    if (p)
        return row_quantile(r, p, n, total, apart, factor, fixed, log_tail, goal, sign, narrow,
                            tolerance, k, found);
    return row_quantile(r, NULL, n, total, apart, factor, fixed, log_tail, goal, sign, narrow,
                        tolerance, k, found);
}

/* The same for risks and gradient in single precision. */
EACH_PROCESSOR
int eqrm_row_quantile_single(const float *r, const double *p, ptrdiff_t n, double total,
                             double apart, double factor, double fixed, double log_tail,
                             double goal, double sign, double narrow, double tolerance, float *k,
                             double *found)
{
    double wide[SHORT], gradient[SHORT];
    for (ptrdiff_t i = 0; i < n; i++)
        wide[i] = r[i];
    if (!eqrm_row_quantile(wide, p, n, total, apart, factor, fixed, log_tail, goal, sign, narrow,
                           tolerance, k ? gradient : NULL, found))
        return 0;
    if (k)
        for (ptrdiff_t i = 0; i < n; i++)
            k[i] = (float)gradient[i];
    return 1;
}

/* The same in double precision and with equal weights, for h the lesser of factor*std and of scale
 * times a spread that is found here: of quartiles, or else of all pairs. How h follows the risks is
 * in the gradient. 0 also where the spread is none, or its derivatives are not told apart. */
int eqrm_spread_quantile(const double *r, ptrdiff_t n, int quartiles, double factor, double scale,
                         double log_tail, double goal, double sign, double narrow,
                         double tolerance, double *k, double *found)
{
    double ascending[SHORT + BEYOND], sum = 0.0, square = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double x = r[i] - r[0];
        sum += x;
        square += x * x;
    }
    const double total = (double)n, offset = sum / total;
    if (!is_usual(square))
        return 0;
    in_order(r, n, r[0] + offset, sqrt(square / total), ascending);
    spread of;
    if (!(quartiles ? quartile_spread(r, ascending, n, &of) : pair_spread(r, ascending, n, &of)))
        return 0;
    if (!eqrm_row_quantile(r, NULL, n, total, 1.0 - 1.0 / total, factor,
                           fmax(scale * of.value, DBL_TRUE_MIN), log_tail, goal, sign, narrow,
                           tolerance, k, found))
        return 0;
    for (int j = 0; k && found[5] > 0.0 && j < 4; j++) { /* as add_shares in root.py, digit by digit */
        const volatile double share = scale * of.shares[j];
        const volatile double added = sign * found[1] * share;
        k[of.places[j]] += added;
    }
    return 1;
}

/* The pairs at the lower and the upper median of the distances of n > 1 ascending values, padded. */
int eqrm_middle_pairs(const double *v, const double *c, ptrdiff_t n, const double *given,
                      ptrdiff_t *found)
{
    middle_pairs(v, c, n, given, found);
    return 0;
}
