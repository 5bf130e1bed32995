/* exp and erfc for the loops of native.c, in plain arithmetic, so that any compiler makes vectors
 * of them: without branches, tables or calls. Everything is finite, and -ffast-math may be given.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define INSIDE static inline __attribute__((always_inline))

/* exp(-26^2) = 1e-293: what lies beyond adds nothing, but underflow is slow. */
#define FARTHEST 26.0
/* The same in single precision: beyond 9 kernels are nothing. */
#define FARTHEST_SINGLE 9.0f

/* exp(y) for -700 < y <= 0, to 3e-16: 2^k exp(rest) with |rest| <= log(2)/2. The low digits of
 * log(2) come in last, as a factor, since -ffast-math would add them to the high ones. */
INSIDE double exp_double(double y)
{
    const int k = (int)(y * 1.4426950408889634 - 0.5);
    const double x = y - k * 0.693147180369123816490, low = k * 1.90821492927058770002e-10;
    double even = 1.0 / 479001600.0, odd = 1.0 / 6227020800.0, scale;
    const double square = x * x;
    even = even * square + 1.0 / 3628800.0;
    odd = odd * square + 1.0 / 39916800.0;
    even = even * square + 1.0 / 40320.0;
    odd = odd * square + 1.0 / 362880.0;
    even = even * square + 1.0 / 720.0;
    odd = odd * square + 1.0 / 5040.0;
    even = even * square + 1.0 / 24.0;
    odd = odd * square + 1.0 / 120.0;
    even = even * square + 0.5;
    odd = odd * square + 1.0 / 6.0;
    even = even * square + 1.0;
    odd = odd * square + 1.0;
    const int64_t bits = ((int64_t)k + 1023) << 52;
    memcpy(&scale, &bits, sizeof scale);
    return scale * (1.0 - low * (1.0 - 0.5 * low)) * (even + x * odd);
}

/* exp(z*z)*erfc(z) for 0 <= z <= 26, to 5e-16: over 1 + 2z a polynomial in t = (z-3.5)/(z+3.5),
 * interpolated at Chebyshev's points in 60 digits. */
INSIDE double scaled_erfc_double(double z)
{
    const double slow = 1.0 + 2.0 * z, inverse = 1.0 / ((z + 3.5) * slow);
    const double t = (z - 3.5) * slow * inverse, square = t * t;
    double even = 2.9780870641048765e-09, odd = 1.186008566556313e-08;
    even = even * square - 8.620964555340838e-09;
    odd = odd * square - 9.754928384542398e-08;
    even = even * square + 4.239230512221592e-09;
    odd = odd * square + 6.061933296755045e-07;
    even = even * square - 5.3252244118508874e-08;
    odd = odd * square - 3.81890318295837e-06;
    even = even * square + 2.3324009981767045e-06;
    odd = odd * square + 2.426301453731908e-05;
    even = even * square - 4.278340369889502e-05;
    odd = odd * square - 0.00012151302946364669;
    even = even * square + 0.0005643846286483718;
    odd = odd * square - 0.00030226776584473393;
    even = even * square - 0.0042150199307630625;
    odd = odd * square + 0.019099330930084403;
    even = even * square - 0.048823325826502444;
    odd = odd * square + 0.08798315382561447;
    even = even * square - 0.1150895981602328;
    odd = odd * square + 0.09751909515323764;
    even = even * square - 0.010555596332217882;
    odd = odd * square - 0.14000918013761923;
    even = even * square + 1.2423492448711544;
    return (even + t * odd) * (z + 3.5) * inverse;
}

/* The same in single precision, for -81 <= y <= 0 and 0 <= z <= 9, to 1e-6. */
INSIDE float exp_single(float y)
{
    const int k = (int)(y * 1.44269504f - 0.5f);
    const float x = y - k * 0.693147181f;
    float p = 1.0f / 720.0f, scale;
    p = p * x + 1.0f / 120.0f;
    p = p * x + 1.0f / 24.0f;
    p = p * x + 1.0f / 6.0f;
    p = p * x + 0.5f;
    p = p * x + 1.0f;
    p = p * x + 1.0f;
    const int32_t bits = (k + 127) << 23;
    memcpy(&scale, &bits, sizeof scale);
    return scale * p;
}

INSIDE float scaled_erfc_single(float z)
{
    const float slow = 1.0f + 2.0f * z, inverse = 1.0f / ((z + 2.5f) * slow);
    const float t = (z - 2.5f) * slow * inverse;
    float p = 4.543153e-4f;
    p = p * t + 3.222432e-4f;
    p = p * t - 4.299242e-3f;
    p = p * t + 1.0232421e-3f;
    p = p * t + 3.2745106e-2f;
    p = p * t - 1.02985734e-1f;
    p = p * t + 1.57631346e-1f;
    p = p * t - 9.9023235e-2f;
    p = p * t - 1.22356817e-1f;
    p = p * t + 1.26483817f;
    return p * (z + 2.5f) * inverse;
}
