/* Rows in ascending order, and what bandwidths are made of: quartiles, and the middle ones of all
 * pairs.
 */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Rows that are copied to the stack. */
#define SHORT 2048
/* Runs of values up to this length are put in order by insertion, longer ones by merging. */
#define FEW_VALUES 16
/* Values that follow a row and are larger than any, for loops that run over its end. */
#define BEYOND 8

/* Whether the sum of squares of a row is a number from which all of it can be told; no comparison
 * of doubles could say so, since -ffast-math takes every double for a number. */
static int is_usual(double square)
{
    uint64_t bits;
    memcpy(&bits, &square, sizeof bits);
    return (bits >> 52) < 0x7ff && square > 1e-200 && square < 1e200;
}

static void insert_in_order(double *v, ptrdiff_t n)
{
    for (ptrdiff_t i = 1; i < n; i++) {
        const double new = v[i];
        ptrdiff_t place = i;
        for (; place > 0 && v[place - 1] > new; place--)
            v[place] = v[place - 1];
        v[place] = new;
    }
}

/* Ascending, whatever the values are: runs are put in order, then merged two by two. */
static void merge_in_order(double *v, ptrdiff_t n, double *spare)
{
    for (ptrdiff_t i = 0; i < n; i += FEW_VALUES)
        insert_in_order(v + i, n - i < FEW_VALUES ? n - i : FEW_VALUES);
    for (ptrdiff_t width = FEW_VALUES; width < n; width *= 2) {
        for (ptrdiff_t begin = 0; begin < n; begin += 2 * width) {
            const ptrdiff_t middle = begin + width < n ? begin + width : n;
            const ptrdiff_t end = middle + width < n ? middle + width : n;
            ptrdiff_t i = begin, j = middle, k = begin;
            while (i < middle && j < end) {
                const double a = v[i], b = v[j];
                const ptrdiff_t second = b < a;
                spare[k++] = second ? b : a;
                i += 1 - second;
                j += second;
            }
            memcpy(spare + k, v + i, (size_t)(middle - i) * sizeof *v);
            memcpy(spare + k + middle - i, v + j, (size_t)(end - j) * sizeof *v);
        }
        memcpy(v, spare, (size_t)n * sizeof *v);
    }
}

/* The n <= SHORT finite values r in ascending order, in v, with BEYOND larger ones after them. They
 * are spread over bins first, which is all for most rows: mean and std say where bins are needed. */
static void in_order(const double *r, ptrdiff_t n, double mean, double std, double *v)
{
    int16_t bin[SHORT], ends[SHORT] = {0};
    double spare[SHORT];
    const double low = mean - 3.0 * std, unit = (double)n / (6.0 * std), last = (double)(n - 1);
    for (ptrdiff_t i = 0; i < n; i++)
        bin[i] = (int16_t)fmax(0.0, fmin(last, (r[i] - low) * unit));
    for (ptrdiff_t i = 0; i < n; i++)
        ends[bin[i]]++;
    for (ptrdiff_t b = 1; b < n; b++)
        ends[b] = (int16_t)(ends[b] + ends[b - 1]);
    for (ptrdiff_t i = n - 1; i >= 0; i--)
        v[--ends[bin[i]]] = r[i];
    for (ptrdiff_t b = 0; b < n; b++) { /* ends are starts now */
        const ptrdiff_t begin = ends[b], size = (b + 1 < n ? ends[b + 1] : n) - begin;
        if (size > FEW_VALUES)
            merge_in_order(v + begin, size, spare);
    }
    insert_in_order(v, n);
    for (int k = 0; k < BEYOND; k++)
        v[n + k] = DBL_MAX;
}

/* The place of a value among those given. */
static ptrdiff_t place_of(const double *given, double wanted)
{
    ptrdiff_t place = 0;
    while (given[place] != wanted)
        place++;
    return place;
}

/* A statistic of a row, and its derivatives: shares at four places. */
typedef struct {
    double value, shares[4];
    ptrdiff_t places[4];
} spread;

/* As row_interquartile_range in order_statistics.py, of ascending values. 0 where one of the four
 * has equals: which of them follows the range is decided there. */
