#include "agent/collectors/alloc/chance.h"

#include <string.h>

#define LN2 0.69314718055994531
#define DISTANCE_MAX (1ll << 50)

/* xorshift64* */
static uint64_t next(uint64_t *random)
{
    uint64_t x = *random;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *random = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

double pb_chance_uniform(uint64_t *random)
{
    return (double)(next(random) >> 11) / 9007199254740992.0;
}

/*
 * -ln(r / 2^64) for r = m·2^(63 - z), m in [1, 2): (1 + z)·ln 2 - ln m, with the series of the
 * inverse hyperbolic tangent for ln m, good to a millionth.
 */
int64_t pb_chance_distance(uint64_t *random, double every)
{
    uint64_t r = next(random) | 1;
    int z = __builtin_clzll(r);
    double m = (double)(r << z) / 9223372036854775808.0, s = (m - 1) / (m + 1), q = s * s;
    double ln = 2 * s * (1 + q * (1.0 / 3 + q * (1.0 / 5 + q * (1.0 / 7 + q / 9))));
    double distance = every * ((1 + z) * LN2 - ln);

    return distance < 1 ? 1 : distance > (double)DISTANCE_MAX ? DISTANCE_MAX : (int64_t)distance;
}

/* 2^-n for a small n. */
static double half_to(int n)
{
    uint64_t bits = (uint64_t)(1023 - n) << 52;
    double v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

double pb_chance_of(uint64_t size, double every)
{
    double x = (double)size / every, term, sum = 0, whole;
    int n = x < 40 ? (int)(x / LN2) : 0;

    if (x >= 40)
        return 1;
    x -= n * LN2; /* now in [0, ln 2): 1 - exp(-x) by its series, good for tiny x as well */
    term = x;
    for (int i = 2; i < 16; i++) {
        sum += term;
        term *= -x / i;
    }
    whole = 1 - half_to(n) * (1 - sum);
    whole = n ? whole : sum;
    return whole > 1e-12 ? whole : 1e-12;
}

double pb_chance_sqrt(double v)
{
    double x = v > 1 ? v : 1;

    for (int i = 0; i < 64 && v > 0; i++) {
        double better = (x + v / x) / 2;

        if (better >= x && i > 8)
            break;
        x = better;
    }
    return v > 0 ? x : 0;
}
