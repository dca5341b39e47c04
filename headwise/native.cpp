// Products of 8-bit numbers and a cached step of a plain decoder block, for few rows: what torch's operators compute.
// Compiled on the machine that runs it (`__init__.py`); the structures are repeated there, field by field.
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#if defined(__AVX512VNNI__)
typedef __m512i Lanes;
constexpr int BITS = 8;
static inline Lanes dot(Lanes sum, Lanes x, Lanes w) { return _mm512_dpbusd_epi32(sum, x, w); }
static inline Lanes four(int32_t x) { return _mm512_set1_epi32(x); }
#elif defined(__AVXVNNI__)
typedef __m256i Lanes;
constexpr int BITS = 8;
static inline Lanes dot(Lanes sum, Lanes x, Lanes w) { return _mm256_dpbusd_avx_epi32(sum, x, w); }
static inline Lanes four(int32_t x) { return _mm256_set1_epi32(x); }
#elif defined(__AVX2__)
typedef __m256i Lanes;
// two products of 8 bits overflow 16
constexpr int BITS = 7;
static inline Lanes dot(Lanes sum, Lanes x, Lanes w) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), _mm256_set1_epi16(1)));
}
static inline Lanes four(int32_t x) { return _mm256_set1_epi32(x); }
#else
#error "needs AVX2"
#endif

// outputs side by side, and how many such panels are computed at once
constexpr int64_t LANES = sizeof(Lanes) / 4, PANELS = LANES == 16 ? 2 : 1, MOST_ROWS = 8, LINE = 16;

// x W^T + b. `weight` is (out / LANES, in / 4, LANES, 4), padded with zeros; `sums` of its rows; inputs have `largest`.
struct Layer {
    int64_t in, out, largest;
    const int8_t *weight;
    const float *scales, *bias;
    const int32_t *sums;
};
struct Norm {
    const float *weight, *bias;
    float eps;
    int32_t on;
};
struct Attention {
    Layer project, output;
    Norm before, after;
    int64_t heads, kv_heads, head_dim;
};
enum Activation : int64_t { RELU, GELU };
struct Block {
    Attention own, cross;
    Layer inner, outer;
    Norm before, after;
    int64_t activation, crosses;
};
// keys and values of one layer and search; strides in numbers, of a sentence, a head and a key
struct Memory {
    float *keys, *values;
    int64_t key_strides[3], value_strides[3];
    int64_t length;
};
// rows of one search: `bias` hides keys from a row (0 or minus infinity), `lens` are those of the memory
struct Part {
    int64_t sentences, width;
    Memory own, cross;
    const float *bias;
    int64_t bias_strides[2];
    const int64_t *lens;
};

template <int ROWS>
static void panels(const Layer &layer, const uint8_t *x, int64_t stride, int64_t first, int64_t count, int32_t *sums) {
    const int64_t fours = (layer.in + 3) / 4;
    Lanes sum[ROWS][PANELS];
    for (auto &row : sum)
        for (auto &panel : row) panel = four(0);
    const Lanes *weight = (const Lanes *)layer.weight + first * fours;
    // a panel that is not there repeats the last one
    const int64_t next = count > 1 ? fours : 0;
    for (int64_t k = 0; k < fours; k++) {
        Lanes w[PANELS];
        for (int p = 0; p < PANELS; p++) w[p] = weight[k + p * next];
        for (int r = 0; r < ROWS; r++) {
            int32_t bytes;
            std::memcpy(&bytes, x + r * stride + 4 * k, 4);
            for (int p = 0; p < PANELS; p++) sum[r][p] = dot(sum[r][p], four(bytes), w[p]);
        }
    }
    std::memcpy(sums, sum, sizeof sum);
}

typedef void (*Panels)(const Layer &, const uint8_t *, int64_t, int64_t, int64_t, int32_t *);
static const Panels BY_ROWS[] = {nullptr,   panels<1>, panels<2>, panels<3>, panels<4>,
                                 panels<5>, panels<6>, panels<7>, panels<8>};

