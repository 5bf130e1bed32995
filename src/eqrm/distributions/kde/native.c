/* The sums over kernels of eqrm.distributions.kde.sums, one pass each, and the whole quantile
 * of a row in the common case.
 *
 * Built by hatch_build.py where a C compiler with vector versions of exp and erfc is found, and
 * called through native.py. Everything is finite: native.py is given checked risks only, so the
 * file may be compiled with -ffast-math. With z = shift + unit*x throughout; p may be NULL for
 * equal weights, which then count 1 each and total is n.
 */
#include <math.h>
#include <stddef.h>

#if defined(__x86_64__)
#define EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EACH_PROCESSOR
#endif
#define INSIDE static inline __attribute__((always_inline))

/* exp(-26^2) = 1e-293: what lies beyond adds nothing, but underflow is slow. */
#define FARTHEST 26.0
#define SMALLEST 1e-250
#define SQRT_2 1.4142135623730951
#define SQRT_2PI 2.5066282746310002

/* native.py refuses a library of another version. */
int eqrm_version(void) { return 5; }

INSIDE double standardised(double x, double shift, double unit)
{
    return fmax(-FARTHEST, fmin(FARTHEST, shift + unit * x));
}

/* The compiler makes two loops of one that asks for p[i] or 1. */
#define WEIGHT(p, i) ((p) ? (p)[i] : 1.0)

/* x = r - pivot - mean(r - pivot) with pivot = r[0]; found = {pivot, that mean, sum of p*x*x} */
INSIDE void centre(const double *restrict r, const double *restrict p, ptrdiff_t n, double total,
                   double *restrict x, double *restrict found)
{
    const double pivot = r[0];
    double sum = 0.0, square = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        x[i] = r[i] - pivot;
        sum += WEIGHT(p, i) * x[i];
    }
    const double offset = sum / total;
    for (ptrdiff_t i = 0; i < n; i++) {
        x[i] -= offset;
        square += WEIGHT(p, i) * x[i] * x[i];
    }
    found[0] = pivot;
    found[1] = offset;
    found[2] = square;
}

/* found = sums of p*erfc(z) and of p*exp(-z*z)*z^j for j = 0..4 */
INSIDE void sums(const double *restrict x, const double *restrict p, ptrdiff_t n, double shift,
                 double unit, double *restrict found)
{
    double tail = 0.0, zeroth = 0.0, first = 0.0, second = 0.0, third = 0.0, fourth = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double z = standardised(x[i], shift, unit), square = z * z;
        const double kernel = WEIGHT(p, i) * exp(-square);
        tail += WEIGHT(p, i) * erfc(z);
        zeroth += kernel;
        first += kernel * z;
        second += kernel * square;
        third += kernel * square * z;
        fourth += kernel * square * square;
    }
    found[0] = tail;
    found[1] = zeroth;
    found[2] = first;
    found[3] = second;
    found[4] = third;
    found[5] = fourth;
}

/* The same in single precision, for a start: beyond 9 single kernels are nothing but slow. */
INSIDE void rough_sums(const double *restrict x, const double *restrict p, ptrdiff_t n,
                       double shift, double unit, double *restrict found)
{
    double tail = 0.0, zeroth = 0.0, first = 0.0, second = 0.0, third = 0.0, fourth = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const float z = fminf(9.0f, fmaxf(-9.0f, (float)(shift + unit * x[i])));
        const float square = z * z, weight = (float)WEIGHT(p, i);
        const float kernel = weight * expf(-square);
        tail += weight * erfcf(z);
        zeroth += kernel;
        first += kernel * z;
        second += kernel * square;
        third += kernel * square * z;
        fourth += kernel * square * square;
    }
    found[0] = tail;
    found[1] = zeroth;
    found[2] = first;
    found[3] = second;
    found[4] = third;
    found[5] = fourth;
}

/* k = p*exp(-z*z); found = {sum of k, sum of k*z} */
INSIDE void kernels(const double *restrict x, const double *restrict p, ptrdiff_t n, double shift,
                    double unit, double *restrict k, double *restrict found)
{
    double density = 0.0, first = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double z = standardised(x[i], shift, unit);
        k[i] = WEIGHT(p, i) * exp(-z * z);
        density += k[i];
        first += k[i] * z;
    }
    found[0] = density;
    found[1] = first;
}