static int quartile_spread(const double *r, const double *v, ptrdiff_t n, spread *found)
{
    const ptrdiff_t low = (n - 1) / 4, high = 3 * (n - 1) / 4;
    const double after_low = 0.25 * (double)((n - 1) % 4);
    const double after_high = 0.25 * (double)(3 * (n - 1) % 4);
    const ptrdiff_t ranks[4] = {low, low + 1 < n ? low + 1 : n - 1, high,
                                high + 1 < n ? high + 1 : n - 1};
    const double shares[4] = {after_low - 1.0, -after_low, 1.0 - after_high, after_high};
    found->value = 0.0;
    for (int k = 0; k < 4; k++) {
        const ptrdiff_t rank = ranks[k];
        const double value = v[rank];
        if ((rank > 0 && v[rank - 1] == value) || v[rank + 1] == value)
            return 0;
        found->shares[k] = shares[k];
        found->places[k] = place_of(r, value);
        /* numpy's sum of products, to the last digit */
        found->value = fma(shares[k], value - v[low], found->value);
    }
    return found->value > 0.0;
}

/* Pairs i < j of ascending values v with v[j] - v[i] <= distance: how many they are, and what they
 * weigh when c[i] is the weight of all values before i (NULL for equal weights). */
typedef struct {
    double distance, weight;
    ptrdiff_t pairs;
} within;

/* From j on to the first value beyond v[i] + distance, all of i + 1 .. j - 1 being within. Some
 * values follow that are larger than any. */
INSIDE ptrdiff_t reach_of(const double *v, double distance, ptrdiff_t i, ptrdiff_t j)
{
    const double end = v[i] + distance;
    j = j > i ? j : i + 1;
    while (v[j] <= end)
        j++;
    return j;
}

/* All pairs are counted on a path of 2n steps: to the next j where v[j] is within the distance of
 * v[i], else to the next i, whose run of neighbours ends at j. No branch could be foretold, so
 * there is none; and six parts of the path take turns, so that none waits for its last step. */
#define PARTS 6

static within pairs_within(const double *v, const double *c, ptrdiff_t n, double distance)
{
    within found = {distance, 0.0, 0};
    const ptrdiff_t steps = (2 * n + PARTS - 1) / PARTS;
    ptrdiff_t i[PARTS], j[PARTS];
    for (int part = 0; part < PARTS; part++) { /* where the path is after part * steps steps */
        const ptrdiff_t taken = part * steps < 2 * n ? part * steps : 2 * n;
        ptrdiff_t least = taken > n ? taken - n : 0, most = taken < n ? taken : n;
        while (least < most) {
            const ptrdiff_t middle = (least + most) / 2;
            if (v[taken - middle - 1] <= v[middle] + distance)
                most = middle;
            else
                least = middle + 1;
        }
        i[part] = least;
        j[part] = taken - least;
    }
    double weight[PARTS] = {0.0};
    ptrdiff_t ends[PARTS] = {0};
    for (ptrdiff_t step = 0; step < steps; step++)
        for (int part = 0; part < PARTS; part++) {
            const ptrdiff_t a = i[part], b = j[part], passed = v[b] <= v[a] + distance;
            ends[part] += b & (passed - 1);
            if (c)
                weight[part] += (double)(1 - passed) * (c[a + 1] - c[a]) * (c[b] - c[a + 1]);
            i[part] += 1 - passed;
            j[part] += passed;
        }
    for (int part = 0; part < PARTS; part++) {
        found.pairs += ends[part];
        found.weight += weight[part];
    }
    found.pairs -= n * (n + 1) / 2;
    if (!c)
        found.weight = (double)found.pairs;
    return found;
}

/* Few enough pairs to be put in order one by one. */
#define FEW 128

typedef struct {
    double distance, weight;
    ptrdiff_t first, second;
} pair;

/* The pairs with low < v[j] - v[i] <= high in the order of their distance; only the first one found
 * when they are more than a few, which then have all the same distance. */