constexpr int64_t WIDE = 64;

// the smallest and the largest of every 64th number, and these; NaN counts for nothing
static void extremes(const float *x, int64_t count, float *lows, float *highs) {
    for (int64_t start = 0; start < count; start += WIDE) {
        const int64_t stop = std::min(WIDE, count - start);
        // compilers leave a reduction scalar
        for (int64_t i = 0; i < stop; i++) {
            lows[i] = x[start + i] < lows[i] ? x[start + i] : lows[i];
            highs[i] = x[start + i] > highs[i] ? x[start + i] : highs[i];
        }
    }
}

// the scale and the zero of all numbers, as `at::native::quantize` chooses them; false for NaN or infinity
static bool range(const float *x, int64_t count, int64_t largest, float &scale, int32_t &zero) {
    float lows[WIDE] = {}, highs[WIDE] = {}, check = 0;
    extremes(x, count, lows, highs);
    float low = *std::min_element(lows, lows + WIDE), high = *std::max_element(highs, highs + WIDE);
#pragma omp simd reduction(+ : check)
    for (int64_t i = 0; i < count; i++) check += x[i] * 0;
    if (check != 0) return false;
    double step = ((double)high - low) / largest;
    if ((float)step == 0 || std::isinf(1.0f / (float)step)) step = 0.1;
    constexpr float SMALLEST = 6.1e-5f;
    if (step < SMALLEST) {
        const float enlarged = SMALLEST / (float)step;
        step = SMALLEST, low *= enlarged;
        if (low == 0) high = SMALLEST * largest;
    }
    scale = (float)step;
    zero = (int32_t)std::min<double>(largest, std::max<double>(0, std::nearbyint(-low / step)));
    return true;
}

static void product(const Layer &layer, const float *x, int64_t rows, float *out) {
    float scale;
    int32_t zero;
    if (!range(x, rows * layer.in, layer.largest, scale, zero)) {
        std::fill(out, out + rows * layer.out, std::numeric_limits<float>::quiet_NaN());
        return;
    }
    static thread_local std::vector<uint8_t> rounded;
    const int64_t stride = (layer.in + 3) / 4 * 4;
    rounded.assign(rows * stride, 0);
    const float inverse = 1.0f / scale, shift = (float)zero, most = (float)layer.largest;
    for (int64_t r = 0; r < rows; r++) {
        uint8_t *to = rounded.data() + r * stride;
        const float *from = x + r * layer.in;
#pragma omp simd
        for (int64_t k = 0; k < layer.in; k++)
            to[k] = (uint8_t)(int32_t)std::min(most, std::max(0.0f, std::nearbyint(from[k] * inverse + shift)));
    }
    const int64_t count = (layer.out + LANES - 1) / LANES;
    alignas(64) int32_t sums[MOST_ROWS * PANELS * LANES];
    for (int64_t panel = 0; panel < count; panel += PANELS)
        for (int64_t r = 0; r < rows; r += MOST_ROWS) {
            const int64_t own = std::min(MOST_ROWS, rows - r), first = panel * LANES;
            BY_ROWS[own](layer, rounded.data() + r * stride, stride, panel, count - panel, sums);
            const int64_t wide = std::min(PANELS * LANES, layer.out - first);
            for (int64_t i = 0; i < own; i++) {
                const int32_t *sum = sums + i * PANELS * LANES;
                float *to = out + (r + i) * layer.out + first;
#pragma omp simd
                for (int64_t n = 0; n < wide; n++)
                    to[n] = (float)(sum[n] - zero * layer.sums[first + n]) * (scale * layer.scales[first + n]) +
                            layer.bias[first + n];
            }
        }
}

