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

/* exp(y) for -700 < y <= 0: 2^k 2^f with |f| <= 1/2, and of 2^f a polynomial, interpolated at
 * Chebyshev's points in 60 digits. To (2 - y)e-16: the digits that a large y loses in y*log2(e) are
 * those of kernels that are nothing beside others. */
INSIDE double exp_double(double y)
{
    const double binary = y * 1.4426950408889634;
    const int k = (int)(binary - 0.5);
    const double f = binary - k, square = f * f;
    double even = 7.074194297288521e-09, odd = 4.4558179083360645e-10;
    even = even * square + 1.3215432535912375e-06;
    odd = odd * square + 1.0178057087733941e-07;
    even = even * square + 0.00015403530463724353;
    odd = odd * square + 1.5252733841556773e-05;
    even = even * square + 0.009618129107587256;
    odd = odd * square + 0.001333355814640647;
    even = even * square + 0.24022650695910158;
    odd = odd * square + 0.055504108664821625;
    even = even * square + 1.0;
    odd = odd * square + 0.6931471805599453;
    const int64_t bits = ((int64_t)k + 1023) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale * (even + f * odd);
}

/* exp(z*z)*erfc(z) for 0 <= z <= 26, to 5e-16: over z + 3.5 a polynomial in (z-3.5)/(z+3.5). */
INSIDE double scaled_erfc_double(double z)
{
    const double inverse = 1.0 / (z + 3.5), t = (z - 3.5) * inverse, square = t * t;
    double even = 9.064122176876408e-09, odd = 3.300507151120223e-09;
    even = even * square - 8.354326124700553e-08;
    odd = odd * square - 2.1737392824944747e-08;
    even = even * square + 5.505269711934844e-07;
    odd = odd * square + 1.161004850926845e-07;
    even = even * square - 3.3919940428208813e-06;
    odd = odd * square - 7.963571677178507e-07;
    even = even * square + 1.8647161677837903e-05;
    odd = odd * square + 7.244153523711784e-06;
    even = even * square - 4.2062152657059626e-05;
    odd = odd * square - 7.477708408443201e-05;
    even = even * square - 0.0013053546946169095;
    odd = odd * square + 0.0007145316833754595;
    even = even * square + 0.026518619882014535;
    odd = odd * square - 0.003177050342219257;
    even = even * square + 0.22573862164738975;
    odd = odd * square - 0.09231870663852546;
    even = even * square + 0.6941136466346449;
    odd = odd * square - 0.43525602671688723;
    even = even * square + 1.08705558926226;
    odd = odd * square - 0.937799724567112;
    return (even + t * odd) * inverse;
}

/* The same in single precision, for -81 <= y <= 0 and 0 <= z <= 9, to 1e-6. */
INSIDE float exp_single(float y)
{
    const float binary = y * 1.44269504f;
    const int k = (int)(binary - 0.5f);
    const float f = binary - k, square = f * f;
    float even = 0.000154614447f, odd = 0.00134004282f;
    even = even * square + 0.00961805668f;
    odd = odd * square + 0.0555032723f;
    even = even * square + 0.240226509f;
    odd = odd * square + 0.693147207f;
    even = even * square + 1.0f;
    const int32_t bits = (k + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale * (even + f * odd);
}

INSIDE float scaled_erfc_single(float z)
{
    const float inverse = 1.0f / (z + 2.5f), t = (z - 2.5f) * inverse, square = t * t;
    float even = 0.000683618852f, odd = 0.000171720207f;
    even = even * square - 0.00483907263f;
    odd = odd * square - 0.000520371214f;
    even = even * square + 0.0283681439f;
    odd = odd * square + 0.00841118217f;
    even = even * square + 0.453913583f;
    odd = odd * square - 0.171252617f;
    even = even * square + 1.05403183f;
    odd = odd * square - 0.804651816f;
    return (even + t * odd) * inverse;
}