static int pairs_between(const double *v, const double *c, ptrdiff_t n, double low, double high,
                         pair *pairs)
{
    int count = 0;
    for (ptrdiff_t i = 0, end = 1; i < n; i++) {
        end = reach_of(v, high, i, end);
        for (ptrdiff_t k = end - 1; k > i && (low < 0.0 || v[k] > v[i] + low); k--) {
            if (count == FEW)
                return 1;
            const pair new = {v[k] - v[i], c ? (c[i + 1] - c[i]) * (c[k + 1] - c[k]) : 1.0, i, k};
            int place = count++;
            for (; place > 0 && pairs[place - 1].distance > new.distance; place--)
                pairs[place] = pairs[place - 1];
            pairs[place] = new;
        }
    }
    return count;
}

/* The pair with the smallest distance beyond this one. */
static pair next_pair(const double *v, ptrdiff_t n, double distance)
{
    pair found = {DBL_MAX, 0.0, 0, n - 1};
    for (ptrdiff_t i = 0, j = 1; i < n; i++) {
        j = reach_of(v, distance, i, j);
        if (j < n && v[j] - v[i] < found.distance)
            found = (pair){v[j] - v[i], 0.0, i, j};
    }
    return found;
}

/* The pairs at the lower and the upper weighted median of the distances v[j] - v[i] of n > 1
 * ascending values, padded: found = {i, j, i, j}, as places in v or, unless that is NULL, among the
 * values as given. Distances up to low weigh less than half, up to
 * high at least half. Secant steps aim a little beyond the half, so that both ends come close. */
static void middle_pairs(const double *v, const double *c, ptrdiff_t n, const double *given,
                         ptrdiff_t *found)
{
    /* Twice the range, since v[0] + range may be rounded to less than the last value. */
    const double all = 0.5 * (double)n * (double)(n - 1), most = 2.0 * (v[n - 1] - v[0]);
    within low = {-1.0, 0.0, 0}, high = {most, all, n * (n - 1) / 2}, last = {0.0, 0.0, 0};
    if (c)
        high = pairs_within(v, c, n, most);
    const double half = 0.5 * high.weight, margin = 0.25 * FEW * high.weight / all;
    const double before = half * (1.0 - 1e-12), beyond = half * (1.0 + 1e-12);
    double guess = 0.7 * (v[3 * n / 4] - v[n / 4]);
    for (int count = 1; high.pairs - low.pairs > FEW; count++) {
        const double least = fmax(low.distance, 0.0);
        if ((count > 6 && count % 2 == 0) || !(guess > least && guess < high.distance))
            guess = 0.5 * (least + high.distance);
        if (!(guess > low.distance && guess < high.distance))
            break;
        const within at = pairs_within(v, c, n, guess);
        const int short_of_half = at.weight < before;
        if (short_of_half)
            low = at;
        else
            high = at;
        const double slope = (at.weight - last.weight) / (at.distance - last.distance);
        guess += (half + (short_of_half ? margin : -margin) - at.weight) / fmax(slope, 1e-300);
        last = at;
    }
    pair pairs[FEW];
    const int count = pairs_between(v, c, n, low.distance, high.distance, pairs);
    int lower = 0, upper = 0;
    double reached = low.weight + pairs[0].weight;
    for (; lower < count - 1 && reached < before; reached += pairs[lower].weight)
        lower++;
    for (upper = lower; upper < count - 1 && reached <= beyond; reached += pairs[upper].weight)
        upper++;
    const pair last_one = high.weight > beyond ? pairs[upper] : next_pair(v, n, high.distance);
    found[0] = pairs[lower].first;
    found[1] = pairs[lower].second;
    found[2] = last_one.first;
    found[3] = last_one.second;
    for (int k = 0; given && k < 4; k++)
        found[k] = place_of(given, v[found[k]]);
}

/* As row_median_distance in order_statistics.py, of ascending values, padded. */
static int pair_spread(const double *r, const double *v, ptrdiff_t n, spread *found)
{
    ptrdiff_t pairs[4];
    middle_pairs(v, NULL, n, r, pairs);
    for (int k = 0; k < 4; k++) {
        found->places[k] = pairs[k ^ 1];
        found->shares[k] = k % 2 ? -0.5 : 0.5;
    }
    const volatile double lower = r[pairs[1]] - r[pairs[0]], upper = r[pairs[3]] - r[pairs[2]];
    found->value = 0.5 * (lower + upper);
    return found->value > 0.0;
}