static void normalize(const Norm &norm, const float *x, float *out, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; r++, x += width, out += width) {
        if (!norm.on) {
            if (out != x) std::copy(x, x + width, out);
            continue;
        }
        float mean = 0, square = 0;
#pragma omp simd reduction(+ : mean)
        for (int64_t i = 0; i < width; i++) mean += x[i];
        mean /= width;
#pragma omp simd reduction(+ : square)
        for (int64_t i = 0; i < width; i++) square += (x[i] - mean) * (x[i] - mean);
        const float scale = 1 / std::sqrt(square / width + norm.eps);
#pragma omp simd
        for (int64_t i = 0; i < width; i++) out[i] = (x[i] - mean) * scale * norm.weight[i] + norm.bias[i];
    }
}

// Cephes' expf, for numbers of at most 0
#pragma omp declare simd
static inline float exponential(float x) {
    x = std::max(x, -87.0f);
    const float whole = std::nearbyint(x * 1.44269504f);
    x = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * x + 1.3981999507e-3f, y = y * x + 8.3334519073e-3f, y = y * x + 4.1665795894e-2f;
    y = y * x + 1.6666665459e-1f, y = y * x + 5.0000001201e-1f;
    y = y * x * x + x + 1;
    const int32_t bits = ((int32_t)whole + 127) << 23;
    float power;
    std::memcpy(&power, &bits, 4);
    return y * power;
}

// softmax(q k / sqrt(dim)) v over these keys; zeros where there are none. DIM is known to the compiler, or 0
template <int64_t DIM>
static void attend(const float *query, const float *keys, int64_t key_stride, int64_t next, const float *values, int64_t value_stride,
                   const int32_t *seen, int64_t count, int64_t any, float *weights, float *out) {
    const int64_t dim = DIM ? DIM : any;
    const float scale = 1 / std::sqrt((float)dim);
    float largest = -std::numeric_limits<float>::infinity(), total = 0;
    for (int64_t j = 0; j < count; j++) {
        const float *key = keys + seen[j] * key_stride, *value = values + seen[j] * value_stride;
        for (int64_t i = 0; i < dim; i += LINE) __builtin_prefetch(value + i), __builtin_prefetch(key + next + i);
        float score = 0;
#pragma omp simd reduction(+ : score)
        for (int64_t i = 0; i < dim; i++) score += query[i] * key[i];
        weights[j] = score * scale;
        largest = std::max(largest, weights[j]);
    }
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < count; j++) weights[j] = exponential(weights[j] - largest), total += weights[j];
    std::fill(out, out + dim, 0.0f);
    for (int64_t j = 0; j < count; j++) {
        const float *value = values + seen[j] * value_stride, weight = weights[j] / total;
#pragma omp simd
        for (int64_t i = 0; i < dim; i++) out[i] += weight * value[i];
    }
}

// of each row of a part, `queries` apart by `stride`, what its heads attend to
static void attend_all(const Attention &layer, const Part &part, const Memory &memory, bool own, const float *queries,
                       int64_t stride, float *out) {
    static thread_local std::vector<int32_t> seen_keys;
    static thread_local std::vector<float> kept_weights;
    seen_keys.resize(memory.length), kept_weights.resize(memory.length);
    int32_t *seen = seen_keys.data();
    float *weights = kept_weights.data();
    const int64_t dim = layer.head_dim, group = layer.heads / layer.kv_heads;
    const int64_t *k = memory.key_strides, *v = memory.value_strides;
    const auto head_attends = dim == 64 ? attend<64> : attend<0>;
    for (int64_t row = 0; row < part.sentences * part.width; row++) {
        const int64_t sentence = row / part.width;
        const int64_t length = own || !part.lens ? memory.length : std::min(memory.length, part.lens[sentence]);
        const float *bias = part.bias + sentence * part.bias_strides[0] + row % part.width * part.bias_strides[1];
        int64_t count = 0;
        for (int64_t key = 0; key < length; key++)
            if (!own || !part.bias || bias[key] == 0) seen[count++] = (int32_t)key;
        for (int64_t head = 0; head < layer.heads; head++, out += dim)
            head_attends(queries + row * stride + head * dim, memory.keys + sentence * k[0] + head / group * k[1], k[2], k[1],
                         memory.values + sentence * v[0] + head / group * v[1], v[2], seen, count, dim, weights, out);
    }
}

