/* The sums over kernels of eqrm.distributions.kernel_sums, one pass each.
 *
 * Built by hatch_build.py where a C compiler with vector versions of exp and erfc is found, and
 * called through native.py. Everything is finite: native.py is given checked risks only, so the
 * file may be compiled with -ffast-math. With z = shift + unit*x throughout; p may be NULL for
 * equal weights of 1.
 */
#include <math.h>
#include <stddef.h>

#if defined(__x86_64__)
#define EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EACH_PROCESSOR
#endif

/* exp(-26^2) = 1e-293: what lies beyond adds nothing, but underflow is slow. */
#define FARTHEST 26.0

/* native.py refuses a library of another version. */
int eqrm_version(void) { return 1; }

static inline double standardised(double x, double shift, double unit)
{
    return fmax(-FARTHEST, fmin(FARTHEST, shift + unit * x));
}

/* x = r - pivot - mean(r - pivot); found = {that mean, sum of p*x*x}; total = sum of p */
EACH_PROCESSOR
void eqrm_centre(const double *restrict r, const double *restrict p, ptrdiff_t n, double pivot,
                 double total, double *restrict x, double *restrict found)
{
    double sum = 0.0, square = 0.0;
    if (p)
        for (ptrdiff_t i = 0; i < n; i++) {
            x[i] = r[i] - pivot;
            sum += p[i] * x[i];
        }
    else
        for (ptrdiff_t i = 0; i < n; i++) {
            x[i] = r[i] - pivot;
            sum += x[i];
        }
    const double offset = sum / total;
    for (ptrdiff_t i = 0; i < n; i++)
        x[i] -= offset;
    if (p)
        for (ptrdiff_t i = 0; i < n; i++)
            square += p[i] * x[i] * x[i];
    else
        for (ptrdiff_t i = 0; i < n; i++)
            square += x[i] * x[i];
    found[0] = offset;
    found[1] = square;
}

/* found = sums of p*erfc(z) and of p*exp(-z*z)*z^j for j = 0..4 */
EACH_PROCESSOR
void eqrm_sums(const double *restrict x, const double *restrict p, ptrdiff_t n, double shift,
               double unit, double *restrict found)
{
    double tail = 0.0, zeroth = 0.0, first = 0.0, second = 0.0, third = 0.0, fourth = 0.0;
    if (p)
        for (ptrdiff_t i = 0; i < n; i++) {
            const double z = standardised(x[i], shift, unit), square = z * z;
            const double kernel = p[i] * exp(-square);
            tail += p[i] * erfc(z);
            zeroth += kernel;
            first += kernel * z;
            second += kernel * square;
            third += kernel * square * z;
            fourth += kernel * square * square;
        }
    else
        for (ptrdiff_t i = 0; i < n; i++) {
            const double z = standardised(x[i], shift, unit), square = z * z;
            const double kernel = exp(-square);
            tail += erfc(z);
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
EACH_PROCESSOR
void eqrm_kernels(const double *restrict x, const double *restrict p, ptrdiff_t n, double shift,
                  double unit, double *restrict k, double *restrict found)
{
    double density = 0.0, first = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double z = standardised(x[i], shift, unit);
        k[i] = exp(-z * z);
    }
    if (p)
        for (ptrdiff_t i = 0; i < n; i++)
            k[i] *= p[i];
    for (ptrdiff_t i = 0; i < n; i++) {
        density += k[i];
        first += k[i] * standardised(x[i], shift, unit);
    }
    found[0] = density;
    found[1] = first;
}

/* k = a*k + b*p*x */
EACH_PROCESSOR
void eqrm_combine(const double *restrict x, const double *restrict p, ptrdiff_t n, double a,
                  double b, double *restrict k)
{
    if (p)
        for (ptrdiff_t i = 0; i < n; i++)
            k[i] = a * k[i] + b * p[i] * x[i];
    else
        for (ptrdiff_t i = 0; i < n; i++)
            k[i] = a * k[i] + b * x[i];
}