/* k = a*k + b*p*x */
INSIDE void combine(const double *restrict x, const double *restrict p, ptrdiff_t n, double a,
                    double b, double *restrict k)
{
    for (ptrdiff_t i = 0; i < n; i++)
        k[i] = a * k[i] + b * WEIGHT(p, i) * x[i];
}

EACH_PROCESSOR
void eqrm_centre(const double *r, const double *p, ptrdiff_t n, double total, double *x,
                 double *found)
{
    centre(r, p, n, total, x, found);
}

EACH_PROCESSOR
void eqrm_sums(const double *x, const double *p, ptrdiff_t n, double shift, double unit,
               double *found)
{
    sums(x, p, n, shift, unit, found);
}

EACH_PROCESSOR
void eqrm_rough_sums(const double *x, const double *p, ptrdiff_t n, double shift, double unit,
                     double *found)
{
    rough_sums(x, p, n, shift, unit, found);
}

/* x = a*p*exp(-z*z) + b*p*x: the gradient written over the centred risks */
EACH_PROCESSOR
void eqrm_gradient(double *restrict x, const double *restrict p, ptrdiff_t n, double shift,
                   double unit, double a, double b, double *found)
{
    (void)found;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double z = standardised(x[i], shift, unit);
        x[i] = WEIGHT(p, i) * (a * exp(-z * z) + b * x[i]);
    }
}

/* One step of the root solve from t, as quantile_root.py takes it, but on the scale
 * sqrt(-2 log S), which needs no inverse of the normal law. Returns 0 when it goes astray: low,
 * high and error are what earlier steps have found. *reach says how far the step was, in units
 * in which the density changes. */
INSIDE int step(const double *m, double total, double log_tail, double *t, double *low,
                double *high, double *error, double *reach)
{
    const double sf = 0.5 * m[0] / total, density = m[1] / total;
    if (!(sf > SMALLEST) || !(density > SMALLEST) || sf > 0.9999)
        return 0;
    const double log_sf = log(sf), hazard = density / (SQRT_2PI * sf), u = 1.0 / m[1];
    const double z1 = SQRT_2 * m[2] * u, z2 = 2.0 * m[3] * u;
    const double z3 = 2.0 * SQRT_2 * m[4] * u, z4 = 4.0 * m[5] * u;
    const double a = -z1, b = z2 - 1.0, c = 3.0 * z1 - z3, d = z4 - 6.0 * z2 + 3.0;
    if (log_sf > log_tail)
        *low = *t;
    else
        *high = *t;
    const double before = *error;
    *error = fabs(log_sf - log_tail);
    if (*error > 0.5 * before)
        return 0;
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
    *t += by;
    return *low <= *t && *t <= *high;
}

/* The quantile of a row, and its gradient k unless that is NULL; 1 when it was found, 0 when the
 * risks are equal or the solve needs the care of quantile_root.py. With s = 1 - sum of squared
 * weights, and factor the bandwidth over the standard deviation, negative for levels under 1/2.
 * The solve starts from guess, or where normal risks had their quantile when that is NULL.
 * found = {pivot, mean - pivot, quantile - mean}; x is scratch. */
EACH_PROCESSOR
int eqrm_quantile(const double *r, const double *p, ptrdiff_t n, double total, double s,
                  double factor, double log_tail, double goal, double tolerance,
                  const double *guess, double *x, double *k, double *found)
{
    double moments[6], low = -1e300, high = 1e300, error = 1e300, reach = 1e300;
    centre(r, p, n, total, x, found);
    const double variance = found[2] / total / s;
    if (!(found[2] > 1e-280 && found[2] < 1e280 && s > 1e-12))
        return 0;
    const double std = sqrt(variance), h = factor * std, unit = -1.0 / (h * SQRT_2);
    double t = guess ? (*guess - found[0] - found[1]) / h
                     : goal * sqrt(1.0 / (factor * factor) + 1.0);
    for (int count = 0; reach >= tolerance; count++) {
        if (count == 12)
            return 0;
        sums(x, p, n, t / SQRT_2, unit, moments);
        if (!step(moments, total, log_tail, &t, &low, &high, &error, &reach))
            return 0;
    }
    found[2] = h * t;
    if (!k)
        return 1;
    kernels(x, p, n, t / SQRT_2, unit, k, moments);
    if (!(moments[0] > SMALLEST))
        return 0;
    const double pull = h / variance / s * SQRT_2 * moments[1] / moments[0] / total;
    combine(x, p, n, 1.0 / moments[0], pull, k);
    return 1;
}