// writes the keys and values of this step behind those of the steps before
static void append(const Attention &layer, const Part &part, const float *packed, int64_t stride) {
    const Memory &memory = part.own;
    const int64_t dim = layer.head_dim;
    for (int64_t row = 0; row < part.sentences * part.width; row++)
        for (int64_t head = 0; head < layer.kv_heads; head++) {
            const int64_t sentence = row / part.width, place = memory.length - part.width + row % part.width;
            const int64_t *k = memory.key_strides, *v = memory.value_strides;
            const float *key = packed + row * stride + (layer.heads + head) * dim, *value = key + layer.kv_heads * dim;
            std::copy(key, key + dim, memory.keys + sentence * k[0] + head * k[1] + place * k[2]);
            std::copy(value, value + dim, memory.values + sentence * v[0] + head * v[1] + place * v[2]);
        }
}

static void heads_of(const Attention &layer, const Part &part, bool own, const float *packed, float *out) {
    const int64_t stride = layer.project.out;
    if (own) append(layer, part, packed, stride);
    attend_all(layer, part, own ? part.own : part.cross, own, packed, stride, out);
}

static void attention(const Attention &layer, const Part *parts, int64_t count, int64_t rows, bool own, float *x) {
    static thread_local std::vector<float> entering, packed, attended;
    const int64_t width = layer.project.in, stride = layer.project.out, wide = layer.heads * layer.head_dim;
    entering.resize(rows * width), packed.resize(rows * stride), attended.resize(rows * wide);
    normalize(layer.before, x, entering.data(), rows, width);
    product(layer.project, entering.data(), rows, packed.data());
    for (int64_t part = 0, row = 0; part < count; row += parts[part].sentences * parts[part].width, part++)
        heads_of(layer, parts[part], own, packed.data() + row * stride, attended.data() + row * wide);
    product(layer.output, attended.data(), rows, entering.data());
    for (int64_t i = 0; i < rows * width; i++) x[i] += entering[i];
    normalize(layer.after, x, x, rows, width);
}

extern "C" int bits() { return BITS; }
extern "C" int lanes() { return (int)LANES; }
extern "C" void multiply(const Layer *layer, const float *x, int64_t rows, float *out) { product(*layer, x, rows, out); }

// what the rows of one search attend to, from their projection
extern "C" void attend(const Attention *layer, const Part *part, int64_t own, const float *packed, float *out) {
    heads_of(*layer, *part, own, packed, out);
}

// one cached step of several searches, in place: x is (rows, width) of all of them
extern "C" void step(const Block *block, const Part *parts, int64_t count, float *x, int64_t rows) {
    attention(block->own, parts, count, rows, true, x);
    if (block->crosses) attention(block->cross, parts, count, rows, false, x);
    static thread_local std::vector<float> entering, inside;
    const int64_t width = block->inner.in;
    entering.resize(rows * width), inside.resize(rows * block->inner.out);
    normalize(block->before, x, entering.data(), rows, width);
    product(block->inner, entering.data(), rows, inside.data());
    for (auto &value : inside)
        value = block->activation == RELU ? std::max(value, 0.0f) : value * 0.5f * (1 + std::erf(value * 0.70710678f));
    product(block->outer, inside.data(), rows, entering.data());
    for (int64_t i = 0; i < rows * width; i++) x[i] += entering[i];
    normalize(block->after, x, x, rows, width);
}

// what `continuations` ranks: rows of logits, tokens that are forbidden, and whether a row may end
struct Ranked {
    int64_t sentences, beams, vocab, best;
    const float *logits;
    const double *totals;
    int64_t forbidden_count;
    const int64_t *forbidden;
    int64_t end;
    const uint8_t *early;
};
struct Candidate {
    float value;
    int64_t token;
};

// the best tokens of a row by log-probability; false where one is NaN or infinity, or none is finite
static bool rank(const float *x, const Ranked &of, bool early, std::vector<Candidate> &best) {
    const float lowest = -std::numeric_limits<float>::infinity();
    float lows[WIDE], highs[WIDE], total = 0;
    std::fill(lows, lows + WIDE, 0.0f), std::fill(highs, highs + WIDE, lowest);
    extremes(x, of.vocab, lows, highs);
    const float largest = *std::max_element(highs, highs + WIDE);
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < of.vocab; i++) total += exponential(x[i] - largest);
    if (!std::isfinite(total) || std::isinf(largest)) return false;
    const float normal = std::log(total);
    // so many numbers reach this one that enough of them are allowed
    const int64_t enough = of.best + of.forbidden_count + early;
    if (enough <= WIDE) std::nth_element(highs, highs + enough - 1, highs + WIDE, std::greater<float>());
    float bound = enough <= WIDE ? highs[enough - 1] - largest - normal : lowest;
    const auto is_allowed = [&](int64_t token) {
        if (early && token == of.end) return false;
        return std::find(of.forbidden, of.forbidden + of.forbidden_count, token) == of.forbidden + of.forbidden_count;
    };
    best.clear();
    for (int64_t start = 0; start < of.vocab; start += WIDE) {
        const int64_t stop = std::min(of.vocab, start + WIDE);
        int better = 0;
#pragma omp simd reduction(| : better)
        for (int64_t i = start; i < stop; i++) better |= x[i] - largest - normal >= bound;
        for (int64_t i = start; better && i < stop; i++) {
            const float value = x[i] - largest - normal;
            const bool full = (int64_t)best.size() == of.best;
            if (value < bound || (full && value == bound) || std::isinf(value) || !is_allowed(i)) continue;
            if (full) best.pop_back();
            // behind its equals, which have lower tokens
            const auto place = std::upper_bound(best.begin(), best.end(), value,
                                                [](float own, const Candidate &other) { return own > other.value; });
            best.insert(place, {value, i});
            if ((int64_t)best.size() == of.best) bound = best.back().value;
        }
    }
    return true;
}

// the best continuations of each sentence, best first: equal ones by row, then by token. Missing ones: minus infinity, -1.
// Returns whether all logits are finite or minus infinity.
extern "C" int continuations(const Ranked *of, double *totals, int64_t *rows, int64_t *tokens) {
    static thread_local std::vector<Candidate> best;
    for (int64_t sentence = 0; sentence < of->sentences; sentence++) {
        double *total = totals + sentence * of->best;
        int64_t *row = rows + sentence * of->best, *token = tokens + sentence * of->best, count = 0;
        for (int64_t beam = 0; beam < of->beams; beam++) {
            const int64_t own = sentence * of->beams + beam;
            if (!rank(of->logits + own * of->vocab, *of, of->early && of->early[sentence], best)) return 0;
            if (std::isinf(of->totals[own])) continue;
            for (const Candidate &candidate : best) {
                const double sum = of->totals[own] + (double)candidate.value;
                if (count == of->best && !(sum > total[count - 1])) break;
                int64_t place = count < of->best ? count++ : count - 1;
                for (; place > 0 && sum > total[place - 1]; place--)
                    total[place] = total[place - 1], row[place] = row[place - 1], token[place] = token[place - 1];
                total[place] = sum, row[place] = own, token[place] = candidate.token;
            }
        }
        for (; count < of->best; count++)
            total[count] = -std::numeric_limits<double>::infinity(), row[count] = sentence * of->beams, token[count] = -1;
    }
    return 1;
}
